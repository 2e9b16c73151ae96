"""The hosts that wait behind a card, and the button that releases the next wave after a failure."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import (
    Line,
    bold,
    escape_ambiguous,
)

LET_GO_ACTION_ID = "approval.let_go"
MAX_NAMED_HOSTS = 5
MAX_QUEUE_LINE_CHARS = 300


@dataclass(frozen=True, slots=True)
class QueuedHosts:
    """Hosts of the same cause that wait; the numbers are hosts."""

    waits: int
    begun: int  # Proposed so far.
    next: int  # Size of the next wave.
    # `wave`: the last one is not over. `allowance`: the brakes leave too little. `failed`: a person must look first.
    why: str
    failed: tuple[str, ...] = ()
    at: datetime | None = None  # When the allowance is back.


def parse_queue_note(text: str) -> QueuedHosts | None:
    """Parse a note of `WaveQueue.format_note`; None if nothing waits."""
    if not text:
        return None
    row = json.loads(text)
    at = datetime.fromisoformat(row["at"]) if row["at"] else None
    return QueuedHosts(row["waits"], row["begun"], row["next"], row["why"], tuple(row["failed"]), at)


def render_queue(queued: QueuedHosts | None, host_count: int, value: str) -> list[Block]:
    """Render `3 of 60 now · 57 wait` and the reason. `host_count`: hosts of the card; `value`: the button's value."""
    if queued is None:
        return []
    head = bold(f"{host_count} of {queued.begun + queued.waits} now · {queued.waits} wait{'s' if queued.waits == 1 else ''}")
    queue_block = blocks.clipped_section(("⏸ ", head, *_format_wait_reason(queued)), room=MAX_QUEUE_LINE_CHARS)
    return [queue_block, blocks.actions(_render_let_go_button(queued, value))] if queued.why == "failed" else [queue_block]


def _format_wait_reason(queued: QueuedHosts) -> Line:
    following = "the next" if queued.next == 1 else f"the next {queued.next}"
    if queued.why == "failed":
        return (f": needs a human, {len(queued.failed)} of the first {queued.begun} did not pass ({_format_failed_hosts(queued)})",)
    if queued.why == "wave":
        return (f": {following} when these are verified",)
    if queued.at is None:
        return (f": {following} when the brakes leave room",)
    return (f": {following} at {queued.at.astimezone(UTC):%H:%M} UTC, when the brakes leave room",)


def _format_failed_hosts(queued: QueuedHosts) -> str:
    rest = len(queued.failed) - MAX_NAMED_HOSTS
    return ", ".join(map(escape_ambiguous, queued.failed[:MAX_NAMED_HOSTS])) + (f" and {rest} more" if rest > 0 else "")


def _render_let_go_button(queued: QueuedHosts, value: str) -> Block:
    dialog_text = f"You checked {_format_failed_hosts(queued)} and want the same fix proposed on more hosts. Nothing runs yet: each host still needs approval."
    sure = blocks.confirm("Did you check the hosts?", dialog_text[:300], f"Propose {queued.next}", "Not now")
    return blocks.button(f"Propose the next {queued.next}", LET_GO_ACTION_ID, value, ask=sure)
