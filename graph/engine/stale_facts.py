"""Mark facts that a remedy made stale: those of its host from before the claim.

Old kernel lines outlive a reset and would fail every proof. Logs use the host's clock and claims RackMedic's, so
cursors are shifted by the known skew.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from graph.engine.fact_history import EVENT_KEY_PREFIXES
from graph.state import Remediation
from tools.fact import Fact

KERNEL_KEY_PREFIX = "kernel."


def find_repair_cursors(remediations: Iterable[Remediation]) -> dict[str, datetime]:
    """Return host → time of the last claim on it."""
    cursor_by_host: dict[str, datetime] = {}
    for remediation in remediations:
        if remediation.since is not None:
            cursor_by_host[remediation.target] = max(remediation.since, cursor_by_host.get(remediation.target, remediation.since))
    return cursor_by_host


def mark_stale_after_repairs(
    facts: Sequence[Fact], since: Mapping[str, datetime], skews: Mapping[str, timedelta] | None = None
) -> list[Fact]:
    """Return the facts, those last seen before their host's cursor marked stale."""
    apart = find_clock_skews(facts) if skews is None else skews
    return [replace(fact, stale=True) if _is_before(fact, since.get(fact.host), apart) else fact for fact in facts]


@dataclass(frozen=True, slots=True)
class ProvenRemedyRun:
    """A proven remedy of any incident: host, time of claim, and all names of the changed devices.

    No names (`gpu3`, `0000:5d:00.0`) means the whole host.
    """

    host: str
    at: datetime
    names: tuple[str, ...] = ()

    def covers_device(self, device: str | None) -> bool:
        """Return whether it covers a device of its host; a fact without a device needs a whole-host run."""
        return not self.names or (device or "").rpartition("/")[2] in self.names


def mark_stale_after_remedies(facts: Sequence[Fact], remedy_runs: Sequence[ProvenRemedyRun]) -> list[Fact]:
    """Mark kernel lines from before a proven remedy of their device stale, so that no other thread repeats it.

    Other logs (jobs, BMC) report what no such remedy reaches.
    """
    if not remedy_runs:
        return list(facts)
    skews = find_clock_skews(facts)
    return [replace(fact, stale=True) if _was_remedied(fact, remedy_runs, skews) else fact for fact in facts]


def _was_remedied(fact: Fact, remedy_runs: Sequence[ProvenRemedyRun], skews: Mapping[str, timedelta]) -> bool:
    if not fact.key.startswith(KERNEL_KEY_PREFIX):
        return False
    return any(
        remedy_run.host == fact.host and remedy_run.covers_device(fact.device) and _is_before(fact, remedy_run.at, skews)
        for remedy_run in remedy_runs
    )


def find_clock_skews(facts: Iterable[Fact]) -> dict[str, timedelta]:
    """Return how far each host's clock is ahead of RackMedic's."""
    return {
        fact.host: timedelta(seconds=fact.value - fact.time.timestamp())
        for fact in facts
        if fact.key == "time.clock" and fact.host and fact.time and isinstance(fact.value, int | float)
    }


def _is_before(fact: Fact, cursor: datetime | None, skews: Mapping[str, timedelta]) -> bool:
    if cursor is None or fact.stale or fact.status.blind:
        return False
    last = _parse_iso_text(fact.attrs.get("last")) or fact.time
    written_there = fact.key.startswith(EVENT_KEY_PREFIXES)
    return last is not None and last < cursor + (skews.get(fact.host, timedelta()) if written_there else timedelta())


def _parse_iso_text(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
