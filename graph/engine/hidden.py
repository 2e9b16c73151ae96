"""Causes that show in no passive look: they fit what people complain of, and only an exclusive check can tell. Pure.

Learnt from a GPU that computes wrong numbers while every health check is green: "nothing is broken" was said of it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from graph.engine.coverage import Coverage
from graph.engine.reference import Lens
from graph.engine.verdict import Standing
from kb.taxonomy.labels import Leaf
from tools.checks.row import Check
from tools.inventory.ranges import fold

LIKELIEST = 3
"""Of the causes that fit a symptom and are still possible only so many deserve a look that takes machines for itself."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A cause, the exclusive checks of which each can tell (cheapest first), the hosts where none has looked, and why where one was asked."""

    leaf: Leaf
    checks: tuple[Check, ...]
    hosts: tuple[str, ...]
    why: str = ""

    @property
    def names(self) -> str:
        """The checks in words."""
        return " or ".join(check.id for check in self.checks)

    @property
    def says(self) -> str:
        """The cause, how it would show, and why that is not known."""
        where = fold(self.hosts)
        return f"{self.leaf.title} would show in {self.names} alone, which did not look at {where}{f' ({self.why})' if self.why else ''}"


def hidden_causes(standings: Iterable[Standing], symptoms: Collection[str], lens: Lens, coverage: Coverage) -> tuple[Hidden, ...]:
    """Those among the likeliest causes of the symptoms. `standings` come most likely first."""
    fitting = [row for row in standings if not set(symptoms).isdisjoint(row.best.leaf.symptoms)]
    rows = [(row, _hidden(row.best.leaf, lens, coverage)) for row in fitting if row.verdict != "confirmed"]
    possible = [hidden for row, hidden in rows if hidden is not None or row.verdict != "rejected"]
    return tuple(hidden for hidden in possible[:LIKELIEST] if hidden is not None)


def _hidden(leaf: Leaf, lens: Lens, coverage: Coverage) -> Hidden | None:
    checks = _only_exclusive(leaf, lens)
    hosts = tuple(host for host in coverage.hosts if not any(coverage.looked(host, check.id) for check in checks))
    why = next((coverage.skipped[host, check.id] for check in checks for host in hosts if (host, check.id) in coverage.skipped), "")
    return Hidden(leaf, tuple(checks), hosts, why) if checks and hosts else None


def _only_exclusive(leaf: Leaf, lens: Lens) -> Sequence[Check]:
    """What can tell of a cause that no passive check can; empty where one can, or nothing."""
    if lens.deciding(leaf):
        return ()
    able = {check.id for key in lens.decisive_keys(leaf) for check in lens.establishing(key) if check.exclusive}
    return sorted((lens.checks[name] for name in leaf.confirms if name in able), key=lambda check: (check.seconds, check.id))
