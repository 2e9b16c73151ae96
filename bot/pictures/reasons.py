"""The reasoning of a turn as an image: to the left what was seen, objected and said; in the middle the causes; to the right what they call for."""

from collections.abc import Mapping, Sequence
from typing import Final

from bot.pictures import palette
from bot.pictures.canvas import Canvas, Kind
from graph.reasoning.nodes import EdgeKind, ReasonEdge, ReasonGraph, ReasonNode
from graph.reasoning.told import MARKS, WORDS
from tools.inventory.ranges import fold

TITLE: Final = "Why it came to this"
WIDE, TOP, ROW, GAP = 1120, 70, 30, 16
LEFT, LEFT_WIDE, MIDDLE, MIDDLE_WIDE, RIGHT, RIGHT_WIDE = 20, 440, 520, 330, 900, 200
MOST_CAUSES, MOST_STEPS = 10, 8
"""Causes that are drawn, and steps of each; the rest is in the text."""


def picture(graph: ReasonGraph, titles: Mapping[str, str], kind: Kind = "svg") -> bytes:
    """The image; what is drawn is bounded."""
    causes = graph.of_kind("proposition")[:MOST_CAUSES]
    bands = [(cause, _steps(graph, cause), _calls(graph, cause)) for cause in causes]
    heights = [ROW * max(len(steps[:MOST_STEPS]), len(calls[:MOST_STEPS]), 2) + GAP for _, steps, calls in bands]
    sheet = Canvas(WIDE, TOP + sum(heights) + 30, TITLE, _in_words(graph, titles))
    sheet.write(LEFT, 28, TITLE, size=15)
    sheet.write(LEFT, 48, f"{graph.incident}: {graph.outcome}", size=10, fill=palette.FAINT)
    for x, head in ((LEFT, "what was seen and said"), (MIDDLE, "causes"), (RIGHT, "calls for")):
        sheet.write(x, TOP - 6, head, size=10, fill=palette.FAINT)
    down = float(TOP)
    for (cause, steps, calls), height in zip(bands, heights, strict=True):
        _band(sheet, down, height, cause, steps, calls, titles)
        down += height
    rest = len(graph.of_kind("proposition")) - len(causes)
    sheet.write(LEFT, down + 16, f"… and {rest} more causes, in the text" if rest > 0 else "", size=10, fill=palette.FAINT)
    return sheet.drawn(kind)


def _steps(graph: ReasonGraph, cause: ReasonNode) -> list[tuple[ReasonEdge, ReasonNode]]:
    order = tuple(WORDS)
    return sorted(graph.into(cause), key=lambda row: order.index(row[0].kind))


def _calls(graph: ReasonGraph, cause: ReasonNode) -> list[ReasonNode]:
    return [graph.by_id[edge.target] for edge in graph.edges if edge.source == cause.id and edge.kind == "calls for"]


def _band(
    sheet: Canvas,
    top: float,
    height: float,
    cause: ReasonNode,
    steps: Sequence[tuple[ReasonEdge, ReasonNode]],
    calls: Sequence[ReasonNode],
    titles: Mapping[str, str],
) -> None:
    """One cause with what leads to it and from it."""
    middle = top + (height - GAP) / 2
    for number, (edge, node) in enumerate(steps[:MOST_STEPS]):
        y = top + ROW * number + ROW / 2
        ink = _ink(edge.kind)
        dashes = "4 3" if edge.kind in ("leaves open", "moves") else ""
        sheet.path([(LEFT + LEFT_WIDE, y), (MIDDLE, middle)], ink, width=2 if edge.kind == "decides" else 1, dashes=dashes)
        more = f" (+{len(steps) - MOST_STEPS} more)" if number == MOST_STEPS - 1 and len(steps) > MOST_STEPS else ""
        _box(sheet, LEFT, y - 12, LEFT_WIDE, f"{WORDS[edge.kind]}: {_said(edge, node)}{more}", ink)
    for number, node in enumerate(calls[:MOST_STEPS]):
        y = top + ROW * number + ROW / 2
        sheet.path([(MIDDLE + MIDDLE_WIDE, middle), (RIGHT, y)], palette.FAINT)
        _box(sheet, RIGHT, y - 12, RIGHT_WIDE, node.says, palette.FAINT)
    _cause(sheet, middle, cause, titles)


def _cause(sheet: Canvas, middle: float, cause: ReasonNode, titles: Mapping[str, str]) -> None:
    ink = palette.BAD if cause.verdict == "confirmed" else palette.FAINT
    sheet.box(MIDDLE, middle - 22, MIDDLE_WIDE, 44, palette.GROUND, stroke=ink, round_by=5)
    name = titles.get(cause.label, cause.label) or cause.says
    sheet.write(MIDDLE + 8, middle - 4, f"{MARKS.get(cause.verdict, '·')} {name}", size=11, room=MIDDLE_WIDE - 16)
    where = ", ".join(cause.devices[:3]) or fold(cause.hosts)
    sheet.write(MIDDLE + 8, middle + 13, f"{cause.verdict} {where}".strip(), size=9, fill=palette.FAINT, room=MIDDLE_WIDE - 16)


def _box(sheet: Canvas, x: float, y: float, width: float, says: str, ink: str) -> None:
    sheet.box(x, y, width, 24, palette.GROUND, stroke=ink, round_by=4)
    sheet.write(x + 6, y + 16, says, size=9.5, room=width - 12)


def _said(edge: ReasonEdge, node: ReasonNode) -> str:
    if node.kind == "refinement" and not node.line:
        return f"{node.by} {edge.weight:+.2f}"
    return f"{node.says} ({node.check} on {node.host or 'what was handed in'})" if node.kind == "verification" else node.says


def _ink(kind: EdgeKind) -> str:
    inks = {"decides": palette.BAD, "contradicts": palette.GOOD, "objects to": palette.DOUBT, "leaves open": palette.DOUBT}
    return inks.get(kind, palette.FAINT)


def _in_words(graph: ReasonGraph, titles: Mapping[str, str]) -> str:
    found = [titles.get(node.label, node.label) for node in graph.of_kind("proposition") if node.verdict == "confirmed"]
    return f"{graph.outcome}: {', '.join(found)}" if found else graph.outcome
