"""Figures from the evaluation of “AidAI: Automated Incident Diagnosis for AI Workloads in the Cloud”, each with its
place. Values given only in a picture are omitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TICKETS: Final = 208  # §6.1: a quarter of 778 tickets of one year
RECURRENCE_OF_GPU_FAULTS: Final = 8.78  # Table 1: incidents per distinct fault of the category in a year


@dataclass(frozen=True, slots=True)
class Score:
    """Figure 8 as §6.2 words it; None where only the bar shows it. `accuracy`: Figure 3 as §2.3 words it. `arm`: the
    counterpart here.
    """

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
    """Test set tickets (§6.1), and unsolved ones in one run (§6.5)."""

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
    """A line of Table 3: tickets resolved by the first pipelines, mean of several runs."""

    says: str
    resolved: float


TABLE_3: Final = (
    Pipelines("history (#1)", 107.0),
    Pipelines("+ taxonomy (#2)", 174.9),
    Pipelines("+ exploration (#3)", 179.6),
)


@dataclass(frozen=True, slots=True)
class Removed:
    """A line of Table 4. `label`: the name in this project's taxonomy."""

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
    """A line of Table 5: a mean incident. `rates`: OpenAI's list price then, USD per million tokens in and out."""

    method: str
    arm: str
    calls: float
    tokens_in: float
    tokens_out: float
    usd: float
    rates: tuple[float, float] = (2.5, 10.0)

    @property
    def reckoned(self) -> float:
        """Return the price computed from the tokens."""
        return (self.tokens_in * self.rates[0] + self.tokens_out * self.rates[1]) / 1e6


TABLE_5: Final = (
    Calls("RCACopilot", "B2", 1.13, 817.1, 109.6, 0.003),
    Calls("DID-o1", "B3", 1, 2877.6, 136.9, 0.051, (15.0, 60.0)),
    Calls("CVD", "B4", 1, 8037.2, 160.5, 0.022),
    Calls("TGD", "", 18.17, 82070.0, 4735.5, 0.253),
    Calls("AidAI", "B6", 10.2, 31801.2, 2224.9, 0.102),
)

# verification seconds of a mean incident on one machine (§6.3)
FIGURE_10: Final[Mapping[str, float]] = {"CVD": 830.0, "TGD": 568.6, "AidAI": 304.0}
FIGURE_11: Final = "new labels in each of 12 months, 2023-04 to 2024-03: fewer as time goes on (§6.3)"
# both given only in words; the bars are pictures
FIGURE_12: Final = (
    "Llama 3.1 8B and 70B, Qwen 2.5 7B, 32B and 72B, GPT-4o: larger ones are mostly better, Qwen 2.5 72B best of those that are open (§6.4)"
)
