"""What an approver must know of files before deletion: count, size, and each path with owner, age and use.

It is not part of the signed action: the run finds the files again.
"""

import re
from collections.abc import Callable, Mapping

from bot.cards.text import Line, bold, code, strip_markup
from bot.remediation.cards import job_tasks, killed_process, node_jobs
from bot.remediation.cards.killed_process import KnownRows
from kb.redact import redact
from tools.action import Action
from tools.execution.delete_preview import DeletePreview, OldFile

WOULD_GO_ROW = "would go"
UNREAD_ROW = "could not be read"
NOT_LISTED_ROW = "not listed"
MAX_PATH_CHARS = 600
MINUTES_PER_DAY = 24 * 60
MAX_FILES_ON_CARD = 8  # Of more files the card shows the largest; a dialog shows all that the node listed.
CHECKPOINT_PATTERN = re.compile(r"ckpt|checkpoint|global_?step|step[-_.]?[0-9]", re.IGNORECASE)
# Suffixes under which training frameworks write a checkpoint before renaming it.
UNFINISHED_PATTERN = re.compile(r"\.(?:tmp|part|partial|incomplete)\b", re.IGNORECASE)


IN_USE_SUFFIX = ", in use"
USE_UNREAD_SUFFIX = ", use not read"


def build_file_rows(seen: DeletePreview) -> KnownRows:
    """Return the rows stored with the card: the total first, then the largest files."""
    if seen.why:
        return ((UNREAD_ROW, strip_markup(redact(seen.why))[:200]),)
    count = f"{seen.files:,} file{'s' if seen.files != 1 else ''}, {format_bytes(seen.size)}"
    more = "" if seen.whole else "at least "
    other_files = seen.files - len(seen.largest)
    rest = ((NOT_LISTED_ROW, f"{other_files:,} smaller file{'s' if other_files != 1 else ''}"),) if other_files > 0 else ()
    return ((WOULD_GO_ROW, f"{more}{count}" if seen.files else "no file is old enough"), *rest, *map(_build_file_row, seen.largest))


def render_file_lines(known: KnownRows) -> list[Line]:
    """Render `Would be deleted: 3,214 files, 117 GiB` and a line per file."""
    lines: list[Line] = []
    paths, rest = _list_paths(known), dict(known).get(NOT_LISTED_ROW, "")
    shown_paths = paths if len(paths) <= MAX_FILES_ON_CARD and not rest else paths[: MAX_FILES_ON_CARD - 1]
    for name, value in known:
        if name == UNREAD_ROW:
            lines.append(("⚠ The list of files to delete ", bold("could not be read"), f": {value}"))
        elif name == WOULD_GO_ROW:
            lines.append(
                ("Would be deleted: ", bold(value), ", the largest:" if len(shown_paths) < len(paths) or rest else ":" if paths else "")
            )
    hidden = len(paths) - len(shown_paths)
    more = " and ".join(filter(None, (f"{hidden} more in Show all" if hidden else "", rest)))
    return [
        *lines,
        *_render_warnings(paths),
        *((code(name), f" {value}") for name, value in shown_paths),
        *([(f"… {more}",)] if more else []),
    ]


def list_all_files(known: KnownRows) -> list[str]:
    """Return all paths that the node listed; the last line says how to find the others."""
    rest = dict(known).get(NOT_LISTED_ROW, "")
    return [*(f"{name}  {value}" for name, value in _list_paths(known)), *([f"… and {rest}; the command above finds them"] if rest else [])]


def has_hidden_files(known: KnownRows) -> bool:
    return NOT_LISTED_ROW in dict(known) or len(_list_paths(known)) > MAX_FILES_ON_CARD


def _list_paths(known: KnownRows) -> KnownRows:
    return [(name, value) for name, value in known if name not in (WOULD_GO_ROW, UNREAD_ROW, NOT_LISTED_ROW)]


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
    **dict.fromkeys(killed_process.PROCESS_REMEDIES, killed_process.render_process_lines),
    "cleanup": render_file_lines,
    "cancel_job": job_tasks.render_task_lines,
}


def render_known_lines(action: Action, known: KnownRows) -> list[Line]:
    """Render the rows stored with an action's card, jobs on its nodes first."""
    jobs = [row for row in known if row[0] in node_jobs.ROW_NAMES]
    own = [row for row in known if row[0] not in node_jobs.ROW_NAMES]
    return [*node_jobs.render_job_lines(jobs), *(LINE_RENDERERS[action.remedy](own) if action.remedy in LINE_RENDERERS else [])]
