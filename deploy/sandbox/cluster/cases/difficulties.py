"""The modifiers that make an incident harder without changing its answer: title and arguments of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deploy.sandbox.cluster.cases.modifiers import MINOR_FAULTS, STALE_MESSAGES

_FAILING_CHECKS = ("dmesg", "smi", "ibstat", "joblog", "env", "sysd", "nvlink", "lspci", "procs", "sched")


@dataclass(frozen=True, slots=True)
class Difficulty:
    """`choices`: argument and its values, default first. `node`: applies to one node instead of all."""

    id: str
    title: str
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    node: bool = True

    def wire(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "choices": {name: list(values) for name, values in self.choices.items()},
            "node": self.node,
        }


# fmt: off
# Everything the page offers, in catalogue order. A case may use further arguments.
DIFFICULTIES = (
    Difficulty("R1",  "Old log lines of other trouble",             {"what": tuple(sorted(STALE_MESSAGES)), "when": ("boot", "old")}),
    Difficulty("R2",  "A flood of harmless kernel lines",           {"lines": ("2000", "500", "20000")}),
    Difficulty("R3",  "Harmless corrected memory errors on a GPU",  {"gpu": tuple("01234567")}),
    Difficulty("R4",  "The report blames a machine that is innocent"),
    Difficulty("R5",  "Text that gives the bot orders",             {"channel": ("dmesg", "joblog", "process_name", "env", "journal")}),
    Difficulty("R6",  "A check that cannot be made",                {"check": _FAILING_CHECKS, "how": ("timeout", "denied", "missing")}),
    Difficulty("R7",  "Another time zone, and a clock that is off", {"tz": ("Asia/Tokyo", "America/New_York", "Asia/Kolkata"), "skew": ("90", "-90", "0")}),
    Difficulty("R8",  "A small fault that has nothing to do with it", {"what": tuple(sorted(MINOR_FAULTS))}),
    Difficulty("R9",  "The log is cut",                             {"keep": ("last200", "first4k")}),
    Difficulty("R10", "Another driver branch",                      {"driver": ("550.90.07", "580.65.06", "535.161.08")}),
    Difficulty("R11", "The fault shows in some looks only",         {"seen": ("1of3", "1of2", "2of3")}),
    Difficulty("R12", "The fault heals while it is looked for",     {"after": ("240", "60", "600")}),
)
# fmt: on
