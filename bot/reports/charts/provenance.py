"""Chart of a turn's reasoning: observations, causes, and what these call for."""

from collections.abc import Mapping, Sequence
from typing import Final

from bot.reports.charts import canvas as palette
from bot.reports.charts.canvas import Canvas, ImageFormat
from graph.provenance.reason_graph import EdgeKind, ReasonEdge, ReasonGraph, ReasonNode
from graph.provenance.tree_rendering import EDGE_TEXTS, VERDICT_MARKS
from tools.inventory.host_ranges import fold_host_names

TITLE: Final = "Why this is the result"
CHART_WIDTH = 1120
TOP_MARGIN = 70
ROW_HEIGHT = 30
BAND_GAP = 16
LEFT_X = 20
LEFT_WIDTH = 440
MIDDLE_X = 520
MIDDLE_WIDTH = 330
RIGHT_X = 900
RIGHT_WIDTH = 200
MAX_CAUSES = 10  # causes drawn; the text has the rest
MAX_STEPS = 8  # steps drawn per cause


def render_provenance_chart(graph: ReasonGraph, titles: Mapping[str, str], kind: ImageFormat = "svg") -> bytes:
    causes = graph.list_nodes("proposition")[:MAX_CAUSES]
    bands = [(cause, _list_steps(graph, cause), _list_called_for(graph, cause)) for cause in causes]
    heights = [ROW_HEIGHT * max(len(steps[:MAX_STEPS]), len(calls[:MAX_STEPS]), 2) + BAND_GAP for _, steps, calls in bands]
    sheet = Canvas(CHART_WIDTH, TOP_MARGIN + sum(heights) + 30, TITLE, _format_summary(graph, titles))
    sheet.draw_text(LEFT_X, 28, TITLE, size=15)
    sheet.draw_text(LEFT_X, 48, f"{graph.incident}: {graph.outcome}", size=10, fill=palette.FAINT)
    for x, head in ((LEFT_X, "what was seen and said"), (MIDDLE_X, "causes"), (RIGHT_X, "calls for")):
        sheet.draw_text(x, TOP_MARGIN - 6, head, size=10, fill=palette.FAINT)
    down = float(TOP_MARGIN)
    for (cause, steps, calls), height in zip(bands, heights, strict=True):
        _draw_band(sheet, down, height, cause, steps, calls, titles)
        down += height
    rest = len(graph.list_nodes("proposition")) - len(causes)
    sheet.draw_text(LEFT_X, down + 16, f"… and {rest} more causes, in the text" if rest > 0 else "", size=10, fill=palette.FAINT)
    return sheet.render(kind)


def _list_steps(graph: ReasonGraph, cause: ReasonNode) -> list[tuple[ReasonEdge, ReasonNode]]:
    order = tuple(EDGE_TEXTS)
    return sorted(graph.list_incoming(cause), key=lambda row: order.index(row[0].kind))


def _list_called_for(graph: ReasonGraph, cause: ReasonNode) -> list[ReasonNode]:
    return [graph.by_id[edge.target] for edge in graph.edges if edge.source == cause.id and edge.kind == "calls for"]


def _draw_band(
    canvas: Canvas,
    top: float,
    height: float,
    cause: ReasonNode,
    steps: Sequence[tuple[ReasonEdge, ReasonNode]],
    calls: Sequence[ReasonNode],
    titles: Mapping[str, str],
) -> None:
    middle = top + (height - BAND_GAP) / 2
    for number, (edge, node) in enumerate(steps[:MAX_STEPS]):
        y = top + ROW_HEIGHT * number + ROW_HEIGHT / 2
        ink = _choose_ink(edge.kind)
        dashes = "4 3" if edge.kind in ("leaves open", "moves") else ""
        canvas.draw_path([(LEFT_X + LEFT_WIDTH, y), (MIDDLE_X, middle)], ink, width=2 if edge.kind == "decides" else 1, dashes=dashes)
        more = f" (+{len(steps) - MAX_STEPS} more)" if number == MAX_STEPS - 1 and len(steps) > MAX_STEPS else ""
        _draw_box(canvas, LEFT_X, y - 12, LEFT_WIDTH, f"{EDGE_TEXTS[edge.kind]}: {_format_node(edge, node)}{more}", ink)
    for number, node in enumerate(calls[:MAX_STEPS]):
        y = top + ROW_HEIGHT * number + ROW_HEIGHT / 2
        canvas.draw_path([(MIDDLE_X + MIDDLE_WIDTH, middle), (RIGHT_X, y)], palette.FAINT)
        _draw_box(canvas, RIGHT_X, y - 12, RIGHT_WIDTH, node.says, palette.FAINT)
    _draw_cause(canvas, middle, cause, titles)


def _draw_cause(canvas: Canvas, middle: float, cause: ReasonNode, titles: Mapping[str, str]) -> None:
    ink = palette.BAD if cause.verdict == "confirmed" else palette.FAINT
    canvas.draw_box(MIDDLE_X, middle - 22, MIDDLE_WIDTH, 44, palette.BACKGROUND, stroke=ink, round_by=5)
    name = titles.get(cause.label, cause.label) or cause.says
    canvas.draw_text(MIDDLE_X + 8, middle - 4, f"{VERDICT_MARKS.get(cause.verdict, '·')} {name}", size=11, room=MIDDLE_WIDTH - 16)
    location = ", ".join(cause.devices[:3]) or fold_host_names(cause.hosts)
    canvas.draw_text(MIDDLE_X + 8, middle + 13, f"{cause.verdict} {location}".strip(), size=9, fill=palette.FAINT, room=MIDDLE_WIDTH - 16)


def _draw_box(canvas: Canvas, x: float, y: float, width: float, says: str, ink: str) -> None:
    canvas.draw_box(x, y, width, 24, palette.BACKGROUND, stroke=ink, round_by=4)
    canvas.draw_text(x + 6, y + 16, says, size=9.5, room=width - 12)


def _format_node(edge: ReasonEdge, node: ReasonNode) -> str:
    if node.kind == "refinement" and not node.line:
        return f"{node.by} {edge.weight:+.2f}"
    return f"{node.says} ({node.check} on {node.host or 'what was handed in'})" if node.kind == "verification" else node.says


def _choose_ink(kind: EdgeKind) -> str:
    inks = {"decides": palette.BAD, "contradicts": palette.GOOD, "objects to": palette.DOUBT, "leaves open": palette.DOUBT}
    return inks.get(kind, palette.FAINT)


def _format_summary(graph: ReasonGraph, titles: Mapping[str, str]) -> str:
    titles_found = [titles.get(node.label, node.label) for node in graph.list_nodes("proposition") if node.verdict == "confirmed"]
    return f"{graph.outcome}: {', '.join(titles_found)}" if titles_found else graph.outcome
