"""What waits for its turn behind a card: how many, until when or for whom, and a human's word that the next may be put up after a failure."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line, bold, exact

LET_GO = "approval.let_go"
MOST_NAMED = 5
ROOM = 300
"""For the line: each row of the card names its own host anyhow."""


@dataclass(frozen=True, slots=True)
class Queued:
    """Hosts of the same fault for which nothing is put up yet; the numbers are hosts."""

    waits: int
    begun: int
    """Put up so far."""
    next: int
    """The size of the next wave."""
    why: str
    """`wave`: the last one goes on. `allowance`: the brakes leave too little room. `failed`: a human must look first."""
    failed: tuple[str, ...] = ()
    at: datetime | None = None
    """When the allowance is back."""


def read(text: str) -> Queued | None:
    """What was noted of it (`bot.actions.waves.Queue.text`); None where nobody waits."""
    if not text:
        return None
    row = json.loads(text)
    at = datetime.fromisoformat(row["at"]) if row["at"] else None
    return Queued(row["waits"], row["begun"], row["next"], row["why"], tuple(row["failed"]), at)


def render(queued: Queued | None, now: int, value: str) -> list[Block]:
    """`3 of 60 now · 57 wait`, and in a few words until when. `now` are the hosts of the card, `value` what its buttons carry."""
    if queued is None:
        return []
    head = bold(f"{now} of {queued.begun + queued.waits} now · {queued.waits} wait{'s' if queued.waits == 1 else ''}")
    said = blocks.short(("⏸ ", head, *_why(queued)), room=ROOM)
    return [said, blocks.actions(_let_go(queued, value))] if queued.why == "failed" else [said]


def _why(queued: Queued) -> Line:
    following = "the next" if queued.next == 1 else f"the next {queued.next}"
    if queued.why == "failed":
        return (f" for a human: {len(queued.failed)} of the first {queued.begun} did not pass ({_named(queued)})",)
    if queued.why == "wave":
        return (f": {following} once these have passed",)
    if queued.at is None:
        return (f": {following} when the brakes leave room",)
    return (f": {following} at {queued.at.astimezone(UTC):%H:%M} UTC, when the brakes leave room",)


def _named(queued: Queued) -> str:
    rest = len(queued.failed) - MOST_NAMED
    return ", ".join(map(exact, queued.failed[:MOST_NAMED])) + (f" and {rest} more" if rest > 0 else "")


def _let_go(queued: Queued, value: str) -> Block:
    told = f"You looked at {_named(queued)} and want the same put up on more hosts. Nothing runs by this: each still needs its approval."
    sure = blocks.confirm("You have looked?", told[:300], f"Put up {queued.next}", "Not now")
    return blocks.button(f"Put up the next {queued.next}", LET_GO, value, ask=sure)
