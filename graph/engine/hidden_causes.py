"""Causes that show in no passive look: they fit what people complain of, and only an exclusive check can tell. Pure.

So does a complaint that names what one check measures ("slow all_reduce"): only the measurement says whether it is so.

Learnt from a GPU that computes wrong numbers while every health check is green: "nothing is broken" was said of it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from graph.engine.coverage import Coverage
from graph.engine.reference_data import ReferenceData
from graph.engine.verdict import LabelVerdict
from kb.taxonomy.taxonomy import Leaf
from tools.checks.check import Check
from tools.inventory.host_ranges import fold_host_names

MIN_HOSTS_BY_SCOPE = {"pair": 2, "group": 3}
"""Hosts from which a check of several can tell who is guilty: it needs good ones to compare with."""
MAX_LIKELY_CAUSES = 3
"""Of the causes that fit a symptom and are still possible only so many deserve a look that takes machines for itself."""


@dataclass(frozen=True, slots=True)
class HiddenCause:
    """A cause, the exclusive checks of which each can tell (cheapest first), the hosts where none has looked, and why where one was asked."""

    leaf: Leaf
    checks: tuple[Check, ...]
    hosts: tuple[str, ...]
    why: str = ""
    measured: bool = False
    """The report complains of exactly what the check measures."""

    @property
    def check_names(self) -> str:
        """The checks in words."""
        return " or ".join(check.id for check in self.checks)

    @property
    def says(self) -> str:
        """The cause, how it would show, and why that is not known."""
        where = fold_host_names(self.hosts)
        if self.measured:
            return f"what is reported as slow is measured by {self.check_names}, which did not look at {where}{f' ({self.why})' if self.why else ''}"
        return (
            f"{self.leaf.title} would show in {self.check_names} alone, which did not look at {where}{f' ({self.why})' if self.why else ''}"
        )


def find_hidden_causes(
    standings: Iterable[LabelVerdict],
    symptoms: Collection[str],
    lens: ReferenceData,
    coverage: Coverage,
    measured: Iterable[Sequence[str]] = (),
) -> tuple[HiddenCause, ...]:
    """Return those among the likeliest causes of the symptoms. `standings` come most likely first; `coverage` is of the hosts complained of;
    `measured`: checks that measure exactly what is complained of, each with its alternatives for fewer hosts."""
    fitting = [row for row in standings if not set(symptoms).isdisjoint(row.best.leaf.symptoms)]
    rows = [
        (row, _build_hidden_cause(row.best.leaf, _list_exclusive_checks(row.best.leaf, lens), coverage))
        for row in fitting
        if row.verdict != "confirmed"
    ]
    possible = [hidden for row, hidden in rows if hidden is not None or row.verdict != "rejected"]
    found = tuple(hidden for hidden in possible[:MAX_LIKELY_CAUSES] if hidden is not None)
    asked = (_find_measured_cause(names, fitting, lens, coverage) for names in measured)
    return (*found, *(row for row in asked if row is not None))


def _find_measured_cause(
    names: Sequence[str], fitting: Sequence[LabelVerdict], lens: ReferenceData, coverage: Coverage
) -> HiddenCause | None:
    """Return the first check of the alternatives that can run on so many hosts, with the likeliest cause that it can confirm."""
    able = (lens.checks[name] for name in names if name in lens.checks)
    check = next((one for one in able if len(coverage.hosts) >= MIN_HOSTS_BY_SCOPE.get(one.scope, 1)), None)
    leaf = next((row.best.leaf for row in fitting if check and check.id in row.best.leaf.confirms), None)
    hidden = _build_hidden_cause(leaf, [check], coverage) if check and leaf else None
    return replace(hidden, measured=True) if hidden else None


def _build_hidden_cause(leaf: Leaf, checks: Sequence[Check], coverage: Coverage) -> HiddenCause | None:
    hosts = tuple(host for host in coverage.hosts if not any(coverage.has_observed(host, check.id) for check in checks))
    why = next((coverage.skipped[host, check.id] for check in checks for host in hosts if (host, check.id) in coverage.skipped), "")
    return HiddenCause(leaf, tuple(checks), hosts, why) if checks and hosts else None


def _list_exclusive_checks(leaf: Leaf, lens: ReferenceData) -> Sequence[Check]:
    """What can tell of a cause that no passive check can; empty where one can, or nothing."""
    if lens.list_deciding_checks(leaf):
        return ()
    able = {check.id for key in lens.list_decisive_keys(leaf) for check in lens.list_establishing_checks(key) if check.exclusive}
    return sorted((lens.checks[name] for name in leaf.confirms if name in able), key=lambda check: (check.seconds, check.id))
