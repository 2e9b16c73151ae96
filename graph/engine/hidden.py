"""Causes that show in no passive look: they fit what people complain of, and only an exclusive check can tell. Pure.

So does a complaint that names what one check measures ("slow all_reduce"): only the measurement says whether it is so.

Learnt from a GPU that computes wrong numbers while every health check is green: "nothing is broken" was said of it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from graph.engine.coverage import Coverage
from graph.engine.reference import Lens
from graph.engine.verdict import Standing
from kb.taxonomy.labels import Leaf
from tools.checks.row import Check
from tools.inventory.ranges import fold

FEWEST = {"pair": 2, "group": 3}
"""Hosts from which a check of several can tell who is guilty: it needs good ones to compare with."""
LIKELIEST = 3
"""Of the causes that fit a symptom and are still possible only so many deserve a look that takes machines for itself."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A cause, the exclusive checks of which each can tell (cheapest first), the hosts where none has looked, and why where one was asked."""

    leaf: Leaf
    checks: tuple[Check, ...]
    hosts: tuple[str, ...]
    why: str = ""
    measured: bool = False
    """The report complains of exactly what the check measures."""

    @property
    def names(self) -> str:
        """The checks in words."""
        return " or ".join(check.id for check in self.checks)

    @property
    def says(self) -> str:
        """The cause, how it would show, and why that is not known."""
        where = fold(self.hosts)
        if self.measured:
            return (
                f"what is reported as slow is measured by {self.names}, which did not look at {where}{f' ({self.why})' if self.why else ''}"
            )
        return f"{self.leaf.title} would show in {self.names} alone, which did not look at {where}{f' ({self.why})' if self.why else ''}"


def hidden_causes(
    standings: Iterable[Standing], symptoms: Collection[str], lens: Lens, coverage: Coverage, measured: Iterable[Sequence[str]] = ()
) -> tuple[Hidden, ...]:
    """Return those among the likeliest causes of the symptoms. `standings` come most likely first; `coverage` is of the hosts complained of;
    `measured`: checks that measure exactly what is complained of, each with its alternatives for fewer hosts."""
    fitting = [row for row in standings if not set(symptoms).isdisjoint(row.best.leaf.symptoms)]
    rows = [(row, _hidden(row.best.leaf, _only_exclusive(row.best.leaf, lens), coverage)) for row in fitting if row.verdict != "confirmed"]
    possible = [hidden for row, hidden in rows if hidden is not None or row.verdict != "rejected"]
    found = tuple(hidden for hidden in possible[:LIKELIEST] if hidden is not None)
    asked = (_measured(names, fitting, lens, coverage) for names in measured)
    return (*found, *(row for row in asked if row is not None))


def _measured(names: Sequence[str], fitting: Sequence[Standing], lens: Lens, coverage: Coverage) -> Hidden | None:
    """Return the first check of the alternatives that can run on so many hosts, with the likeliest cause that it can confirm."""
    able = (lens.checks[name] for name in names if name in lens.checks)
    check = next((one for one in able if len(coverage.hosts) >= FEWEST.get(one.scope, 1)), None)
    leaf = next((row.best.leaf for row in fitting if check and check.id in row.best.leaf.confirms), None)
    hidden = _hidden(leaf, [check], coverage) if check and leaf else None
    return replace(hidden, measured=True) if hidden else None


def _hidden(leaf: Leaf, checks: Sequence[Check], coverage: Coverage) -> Hidden | None:
    hosts = tuple(host for host in coverage.hosts if not any(coverage.looked(host, check.id) for check in checks))
    why = next((coverage.skipped[host, check.id] for check in checks for host in hosts if (host, check.id) in coverage.skipped), "")
    return Hidden(leaf, tuple(checks), hosts, why) if checks and hosts else None


def _only_exclusive(leaf: Leaf, lens: Lens) -> Sequence[Check]:
    """What can tell of a cause that no passive check can; empty where one can, or nothing."""
    if lens.deciding(leaf):
        return ()
    able = {check.id for key in lens.decisive_keys(leaf) for check in lens.establishing(key) if check.exclusive}
    return sorted((lens.checks[name] for name in leaf.confirms if name in able), key=lambda check: (check.seconds, check.id))
