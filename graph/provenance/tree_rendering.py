"""Render a turn's reasoning as a tree: each cause with proof, facts for and against, shifts, and steps it calls for.
Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from graph.extraction.report_texts import format_confidence_percent
from graph.provenance.invariants import VerificationResult
from graph.provenance.reason_graph import EdgeKind, ReasonEdge, ReasonGraph, ReasonNode
from tools.inventory.host_ranges import fold_host_names

# Marks differ in shape, not only in colour.
VERDICT_MARKS: Final[Mapping[str, str]] = {
    "confirmed": "✓",
    "rejected": "✗",
    "inconclusive": "?",
    "open": "·",
    "supported": "◐",
    "refuted": "✗",
}
EDGE_TEXTS: Final[Mapping[EdgeKind, str]] = {
    "decides": "proof",
    "supports": "for",
    "contradicts": "against",
    "leaves open": "could not look",
    "objects to": "objection",
    "moves": "moved by",
    "calls for": "calls for",
}
SOURCE_TEXTS: Final[Mapping[str, str]] = {
    "words": "the words of the report",
    "history": "past incidents like it",
    "mistakes": "corrected diagnoses of incidents like it",
    "read": "a model that read the report",
    "judge": "a model that compared the causes",
    "critique": "a model that doubted the cause",
}
EDGE_ORDER: Final = tuple(EDGE_TEXTS)
CauseTitles = Mapping[str, str]


def build_tree_lines(graph: ReasonGraph, titles: CauseTitles) -> list[tuple[int, str]]:
    """Return (depth, line) from top to bottom."""
    return [row for node in graph.list_nodes("proposition") for row in ((0, _render_cause(node, titles)), *_iter_child_lines(graph, node))]


def render_tree(graph: ReasonGraph, titles: CauseTitles) -> list[str]:
    rows = build_tree_lines(graph, titles)
    lines: list[str] = []
    for at, (depth, line) in enumerate(rows):
        last = at + 1 == len(rows) or rows[at + 1][0] == 0
        lines.append(line if not depth else f"{'└' if last else '├'} {line}")
    return lines


def list_other_influences(graph: ReasonGraph, label: str) -> list[str]:
    """Return what shaped a cause besides its proof."""
    node = next((one for one in graph.list_nodes("proposition") if one.label == label), None)
    kinds: tuple[EdgeKind, ...] = ("contradicts", "leaves open", "objects to", "moves")
    return [_render_edge(edge, source) for edge, source in graph.list_incoming(node, *kinds)] if node else []


def _render_edge(edge: ReasonEdge, source: ReasonNode) -> str:
    """Render an edge; a shift in words, because log-odds mean nothing to readers."""
    if edge.kind != "moves" or source.line:
        return f"{EDGE_TEXTS[edge.kind]}: {_render_node(edge, source)}"
    source_text = SOURCE_TEXTS[source.by.removeprefix("model:")]
    return f"{'likelier' if edge.weight > 0 else 'less likely'} by {source_text}"


def _render_cause(node: ReasonNode, titles: CauseTitles) -> str:
    mark = VERDICT_MARKS.get(node.verdict, "·")
    if not node.label:
        return f"{mark} a model's idea, {node.verdict}: {node.says}"
    location = ", ".join(node.devices[:4]) or fold_host_names(node.hosts)
    place = f" ({location})" if location else ""
    verdict_text = f"{node.verdict} {format_confidence_percent(node.confidence)}" if node.verdict == "confirmed" else node.verdict
    return f"{mark} {titles.get(node.label, node.label)}{place}: {verdict_text}{f', {node.says}' if node.says else ''}"


def _iter_child_lines(graph: ReasonGraph, node: ReasonNode) -> Iterator[tuple[int, str]]:
    rows = [(edge, source) for edge, source in graph.list_incoming(node)]
    for edge, source in sorted(rows, key=lambda row: EDGE_ORDER.index(row[0].kind)):
        yield 1, f"{EDGE_TEXTS[edge.kind]}: {_render_node(edge, source)}"
    for edge in graph.edges:
        if edge.source == node.id and edge.kind == "calls for":
            yield 1, f"{EDGE_TEXTS[edge.kind]}: {graph.by_id[edge.target].says}"


def _render_node(edge: ReasonEdge, node: ReasonNode) -> str:
    if node.kind == "verification":
        source = f" ({node.check} on {node.host or 'what was handed in'})"
        return f"{node.says}{source}{f' {edge.weight:+.1f}' if edge.weight else ''}"
    if node.kind == "refinement" and not node.line:
        return f"{node.by} {edge.weight:+.2f}"
    return f"{node.says} ({node.by})" if node.by.startswith("model") else node.says


def render_verification(came: VerificationResult) -> list[str]:
    lines = [f"✗ {row.promise}: {row.says}" for row in came.broken]
    lines += [f"? {reason}" for reason in came.unchecked]
    contract_note = f"{came.held} contracts hold"
    return [
        *lines,
        f"{contract_note}."
        if not came.broken
        else f"{contract_note}, {len({row.contract for row in came.broken})} broken: a fault of RackMedic's.",
    ]
