"""What the paper “AidAI: Automated Incident Diagnosis for AI Workloads in the Cloud” says in words and tables of its evaluation, each with its
place. What stands only in a picture is not here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TICKETS: Final = 208
"""§6.1: a quarter of 778 tickets of one year."""
RECURRENCE_OF_GPU_FAULTS: Final = 8.78
"""Table 1: incidents of the category for each distinct fault in it, in a year."""


@dataclass(frozen=True, slots=True)
class Score:
    """Figure 8 in the words of §6.2; None where only the bar says it. `accuracy`: Figure 3 in the words of §2.3. `arm`: who plays it here."""

    method: str
    arm: str
    micro: float | None
    macro: float | None
    accuracy: float | None = None


FIGURE_8: Final = (
    Score("RCACopilot", "B2", None, 0.380, 0.481),
    Score("DID-o1", "B3", None, 0.424, 0.620),
    Score("CVD", "B4", None, 0.427),
    Score("TGD", "B5", 0.780, None),
    Score("AidAI", "B6", 0.854, 0.816),
)


@dataclass(frozen=True, slots=True)
class Category:
    """Tickets of the test set (§6.1), and how many of them one run left unsolved (§6.5)."""

    tickets: int
    unsolved: int


CATEGORIES: Final[Mapping[str, Category]] = {
    "GPU": Category(115, 9),
    "SYSTEM_SOFTWARE": Category(53, 12),
    "INTERCONNECT": Category(22, 3),
    "USER": Category(16, 4),
    "FRAMEWORK": Category(2, 0),
}


@dataclass(frozen=True, slots=True)
class Pipelines:
    """A line of Table 3: resolved by the first so many pipelines, a mean of several runs."""

    says: str
    resolved: float


TABLE_3: Final = (
    Pipelines("history (#1)", 107.0),
    Pipelines("+ taxonomy (#2)", 174.9),
    Pipelines("+ exploration (#3)", 179.6),
)


@dataclass(frozen=True, slots=True)
class Removed:
    """A line of Table 4. `label`: what it is called in the taxonomy of this project."""

    kind: str
    named: str
    label: str
    before: float
    after: float


TABLE_4: Final = (
    Removed("simple", "GPU.MEMORY.infoROM_Corruption", "GPU.MEMORY.InfoROM_Corruption", 1.0, 0.75),
    Removed("simple", "SYSTEM_SOFTWARE.CUDA.Illegal_Mem_Access", "USER.CODE.Illegal_Memory_Access", 1.0, 0.938),
    Removed("complex", "SYSTEM_SOFTWARE.CUDA.Host_VM_Version_Mismatch", "SYSTEM_SOFTWARE.CUDA.Host_Container_CUDA_Mismatch", 0.425, 0.0),
)


@dataclass(frozen=True, slots=True)
class Calls:
    """A line of Table 5: a mean incident. `rates`: USD for a million tokens in and out, as OpenAI listed them then."""

    method: str
    arm: str
    calls: float
    tokens_in: float
    tokens_out: float
    usd: float
    rates: tuple[float, float] = (2.5, 10.0)

    @property
    def reckoned(self) -> float:
        """The price from its tokens."""
        return (self.tokens_in * self.rates[0] + self.tokens_out * self.rates[1]) / 1e6


TABLE_5: Final = (
    Calls("RCACopilot", "B2", 1.13, 817.1, 109.6, 0.003),
    Calls("DID-o1", "B3", 1, 2877.6, 136.9, 0.051, (15.0, 60.0)),
    Calls("CVD", "B4", 1, 8037.2, 160.5, 0.022),
    Calls("TGD", "", 18.17, 82070.0, 4735.5, 0.253),
    Calls("AidAI", "B6", 10.2, 31801.2, 2224.9, 0.102),
)

FIGURE_10: Final[Mapping[str, float]] = {"CVD": 830.0, "TGD": 568.6, "AidAI": 304.0}
"""Seconds of verification, a mean incident on one machine, as §6.3 says them."""
FIGURE_11: Final = "new labels in each of 12 months, 2023-04 to 2024-03: fewer as time goes on (§6.3)"
FIGURE_12: Final = (
    "Llama 3.1 8B and 70B, Qwen 2.5 7B, 32B and 72B, GPT-4o: larger ones are mostly better, Qwen 2.5 72B best of those that are open (§6.4)"
)
"""Both in words alone: their bars stand in pictures."""
