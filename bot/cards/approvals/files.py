"""What an approver must know of files before they are deleted: how many, how much, and the largest of them with size, owner and age.

It is shown beside the action and is no part of it: which files go is found anew when it runs.
"""

from collections.abc import Callable, Mapping

from bot.cards.approvals import process, tasks
from bot.cards.approvals.process import Rows
from bot.cards.text import Line, bold, code, plain
from kb.redact import redact
from tools.acting.deletes import Deletes, OldFile
from tools.action import Action

WOULD_GO, UNREAD = "would go", "could not be read"
PATH, DAY = 96, 24 * 60
SHOWN = 3
"""So many of the largest files stand on the card; the sum above them is of all."""


def known_of(seen: Deletes) -> Rows:
    """What would go, as it is noted with the card: the sum first, then a row for each of the largest files."""
    if seen.why:
        return ((UNREAD, plain(redact(seen.why))[:200]),)
    count = f"{seen.files:,} file{'s' if seen.files != 1 else ''}, {binary(seen.size)}"
    more = "" if seen.whole else "at least "
    return ((WOULD_GO, f"{more}{count}" if seen.files else "no file is old enough"), *map(_row, seen.largest))


def lines(known: Rows) -> list[Line]:
    """`Would go: 3,214 files, 117 GiB`, and below it the largest, one a line with size, owner and age."""
    found: list[Line] = []
    largest = ", largest:" if len(known) > 1 else ""
    for name, value in known[: 1 + SHOWN]:
        if name == UNREAD:
            found.append(("⚠ What would go ", bold("could not be read"), f": {value}"))
        else:
            found.append(("Would go: ", bold(value), largest) if name == WOULD_GO else (code(name), f" {value}"))
    return found


def binary(size: int) -> str:
    """`117 GiB`, `3.1 GiB`, `18 KiB`."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:.{1 if size < 10 * unit else 0}f} {name}"
    return f"{-(-size // 1024)} KiB"


def _row(file: OldFile) -> tuple[str, str]:
    path = plain(redact(file.path))
    short = path if len(path) <= PATH else f"{path[: PATH // 2]}…{path[-PATH // 2 + 1 :]}"
    return short, f"{binary(file.size)}, {plain(redact(file.owner))}, {file.minutes // DAY}d"


LINES: Mapping[str, Callable[[Rows], list[Line]]] = {
    **dict.fromkeys(process.ENDS, process.lines),
    "cleanup": lines,
    "cancel_job": tasks.lines,
}
"""Remedy → how what is known beside its action is written."""


def known_lines(action: Action, known: Rows) -> list[Line]:
    """What is noted with the card of an action, as lines."""
    return LINES[action.remedy](known) if action.remedy in LINES else []
