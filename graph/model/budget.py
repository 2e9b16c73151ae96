"""Model prices, spending per incident, and limits. Spending is recorded before the next call may be made."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from graph.model.reasoner import ModelSpend


class SpendStore(Protocol):
    """Spending per incident, shared between processes and kept across restarts."""

    async def load_spend(self, incident: str) -> ModelSpend: ...

    async def add_spend(self, incident: str, spent: ModelSpend) -> ModelSpend:
        """Add atomically and return the new sum."""
        ...


@runtime_checkable
class SpendLoader(Protocol):
    """A reasoner whose spending is persistent and must be loaded before an incident's cost is read."""

    async def load_spend(self, incident: str) -> None: ...


class InMemorySpendStore:
    def __init__(self) -> None:
        self._spend_by_incident: dict[str, ModelSpend] = {}

    async def load_spend(self, incident: str) -> ModelSpend:
        return self._spend_by_incident.get(incident, ModelSpend())

    async def add_spend(self, incident: str, spent: ModelSpend) -> ModelSpend:
        self._spend_by_incident[incident] = sum_spend(self._spend_by_incident.get(incident, ModelSpend()), spent)
        return self._spend_by_incident[incident]


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits per incident, over all turns."""

    calls: int = 20
    tokens: int = 60_000
    usd: float = 0.10

    def find_refusal(self, spent: ModelSpend, next_usd: float, next_tokens: int) -> str:
        """Return why the next call is refused, or an empty string."""
        if spent.calls >= self.calls:
            return f"this incident has used its {self.calls} model calls"
        if spent.tokens_in + spent.tokens_out + next_tokens > self.tokens:
            return f"this incident has used its {self.tokens} model tokens"
        if spent.usd + next_usd > self.usd:
            return f"this incident has spent its ${self.usd:.2f} for the model"
        return ""


def sum_spend(a: ModelSpend, b: ModelSpend) -> ModelSpend:
    return ModelSpend(a.calls + b.calls, a.tokens_in + b.tokens_in, a.tokens_out + b.tokens_out, a.usd + b.usd)


def estimate_tokens(characters: int) -> int:
    """Return a high estimate for English and logs; exact counting needs a download."""
    return math.ceil(characters / 3)


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Dollars per million tokens."""

    usd_in: float
    usd_out: float

    def compute_usd(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self.usd_in + tokens_out * self.usd_out) / 1_000_000


# fmt: off
# List prices of the model vendors; a site can set its own price.
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

# Price of a model that is not listed. It is high, so that a missing price never overruns a budget.
UNKNOWN_MODEL_PRICE = MODEL_PRICES["gpt-4o"]


def find_price(model: str) -> TokenPrice:
    """Return the price with the longest prefix of the model's name, which is the last part of a `vendor/model` id."""
    name = model.rpartition("/")[2]
    prefixes = [prefix for prefix in MODEL_PRICES if name.startswith(prefix)]
    return MODEL_PRICES[max(prefixes, key=len)] if prefixes else UNKNOWN_MODEL_PRICE
