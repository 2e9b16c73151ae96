"""What an approver must know of files before they are deleted: how many, how much, and each path with size, owner, age and whether it is in use.

It is shown beside the action and is no part of it: which files go is found anew when it runs.
"""

import re
from collections.abc import Callable, Mapping

from bot.cards.approvals import node_jobs, process, tasks
from bot.cards.approvals.process import Rows
from bot.cards.text import Line, bold, code, plain
from kb.redact import redact
from tools.acting.deletes import Deletes, OldFile
from tools.action import Action

WOULD_GO, UNREAD, NOT_LISTED = "would go", "could not be read", "not listed"
PATH, DAY = 600, 24 * 60
MAX_ON_CARD = 8
"""A card shows this many paths. With more files it shows the largest, and a dialog shows all that the node listed."""
CHECKPOINT = re.compile(r"ckpt|checkpoint|global_?step|step[-_.]?[0-9]", re.IGNORECASE)
UNFINISHED = re.compile(r"\.(?:tmp|part|partial|incomplete)\b", re.IGNORECASE)
"""Names under which training frameworks write a checkpoint before they rename it."""


IN_USE, USE_UNREAD = ", in use", ", use not read"


def known_of(seen: Deletes) -> Rows:
    """What would go, as it is noted with the card: the sum first, then a row for each of the largest files."""
    if seen.why:
        return ((UNREAD, plain(redact(seen.why))[:200]),)
    count = f"{seen.files:,} file{'s' if seen.files != 1 else ''}, {binary(seen.size)}"
    more = "" if seen.whole else "at least "
    left = seen.files - len(seen.largest)
    rest = ((NOT_LISTED, f"{left:,} smaller file{'s' if left != 1 else ''}"),) if left > 0 else ()
    return ((WOULD_GO, f"{more}{count}" if seen.files else "no file is old enough"), *rest, *map(_row, seen.largest))


def lines(known: Rows) -> list[Line]:
    """`Would go: 3,214 files, 117 GiB`, below it a line for each file; of more files than a card holds, the largest."""
    found: list[Line] = []
    paths, rest = _paths(known), dict(known).get(NOT_LISTED, "")
    shown = paths if len(paths) <= MAX_ON_CARD and not rest else paths[: MAX_ON_CARD - 1]
    for name, value in known:
        if name == UNREAD:
            found.append(("⚠ What would go ", bold("could not be read"), f": {value}"))
        elif name == WOULD_GO:
            found.append(("Would go: ", bold(value), ", the largest:" if len(shown) < len(paths) or rest else ":" if paths else ""))
    hidden = len(paths) - len(shown)
    more = " and ".join(filter(None, (f"{hidden} more in Show all" if hidden else "", rest)))
    return [*found, *_warned(paths), *((code(name), f" {value}") for name, value in shown), *([(f"… {more}",)] if more else [])]


def every_line(known: Rows) -> list[str]:
    """All paths that the node listed, for a dialog; the last line says how to list those that it did not."""
    rest = dict(known).get(NOT_LISTED, "")
    return [*(f"{name}  {value}" for name, value in _paths(known)), *([f"… and {rest}; the command above finds them"] if rest else [])]


def has_more(known: Rows) -> bool:
    """Return whether there are files that the card does not show."""
    return NOT_LISTED in dict(known) or len(_paths(known)) > MAX_ON_CARD


def _paths(known: Rows) -> Rows:
    return [(name, value) for name, value in known if name not in (WOULD_GO, UNREAD, NOT_LISTED)]


def _warned(paths: Rows) -> list[Line]:
    """What a deletion may break: files in use, and checkpoints that a job has not finished."""
    used = [name for name, value in paths if value.endswith(IN_USE)]
    unread = any(value.endswith(USE_UNREAD) for _, value in paths)
    unfinished = [name for name, _ in paths if CHECKPOINT.search(name) and UNFINISHED.search(name)]
    told: list[Line] = []
    if used:
        told.append(
            (
                "⚠ ",
                bold(f"{len(used)} of these files {'is' if len(used) == 1 else 'are'} in use by a process"),
                ": a running job may need them",
            )
        )
    if unfinished:
        told.append((f"⚠ {len(unfinished)} may be unfinished checkpoints (*.tmp) that a running job is writing",))
    if unread:
        told.append(("⚠ Whether a process has these files open: ", bold("could not look")))
    return told


def binary(size: int) -> str:
    """`117 GiB`, `3.1 GiB`, `18 KiB`."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:.{1 if size < 10 * unit else 0}f} {name}"
    return f"{-(-size // 1024)} KiB"


def _row(file: OldFile) -> tuple[str, str]:
    path = plain(redact(file.path))
    short = path if len(path) <= PATH else f"{path[: PATH // 2]}…{path[-PATH // 2 + 1 :]}"
    use = {True: IN_USE, False: "", None: USE_UNREAD}[file.open]
    return short, f"{binary(file.size)}, {plain(redact(file.owner))}, {file.minutes // DAY}d{use}"


LINES: Mapping[str, Callable[[Rows], list[Line]]] = {
    **dict.fromkeys(process.ENDS, process.lines),
    "cleanup": lines,
    "cancel_job": tasks.lines,
}
"""Remedy → how what is known beside its action is written."""


def known_lines(action: Action, known: Rows) -> list[Line]:
    """Return what is stored with the card of an action, as lines: the jobs on its nodes first."""
    jobs = [row for row in known if row[0] in node_jobs.NAMES]
    own = [row for row in known if row[0] not in node_jobs.NAMES]
    return [*node_jobs.lines(jobs), *(LINES[action.remedy](own) if action.remedy in LINES else [])]
