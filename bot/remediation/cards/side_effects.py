"""What an approver must know of an action's side effects: files, processes, tasks, and the jobs and users of its nodes.

None of it is part of the signed action: jobs start and end while it waits, and the run finds the files again.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from bot.cards.text import Line, Part, bold, code, strip_markup
from bot.remediation.cards.action_text import fold_hosts_exactly
from kb.redact import redact
from tools.action import Action
from tools.execution.cancel_preview import CancelPreview
from tools.execution.delete_preview import DeletePreview, OldFile
from tools.execution.node_jobs import NodeJobs
from tools.fact import Fact, Status

# What an approver must know of a process before it is killed, from the facts of `procs`: owner, age, job, command line.
#
# It is not part of the signed action, which names the process by pid and start time.

KnownRows = Sequence[tuple[str, str]]  # (name, value) rows stored with a card and shown on it.
MAX_PROCESS_VALUE_CHARS = 64
MAX_COMMAND_LINE_CHARS = 200
PROCESS_REMEDIES = frozenset({"kill_gpu_process"})
GPU_PROCESS_KEYS = ("proc.orphan", "proc.gpu_memory")
WOULD_END_ROW = "would end"
UNREAD_TASKS_ROW = "could not be read"
MAX_TASK_CHARS = 200
JOBS_ROW = "jobs"
UNREAD_JOBS_ROW = "jobs could not be read"
ROW_NAMES = frozenset({JOBS_ROW, UNREAD_JOBS_ROW})
MAX_JOBS = 8
MAX_JOBS_CHARS = 300
MAX_USERS = 5  # named owners of the jobs that are not listed
WOULD_GO_ROW = "would go"
UNREAD_FILES_ROW = "could not be read"
NOT_LISTED_ROW = "not listed"
MAX_PATH_CHARS = 600
MINUTES_PER_DAY = 24 * 60
MAX_FILES_ON_CARD = 8  # Of more files the card shows the largest; a dialog shows all that the node listed.
CHECKPOINT_PATTERN = re.compile(r"ckpt|checkpoint|global_?step|step[-_.]?[0-9]", re.IGNORECASE)
# Suffixes under which training frameworks write a checkpoint before renaming it.
UNFINISHED_PATTERN = re.compile(r"\.(?:tmp|part|partial|incomplete)\b", re.IGNORECASE)
IN_USE_SUFFIX = ", in use"
USE_UNREAD_SUFFIX = ", use not read"


def build_process_rows(action: Action, facts: Iterable[Fact]) -> KnownRows:
    """Return what the latest facts say of the process; empty for other remedies."""
    if action.remedy not in PROCESS_REMEDIES:
        return ()
    pid = action.args.get("pid", "")
    own = [
        fact
        for fact in facts
        if fact.host == action.target
        and fact.key in GPU_PROCESS_KEYS
        and fact.status is Status.OK
        and str(fact.attrs.get("pid", "")) == pid
    ]
    if not own:
        return (("process", "the last look at the host did not list it"),)
    attrs, memory = own[-1].attrs, {fact.device: fact.value for fact in own}
    rows = [
        ("owner", str(attrs.get("user", ""))),
        ("age", format_age(int(attrs["seconds"])) if "seconds" in attrs else ""),
        ("job", str(attrs.get("job", "")) or "none"),
        ("GPU memory", f"{sum(value for value in memory.values() if isinstance(value, int)):,} MiB"),
        ("why", next((str(fact.attrs["why"]) for fact in own if fact.attrs.get("why")), "")),
        ("command line", str(attrs.get("args") or attrs.get("name", ""))),
    ]
    max_chars = {"command line": MAX_COMMAND_LINE_CHARS}
    return [
        (name, strip_markup(redact(value))[: max_chars.get(name, MAX_PROCESS_VALUE_CHARS)] or "not known")
        for name, value in rows
        if value or name != "why"
    ]


def format_age(seconds: int) -> str:
    """Return `1 d 1 h` or `12 min`."""
    for unit, size, lesser, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // part} {lesser}"
    return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"


def render_process_lines(known_rows: KnownRows) -> list[Line]:
    """Render `owner alice · age 1 d 1 h · job none` and the command line."""
    if not known_rows:
        return []
    first: list[Part] = []
    for name, value in known_rows:
        if name == "command line":
            continue
        parts: list[Part] = [value] if name == "why" else [f"{name} ", bold(value)]
        first += [" · " if first else "", *parts]
    return [tuple(first), *(("runs ", code(value)) for name, value in known_rows if name == "command line")]


def build_task_rows(preview: CancelPreview) -> KnownRows:
    """Return the rows stored with the card."""
    if preview.why:
        return ((UNREAD_TASKS_ROW, strip_markup(redact(preview.why))[:MAX_TASK_CHARS]),)
    if not preview.states:
        return ((WOULD_END_ROW, "no task: Slurm no longer lists one"),)
    count = sum(preview.states.values())
    states = ", ".join(f"{number} {state.lower()}" for state, number in preview.states.items())
    whose, place = " and ".join(preview.owners[:3]), fold_hosts_exactly(preview.hosts) if preview.hosts else "no host yet"
    summary = f"{count} task{'s' if count != 1 else ''} ({states}) of {whose}, on {place}"
    return ((WOULD_END_ROW, strip_markup(redact(summary))[:MAX_TASK_CHARS]),)


def render_task_lines(known_rows: KnownRows) -> list[Line]:
    """Render `Would end: 6 tasks (5 running, 1 pending) of alice, on gpu-[001-003]`."""
    return [
        ("⚠ What would end ", bold("could not be read"), f": {value}") if name == UNREAD_TASKS_ROW else ("Would end: ", bold(value))
        for name, value in known_rows
    ]


def build_job_rows(jobs: NodeJobs) -> KnownRows:
    """Return the rows stored with the card."""
    rows = [(UNREAD_JOBS_ROW, strip_markup(redact(jobs.why))[:MAX_JOBS_CHARS])] if jobs.why else []
    if jobs.jobs:
        rows.append((JOBS_ROW, strip_markup(redact(_format_jobs(jobs)))[:MAX_JOBS_CHARS]))
    return rows or [(JOBS_ROW, "none")]


def render_job_lines(known_rows: KnownRows) -> list[Line]:
    """Render `Jobs there now: 4711 (alice), 4712 (bob)`, or why they could not be read."""
    return [
        ("⚠ Jobs there: ", bold("could not look"), f", {value}") if name == UNREAD_JOBS_ROW else ("Jobs there now: ", bold(value))
        for name, value in known_rows
    ]


def _format_jobs(jobs: NodeJobs) -> str:
    job_texts = [f"{job.job} ({job.user})" for job in jobs.jobs[:MAX_JOBS]]
    rest = jobs.jobs[MAX_JOBS:]
    users = sorted({row.user for row in rest})
    text = ", ".join(job_texts)
    if not rest:
        return text
    others = " and others" if len(users) > MAX_USERS else ""
    return f"{text} and {len(rest)} more of {', '.join(users[:MAX_USERS])}{others}"


def build_file_rows(preview: DeletePreview) -> KnownRows:
    """Return the rows stored with the card: the total first, then the largest files."""
    if preview.why:
        return ((UNREAD_FILES_ROW, strip_markup(redact(preview.why))[:200]),)
    count = f"{preview.files:,} file{'s' if preview.files != 1 else ''}, {format_bytes(preview.size)}"
    more = "" if preview.whole else "at least "
    other_files = preview.files - len(preview.largest)
    rows = [(WOULD_GO_ROW, f"{more}{count}" if preview.files else "no file is old enough")]
    if other_files > 0:
        rows.append((NOT_LISTED_ROW, f"{other_files:,} smaller file{'s' if other_files != 1 else ''}"))
    return (*rows, *map(_build_file_row, preview.largest))


def render_file_lines(known_rows: KnownRows) -> list[Line]:
    """Render `Would be deleted: 3,214 files, 117 GiB` and a line per file."""
    lines: list[Line] = []
    paths, rest = _list_paths(known_rows), dict(known_rows).get(NOT_LISTED_ROW, "")
    shown_paths = paths if len(paths) <= MAX_FILES_ON_CARD and not rest else paths[: MAX_FILES_ON_CARD - 1]
    for name, value in known_rows:
        if name == UNREAD_FILES_ROW:
            lines.append(("⚠ The list of files to delete ", bold("could not be read"), f": {value}"))
        elif name == WOULD_GO_ROW:
            list_heading = ":" if paths else ""
            if len(shown_paths) < len(paths) or rest:
                list_heading = ", the largest:"
            lines.append(("Would be deleted: ", bold(value), list_heading))
    hidden = len(paths) - len(shown_paths)
    more = " and ".join(filter(None, (f"{hidden} more in Show all" if hidden else "", rest)))
    return [
        *lines,
        *_render_warnings(paths),
        *((code(name), f" {value}") for name, value in shown_paths),
        *([(f"… {more}",)] if more else []),
    ]


def list_all_files(known_rows: KnownRows) -> list[str]:
    """Return all paths that the node listed; the last line says how to find the others."""
    rest = dict(known_rows).get(NOT_LISTED_ROW, "")
    return [
        *(f"{name}  {value}" for name, value in _list_paths(known_rows)),
        *([f"… and {rest}; the command above finds them"] if rest else []),
    ]


def has_hidden_files(known_rows: KnownRows) -> bool:
    return NOT_LISTED_ROW in dict(known_rows) or len(_list_paths(known_rows)) > MAX_FILES_ON_CARD


def _list_paths(known_rows: KnownRows) -> KnownRows:
    return [(name, value) for name, value in known_rows if name not in (WOULD_GO_ROW, UNREAD_FILES_ROW, NOT_LISTED_ROW)]


def _render_warnings(paths: KnownRows) -> list[Line]:
    """Warn of files in use and of unfinished checkpoints."""
    used = [name for name, value in paths if value.endswith(IN_USE_SUFFIX)]
    unread = any(value.endswith(USE_UNREAD_SUFFIX) for _, value in paths)
    unfinished = [name for name, _ in paths if CHECKPOINT_PATTERN.search(name) and UNFINISHED_PATTERN.search(name)]
    warnings: list[Line] = []
    if used:
        warnings.append(
            (
                "⚠ ",
                bold(f"{len(used)} of these files {'is' if len(used) == 1 else 'are'} in use by a process"),
                ": a running job may need them",
            )
        )
    if unfinished:
        warnings.append((f"⚠ {len(unfinished)} may be unfinished checkpoints (*.tmp) that a running job is writing",))
    if unread:
        warnings.append(("⚠ Are these files open in a process? ", bold("could not look")))
    return warnings


def format_bytes(size: int) -> str:
    """Return `117 GiB`, `3.1 GiB`, `18 KiB`."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:.{1 if size < 10 * unit else 0}f} {name}"
    return f"{-(-size // 1024)} KiB"


