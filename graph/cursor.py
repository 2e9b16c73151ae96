"""What a remedy leaves behind it: facts of its host from before it was claimed tell of the past. Pure.

Old kernel lines stay in the log after a reset; without the cursor they would fail every proof and be found again by every recheck.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from graph.state import Ladder
from tools.fact import Fact


def cursors(ladders: Iterable[Ladder]) -> dict[str, datetime]:
    """For each host that was changed the moment of the last claim."""
    found: dict[str, datetime] = {}
    for ladder in ladders:
        if ladder.since is not None:
            found[ladder.target] = max(ladder.since, found.get(ladder.target, ladder.since))
    return found


def after_repairs(facts: Sequence[Fact], since: Mapping[str, datetime]) -> list[Fact]:
    """The same facts, those from before their host's cursor marked stale. An event that came again afterwards is of now."""
    return [replace(fact, stale=True) if _before(fact, since.get(fact.host)) else fact for fact in facts]


def _before(fact: Fact, cursor: datetime | None) -> bool:
    if cursor is None or fact.stale or fact.status.blind:
        return False
    last = _moment(fact.attrs.get("last")) or fact.time
    return last is not None and last < cursor


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
