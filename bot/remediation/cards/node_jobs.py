"""Show the jobs and users on the nodes of an action. They are not part of the signed action, because jobs start and end while it waits."""

from bot.cards.text import Line, bold, strip_markup
from bot.remediation.cards.killed_process import KnownRows
from kb.redact import redact
from tools.execution.node_jobs import NodeJobs

JOBS_ROW = "jobs"
UNREAD_ROW = "jobs could not be read"
ROW_NAMES = frozenset({JOBS_ROW, UNREAD_ROW})
MAX_JOBS = 8
MAX_JOBS_CHARS = 300


def build_job_rows(seen: NodeJobs) -> KnownRows:
    """Return the rows stored with the card."""
    unread = [(UNREAD_ROW, strip_markup(redact(seen.why))[:MAX_JOBS_CHARS])] if seen.why else []
    return [
        *unread,
        *(
            [(JOBS_ROW, strip_markup(redact(_format_jobs(seen)))[:MAX_JOBS_CHARS])]
            if seen.jobs
            else []
            if seen.why
            else [(JOBS_ROW, "none")]
        ),
    ]


def render_job_lines(known: KnownRows) -> list[Line]:
    """Render `Jobs there now: 4711 (alice), 4712 (bob)`, or why they could not be read."""
    return [
        ("⚠ Jobs there: ", bold("could not look"), f", {value}") if name == UNREAD_ROW else ("Jobs there now: ", bold(value))
        for name, value in known
    ]


def _format_jobs(seen: NodeJobs) -> str:
    job_texts = [f"{row.job} ({row.user})" for row in seen.jobs[:MAX_JOBS]]
    rest = seen.jobs[MAX_JOBS:]
    users = sorted({row.user for row in rest})
    more = f" and {len(rest)} more of {', '.join(users[:5])}{' and others' if len(users) > 5 else ''}" if rest else ""
    return ", ".join(job_texts) + more
