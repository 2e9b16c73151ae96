"""What a remedy leaves behind it: facts of its host from before it was claimed tell of the past. Pure.

Old kernel lines stay in the log after a reset; without the cursor they would fail every proof and be found again by every recheck.
Logs are written by the host's clock and claims by ours, so the cursor is moved by how far the two are apart, where that is known.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from graph.engine.event_age import EVENT_KEY_PREFIXES
from graph.state import Remediation
from tools.fact import Fact

KERNEL_KEY_PREFIX = "kernel."
"""Keys of what the kernel wrote."""


def find_repair_cursors(ladders: Iterable[Remediation]) -> dict[str, datetime]:
    """For each host that was changed the moment of the last claim."""
    found: dict[str, datetime] = {}
    for ladder in ladders:
        if ladder.since is not None:
            found[ladder.target] = max(ladder.since, found.get(ladder.target, ladder.since))
    return found


def mark_stale_after_repairs(
    facts: Sequence[Fact], since: Mapping[str, datetime], skews: Mapping[str, timedelta] | None = None
) -> list[Fact]:
    """The same facts, those from before their host's cursor marked stale. An event that came again afterwards is of now."""
    apart = find_clock_skews(facts) if skews is None else skews
    return [replace(fact, stale=True) if _is_before(fact, since.get(fact.host), apart) else fact for fact in facts]


@dataclass(frozen=True, slots=True)
class ProvenRemedyRun:
    """A remedy of what a kernel log tells of, run on a host by whichever incident, after which the proof passed: when it was claimed, and the
    devices that it changed by all their names (`gpu3`, `0000:5d:00.0`); none is the whole host."""

    host: str
    at: datetime
    names: tuple[str, ...] = ()

    def covers_device(self, device: str | None) -> bool:
        """Whether it mended what is said of this device of its host; what is said of no device only where it was about the whole host."""
        return not self.names or (device or "").rpartition("/")[2] in self.names


def mark_stale_after_remedies(facts: Sequence[Fact], treatments: Sequence[ProvenRemedyRun]) -> list[Fact]:
    """The same facts, lines of the kernel from before a treatment of their device marked stale: they told of what is mended since, and whoever
    finds them in another thread must not have it mended once more. Other logs (of jobs, of the BMC) tell what no such remedy reaches."""
    if not treatments:
        return list(facts)
    skews = find_clock_skews(facts)
    return [replace(fact, stale=True) if _was_remedied(fact, treatments, skews) else fact for fact in facts]


def _was_remedied(fact: Fact, treatments: Sequence[ProvenRemedyRun], skews: Mapping[str, timedelta]) -> bool:
    if not fact.key.startswith(KERNEL_KEY_PREFIX):
        return False
    return any(row.host == fact.host and row.covers_device(fact.device) and _is_before(fact, row.at, skews) for row in treatments)


def find_clock_skews(facts: Iterable[Fact]) -> dict[str, timedelta]:
    """How far each host's clock is ahead of ours, from what it showed when it was asked."""
    return {
        fact.host: timedelta(seconds=fact.value - fact.time.timestamp())
        for fact in facts
        if fact.key == "time.clock" and fact.host and fact.time and isinstance(fact.value, int | float)
    }


def _is_before(fact: Fact, cursor: datetime | None, skews: Mapping[str, timedelta]) -> bool:
    if cursor is None or fact.stale or fact.status.blind:
        return False
    last = _parse_moment(fact.attrs.get("last")) or fact.time
    written_there = fact.key.startswith(EVENT_KEY_PREFIXES)
    return last is not None and last < cursor + (skews.get(fact.host, timedelta()) if written_there else timedelta())


def _parse_moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
