"""What an approver must know before a job is cancelled: its tasks, owners and hosts. Not part of the signed action."""

from bot.cards.text import Line, bold, strip_markup
from bot.remediation.cards.action_text import fold_hosts_exactly
from bot.remediation.cards.killed_process import KnownRows
from kb.redact import redact
from tools.execution.cancel_preview import CancelPreview

WOULD_END_ROW = "would end"
UNREAD_ROW = "could not be read"
MAX_VALUE_CHARS = 200


def build_task_rows(seen: CancelPreview) -> KnownRows:
    """Return the rows stored with the card."""
    if seen.why:
        return ((UNREAD_ROW, strip_markup(redact(seen.why))[:MAX_VALUE_CHARS]),)
    if not seen.states:
        return ((WOULD_END_ROW, "no task: Slurm no longer lists one"),)
    count = sum(seen.states.values())
    states = ", ".join(f"{number} {state.lower()}" for state, number in seen.states.items())
    whose, place = " and ".join(seen.owners[:3]), fold_hosts_exactly(seen.hosts) if seen.hosts else "no host yet"
    summary = f"{count} task{'s' if count != 1 else ''} ({states}) of {whose}, on {place}"
    return ((WOULD_END_ROW, strip_markup(redact(summary))[:MAX_VALUE_CHARS]),)


def render_task_lines(known: KnownRows) -> list[Line]:
    """Render `Would end: 6 tasks (5 running, 1 pending) of alice, on gpu-[001-003]`."""
    return [
        ("⚠ What would end ", bold("could not be read"), f": {value}") if name == UNREAD_ROW else ("Would end: ", bold(value))
        for name, value in known
    ]
