"""Chart of the search through the taxonomy."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bot.reports.charts import canvas as palette
from bot.reports.charts.canvas import Canvas, ImageFormat
from graph.search_trace import RESULT_MARKS, RESULT_TEXTS, BranchResult, SearchBranch, SearchTree, summarize_search_tree

TITLE: Final = "What was checked, and the result"
MAX_ROWS = 48
MAX_REASONS = 16  # above it ruled-out causes are drawn without reason; the table has them
ROW_HEIGHT = 21
INDENT_WIDTH = 22
TOP_MARGIN = 62
CHART_WIDTH = 860
REASON_X = 410
_FAINT_SIGNS: Final[frozenset[BranchResult]] = frozenset({"not reached", "passed by"})


def render_trace_chart(tree: SearchTree, kind: ImageFormat = "png") -> bytes:
    rows = tree.list_rows()
    shown_rows = select_rows(rows, MAX_ROWS)
    signs = [sign for sign in RESULT_MARKS if any(branch.sign == sign for _, branch in shown_rows)]
    hidden = len(rows) - len(shown_rows)
    height = TOP_MARGIN + ROW_HEIGHT * (len(shown_rows) + (hidden > 0)) + 16 * ((len(signs) + 1) // 2) + 26
    sheet = Canvas(CHART_WIDTH, height, TITLE, summarize_search_tree(tree))
    sheet.draw_text(20, 28, TITLE, size=15)
    sheet.draw_text(20, 46, summarize_search_tree(tree), size=10, fill=palette.FAINT, room=CHART_WIDTH - 40)
    _draw_stems(sheet, [depth for depth, _ in shown_rows])
    crowd = sum(branch.sign == "ruled out" for _, branch in shown_rows) > MAX_REASONS
    for number, (depth, branch) in enumerate(shown_rows):
        _draw_row(
            sheet, TOP_MARGIN + ROW_HEIGHT * number, depth, replace(branch, why="") if crowd and branch.sign == "ruled out" else branch
        )
    down = TOP_MARGIN + ROW_HEIGHT * len(shown_rows)
    if hidden > 0:
        sheet.draw_text(24, down + 15, f"… and {hidden} more, in the table", size=11, fill=palette.FAINT)
        down += ROW_HEIGHT
    for number, sign in enumerate(signs):
        x, y = 24 + (number % 2) * CHART_WIDTH / 2, down + 22 + 16 * (number // 2)
        sheet.draw_text(x, y, RESULT_MARKS[sign], size=11, fill=_choose_ink(sign))
        sheet.draw_text(x + 16, y, RESULT_TEXTS[sign], size=10, fill=palette.FAINT)
    return sheet.render(kind)


def select_rows(rows: Sequence[tuple[int, SearchBranch]], max_rows: int) -> list[tuple[int, SearchBranch]]:
    """Return the shown rows; ruled-out and skipped causes go first, from the end."""
    over = len(rows) - max_rows
    dull = [at for at, (depth, branch) in enumerate(rows) if depth > 1 and branch.sign in _FAINT_SIGNS | {"ruled out"}]
    hidden_rows = set(dull[-over:]) if over > 0 else set()
    return [row for at, row in enumerate(rows) if at not in hidden_rows][:max_rows]


def _choose_ink(sign: BranchResult) -> str:
    inks = {"found": palette.BAD, "ruled out": palette.GOOD, "could not look": palette.DOUBT, "not decided": palette.DOUBT}
    return inks.get(sign, palette.FAINT)


def _draw_stems(canvas: Canvas, depths: list[int]) -> None:
    for at, depth in enumerate(depths):
        below = [row for row in range(at + 1, len(depths)) if depths[row] == depth + 1 and min(depths[at + 1 : row + 1]) > depth]
        x = 30 + INDENT_WIDTH * depth
        for row in below:
            y = TOP_MARGIN + ROW_HEIGHT * row + 10
            canvas.draw_path(((x, y), (x + INDENT_WIDTH - 8, y)), palette.FRAME)
        if below:
            canvas.draw_path(((x, TOP_MARGIN + ROW_HEIGHT * at + 18), (x, TOP_MARGIN + ROW_HEIGHT * below[-1] + 10)), palette.FRAME)


def _draw_row(canvas: Canvas, y: float, depth: int, branch: SearchBranch) -> None:
    x, ink = 24 + INDENT_WIDTH * depth, _choose_ink(branch.sign)
    canvas.draw_text(x, y + 15, RESULT_MARKS[branch.sign], size=13, fill=ink)
    size, faint = 12 if depth < 2 else 11, palette.FAINT
    canvas.draw_text(x + 18, y + 15, branch.title, size=size, fill=faint if branch.sign in _FAINT_SIGNS else "", room=REASON_X - x - 30)
    rest = f"{branch.left_out} more below, not looked into" if branch.left_out else ""
    sign = "" if branch.why.startswith(branch.sign) else branch.sign  # the reason repeats the result
    description = "; ".join(filter(None, (sign, branch.why, rest)))
    canvas.draw_text(
        REASON_X, y + 15, description, size=10, fill=ink if branch.sign == "found" else faint, room=CHART_WIDTH - REASON_X - 16
    )
