"""The way through the taxonomy as an image: each branch with its sign, and why."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bot.pictures import palette
from bot.pictures.canvas import Canvas, Kind
from graph.walked import MARKS, MEANS, WalkedBranch, WalkedTree, WalkSign, in_words

TITLE: Final = "What was looked into, and what it came to"
MOST_ROWS = 48
MOST_REASONS = 16
"""Causes that are ruled out with what rules out each; of more the table says it."""
ROW, INDENT, TOP, WIDE, WHY = 21, 22, 62, 860, 410
_QUIET: Final[frozenset[WalkSign]] = frozenset({"not reached", "passed by"})


def picture(tree: WalkedTree, kind: Kind = "png") -> bytes:
    """The image; what is drawn is bounded."""
    rows = tree.rows()
    shown = telling(rows, MOST_ROWS)
    signs = [sign for sign in MARKS if any(branch.sign == sign for _, branch in shown)]
    hidden = len(rows) - len(shown)
    height = TOP + ROW * (len(shown) + (hidden > 0)) + 16 * ((len(signs) + 1) // 2) + 26
    sheet = Canvas(WIDE, height, TITLE, in_words(tree))
    sheet.write(20, 28, TITLE, size=15)
    sheet.write(20, 46, in_words(tree), size=10, fill=palette.FAINT, room=WIDE - 40)
    _stems(sheet, [depth for depth, _ in shown])
    crowd = sum(branch.sign == "ruled out" for _, branch in shown) > MOST_REASONS
    for number, (depth, branch) in enumerate(shown):
        _row(sheet, TOP + ROW * number, depth, replace(branch, why="") if crowd and branch.sign == "ruled out" else branch)
    down = TOP + ROW * len(shown)
    if hidden > 0:
        sheet.write(24, down + 15, f"… and {hidden} more, in the table", size=11, fill=palette.FAINT)
        down += ROW
    for number, sign in enumerate(signs):
        x, y = 24 + (number % 2) * WIDE / 2, down + 22 + 16 * (number // 2)
        sheet.write(x, y, MARKS[sign], size=11, fill=_ink(sign))
        sheet.write(x + 16, y, MEANS[sign], size=10, fill=palette.FAINT)
    return sheet.drawn(kind)


def telling(rows: Sequence[tuple[int, WalkedBranch]], most: int) -> list[tuple[int, WalkedBranch]]:
    """What is shown, in its order: of too many rows causes that are ruled out or were passed by go first, from the end."""
    over = len(rows) - most
    dull = [at for at, (depth, branch) in enumerate(rows) if depth > 1 and branch.sign in _QUIET | {"ruled out"}]
    gone = set(dull[-over:]) if over > 0 else set()
    return [row for at, row in enumerate(rows) if at not in gone][:most]


def _ink(sign: WalkSign) -> str:
    inks = {"found": palette.BAD, "ruled out": palette.GOOD, "could not look": palette.DOUBT, "not decided": palette.DOUBT}
    return inks.get(sign, palette.FAINT)


def _stems(sheet: Canvas, depths: list[int]) -> None:
    """What hangs on what: from each branch down to the last of its children, and across to each."""
    for at, depth in enumerate(depths):
        below = [row for row in range(at + 1, len(depths)) if depths[row] == depth + 1 and min(depths[at + 1 : row + 1]) > depth]
        x = 30 + INDENT * depth
        for row in below:
            y = TOP + ROW * row + 10
            sheet.path(((x, y), (x + INDENT - 8, y)), palette.FRAME)
        if below:
            sheet.path(((x, TOP + ROW * at + 18), (x, TOP + ROW * below[-1] + 10)), palette.FRAME)


def _row(sheet: Canvas, y: float, depth: int, branch: WalkedBranch) -> None:
    x, ink = 24 + INDENT * depth, _ink(branch.sign)
    sheet.write(x, y + 15, MARKS[branch.sign], size=13, fill=ink)
    size, faint = 12 if depth < 2 else 11, palette.FAINT
    sheet.write(x + 18, y + 15, branch.title, size=size, fill=faint if branch.sign in _QUIET else "", room=WHY - x - 30)
    rest = f"{branch.left_out} more below, not looked into" if branch.left_out else ""
    sign = "" if branch.why.startswith(branch.sign) else branch.sign  # said once
    why = "; ".join(filter(None, (sign, branch.why, rest)))
    sheet.write(WHY, y + 15, why, size=10, fill=ink if branch.sign == "found" else faint, room=WIDE - WHY - 16)
