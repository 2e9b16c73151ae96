"""Show the jobs and users on the nodes of an action. They are not part of the signed action, because jobs start and end while it waits."""

from bot.cards.approvals.process import Rows
from bot.cards.text import Line, bold, plain
from kb.redact import redact
from tools.acting.jobs import NodeJobs

JOBS, UNREAD = "jobs", "jobs could not be read"
NAMES = frozenset({JOBS, UNREAD})
MAX_JOBS, MAX_LENGTH = 8, 300


def known_of(seen: NodeJobs) -> Rows:
    """Return the rows that are stored with the card."""
    unread = [(UNREAD, plain(redact(seen.why))[:MAX_LENGTH])] if seen.why else []
    return [*unread, *([(JOBS, plain(redact(_named(seen)))[:MAX_LENGTH])] if seen.jobs else [] if seen.why else [(JOBS, "none")])]


def lines(known: Rows) -> list[Line]:
    """`Jobs there now: 4711 (alice), 4712 (bob)`; where the scheduler was not asked, the reason."""
    return [
        ("⚠ Jobs there: ", bold("could not look"), f", {value}") if name == UNREAD else ("Jobs there now: ", bold(value))
        for name, value in known
    ]


def _named(seen: NodeJobs) -> str:
    shown = [f"{row.job} ({row.user})" for row in seen.jobs[:MAX_JOBS]]
    rest = seen.jobs[MAX_JOBS:]
    users = sorted({row.user for row in rest})
    more = f" and {len(rest)} more of {', '.join(users[:5])}{' and others' if len(users) > 5 else ''}" if rest else ""
    return ", ".join(shown) + more
