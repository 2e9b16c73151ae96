"""What models cost, what incidents have spent, and what they may spend. Spending is written down before anybody may spend again."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from graph.model.reasoner import ModelSpend


class SpendStore(Protocol):
    """Where spending survives the process and is shared between processes."""

    async def load_spend(self, incident: str) -> ModelSpend: ...

    async def add_spend(self, incident: str, spent: ModelSpend) -> ModelSpend:
        """Add atomically; answers the new sum."""
        ...


@runtime_checkable
class SpendLoader(Protocol):
    """A reasoner whose spending outlives the process: to be loaded before a turn asks what an incident has cost."""

    async def load_spend(self, incident: str) -> None: ...


class InMemorySpendStore:
    """Of this process alone."""

    def __init__(self) -> None:
        self._rows: dict[str, ModelSpend] = {}

    async def load_spend(self, incident: str) -> ModelSpend:
        return self._rows.get(incident, ModelSpend())

    async def add_spend(self, incident: str, spent: ModelSpend) -> ModelSpend:
        self._rows[incident] = sum_spend(self._rows.get(incident, ModelSpend()), spent)
        return self._rows[incident]


@dataclass(frozen=True, slots=True)
class Budget:
    """What one incident may spend, over all its turns."""

    calls: int = 20
    tokens: int = 60_000
    usd: float = 0.10

    def find_refusal(self, so_far: ModelSpend, next_usd: float, next_tokens: int) -> str:
        """Why the next call is not made; empty when it may be."""
        if so_far.calls >= self.calls:
            return f"this incident has used its {self.calls} model calls"
        if so_far.tokens_in + so_far.tokens_out + next_tokens > self.tokens:
            return f"this incident has used its {self.tokens} model tokens"
        if so_far.usd + next_usd > self.usd:
            return f"this incident has spent its ${self.usd:.2f} for the model"
        return ""


def sum_spend(a: ModelSpend, b: ModelSpend) -> ModelSpend:
    return ModelSpend(a.calls + b.calls, a.tokens_in + b.tokens_in, a.tokens_out + b.tokens_out, a.usd + b.usd)


def estimate_tokens(characters: int) -> int:
    """Tokens of so many characters of English and logs, rather too many than too few; counting exactly needs a download."""
    return math.ceil(characters / 3)


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Dollars per million tokens."""

    usd_in: float
    usd_out: float

    def compute_usd(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self.usd_in + tokens_out * self.usd_out) / 1_000_000


# fmt: off
MODEL_PRICES = {
    #  prefix of the model id    in     out
    "gpt-4o-mini":         TokenPrice(0.15,  0.60),
    "gpt-4o":              TokenPrice(2.50, 10.00),
    "gpt-4.1-nano":        TokenPrice(0.10,  0.40),
    "gpt-4.1-mini":        TokenPrice(0.40,  1.60),
    "gpt-4.1":             TokenPrice(2.00,  8.00),
    "gpt-5-nano":          TokenPrice(0.05,  0.40),
    "gpt-5-mini":          TokenPrice(0.25,  2.00),
    "gpt-5":               TokenPrice(1.25, 10.00),
    "o4-mini":             TokenPrice(1.10,  4.40),
    "o3":                  TokenPrice(2.00,  8.00),
}
# fmt: on
"""As their makers listed them; a table, so that a site can give its own row."""

UNKNOWN_MODEL_PRICE = MODEL_PRICES["gpt-4o"]
"""A model we have no price of is charged to the budget as a dear one: a budget must not be overrun for want of a row."""


def find_price(model: str) -> TokenPrice:
    """The row with the longest prefix; `vendor/model` ids are looked up by their last part."""
    name = model.rpartition("/")[2]
    fitting = [prefix for prefix in MODEL_PRICES if name.startswith(prefix)]
    return MODEL_PRICES[max(fitting, key=len)] if fitting else UNKNOWN_MODEL_PRICE
