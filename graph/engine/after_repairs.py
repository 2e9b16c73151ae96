"""What a remedy leaves behind it: facts of its host from before it was claimed tell of the past. Pure.

Old kernel lines stay in the log after a reset; without the cursor they would fail every proof and be found again by every recheck.
Logs are written by the host's clock and claims by ours, so the cursor is moved by how far the two are apart, where that is known.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from graph.engine.age import EVENTS
from graph.state import Ladder
from tools.fact import Fact

KERNEL = "kernel."
"""Keys of what the kernel wrote."""


def cursors(ladders: Iterable[Ladder]) -> dict[str, datetime]:
    """For each host that was changed the moment of the last claim."""
    found: dict[str, datetime] = {}
    for ladder in ladders:
        if ladder.since is not None:
            found[ladder.target] = max(ladder.since, found.get(ladder.target, ladder.since))
    return found


def after_repairs(facts: Sequence[Fact], since: Mapping[str, datetime], skews: Mapping[str, timedelta] | None = None) -> list[Fact]:
    """The same facts, those from before their host's cursor marked stale. An event that came again afterwards is of now."""
    apart = skews_of(facts) if skews is None else skews
    return [replace(fact, stale=True) if _before(fact, since.get(fact.host), apart) else fact for fact in facts]


@dataclass(frozen=True, slots=True)
class Treatment:
    """A remedy of what a kernel log tells of, run on a host by whichever incident, after which the proof passed: when it was claimed, and the
    devices that it changed by all their names (`gpu3`, `0000:5d:00.0`); none is the whole host."""

    host: str
    at: datetime
    names: tuple[str, ...] = ()

    def concerns(self, device: str | None) -> bool:
        """Whether it mended what is said of this device of its host; what is said of no device only where it was about the whole host."""
        return not self.names or (device or "").rpartition("/")[2] in self.names


def after_treatments(facts: Sequence[Fact], treatments: Sequence[Treatment]) -> list[Fact]:
    """The same facts, lines of the kernel from before a treatment of their device marked stale: they told of what is mended since, and whoever
    finds them in another thread must not have it mended once more. Other logs (of jobs, of the BMC) tell what no such remedy reaches."""
    if not treatments:
        return list(facts)
    skews = skews_of(facts)
    return [replace(fact, stale=True) if _was_treated(fact, treatments, skews) else fact for fact in facts]


def _was_treated(fact: Fact, treatments: Sequence[Treatment], skews: Mapping[str, timedelta]) -> bool:
    if not fact.key.startswith(KERNEL):
        return False
    return any(row.host == fact.host and row.concerns(fact.device) and _before(fact, row.at, skews) for row in treatments)


def skews_of(facts: Iterable[Fact]) -> dict[str, timedelta]:
    """How far each host's clock is ahead of ours, from what it showed when it was asked."""
    return {
        fact.host: timedelta(seconds=fact.value - fact.time.timestamp())
        for fact in facts
        if fact.key == "time.clock" and fact.host and fact.time and isinstance(fact.value, int | float)
    }


def _before(fact: Fact, cursor: datetime | None, skews: Mapping[str, timedelta]) -> bool:
    if cursor is None or fact.stale or fact.status.blind:
        return False
    last = _moment(fact.attrs.get("last")) or fact.time
    written_there = fact.key.startswith(EVENTS)
    return last is not None and last < cursor + (skews.get(fact.host, timedelta()) if written_there else timedelta())


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