def _build_file_row(file: OldFile) -> tuple[str, str]:
    path = strip_markup(redact(file.path))
    short = path if len(path) <= MAX_PATH_CHARS else f"{path[: MAX_PATH_CHARS // 2]}…{path[-MAX_PATH_CHARS // 2 + 1 :]}"
    use = {True: IN_USE_SUFFIX, False: "", None: USE_UNREAD_SUFFIX}[file.open]
    return short, f"{format_bytes(file.size)}, {strip_markup(redact(file.owner))}, {file.minutes // MINUTES_PER_DAY}d{use}"


# remedy id → renderer of its stored rows
LINE_RENDERERS: Mapping[str, Callable[[KnownRows], list[Line]]] = {
    **dict.fromkeys(PROCESS_REMEDIES, render_process_lines),
    "cleanup": render_file_lines,
    "cancel_job": render_task_lines,
}


def render_known_lines(action: Action, known_rows: KnownRows) -> list[Line]:
    """Render the rows stored with an action's card, jobs on its nodes first."""
    jobs = [row for row in known_rows if row[0] in ROW_NAMES]
    own = [row for row in known_rows if row[0] not in ROW_NAMES]
    return [*render_job_lines(jobs), *(LINE_RENDERERS[action.remedy](own) if action.remedy in LINE_RENDERERS else [])]
