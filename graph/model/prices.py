"""What models cost, in dollars per million tokens, as their makers listed it. A table, so that a site can give its own row."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Price:
    usd_in: float
    usd_out: float

    def of(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self.usd_in + tokens_out * self.usd_out) / 1_000_000


# fmt: off
PRICES = {
    #  prefix of the model id    in     out
    "gpt-4o-mini":         Price(0.15,  0.60),
    "gpt-4o":              Price(2.50, 10.00),
    "gpt-4.1-nano":        Price(0.10,  0.40),
    "gpt-4.1-mini":        Price(0.40,  1.60),
    "gpt-4.1":             Price(2.00,  8.00),
    "gpt-5-nano":          Price(0.05,  0.40),
    "gpt-5-mini":          Price(0.25,  2.00),
    "gpt-5":               Price(1.25, 10.00),
    "o4-mini":             Price(1.10,  4.40),
    "o3":                  Price(2.00,  8.00),
}
# fmt: on
UNKNOWN = PRICES["gpt-4o"]
"""A model we have no price of is charged to the budget as a dear one: a budget must not be overrun for want of a row."""


def price_of(model: str) -> Price:
    """The row with the longest prefix; `vendor/model` ids are looked up by their last part."""
    name = model.rpartition("/")[2]
    fitting = [prefix for prefix in PRICES if name.startswith(prefix)]
    return PRICES[max(fitting, key=len)] if fitting else UNKNOWN
