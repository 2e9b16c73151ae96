"""Render a turn's reasoning as a tree: each cause with its proof, the facts for and against it, shifts and proposed steps."""

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
    """Return the lines from top to bottom, each with its depth."""
    tree_lines: list[tuple[int, str]] = []
    for node in graph.list_nodes("proposition"):
        tree_lines.append((0, _render_cause(node, titles)))
        tree_lines.extend(_iter_child_lines(graph, node))
    return tree_lines


def render_tree(graph: ReasonGraph, titles: CauseTitles) -> list[str]:
    tree_lines = build_tree_lines(graph, titles)
    lines: list[str] = []
    for index, (depth, line) in enumerate(tree_lines):
        is_last = index + 1 == len(tree_lines) or tree_lines[index + 1][0] == 0
        branch = "└ " if is_last else "├ "
        lines.append(f"{branch}{line}" if depth else line)
    return lines


def list_other_influences(graph: ReasonGraph, label: str) -> list[str]:
    """Return what influenced a cause besides its proof."""
    for node in graph.list_nodes("proposition"):
        if node.label == label:
            influences = graph.list_incoming(node, "contradicts", "leaves open", "objects to", "moves")
            return [_render_edge(edge, source) for edge, source in influences]
    return []


def _render_edge(edge: ReasonEdge, source: ReasonNode) -> str:
    """Render an edge. Shifts are given in words, because log-odds mean nothing to readers."""
    if edge.kind != "moves" or source.line:
        return f"{EDGE_TEXTS[edge.kind]}: {_render_node(edge, source)}"
    source_text = SOURCE_TEXTS[source.by.removeprefix("model:")]
    return f"{'likelier' if edge.weight > 0 else 'less likely'} by {source_text}"


def _render_cause(node: ReasonNode, titles: CauseTitles) -> str:
    mark = VERDICT_MARKS.get(node.verdict, "·")
    if not node.label:
        return f"{mark} a model's idea, {node.verdict}: {node.says}"
    title = titles.get(node.label, node.label)
    location = ", ".join(node.devices[:4]) or fold_host_names(node.hosts)
    location_note = f" ({location})" if location else ""
    verdict = node.verdict
    if verdict == "confirmed":
        verdict = f"{verdict} {format_confidence_percent(node.confidence)}"
    explanation = f", {node.says}" if node.says else ""
    return f"{mark} {title}{location_note}: {verdict}{explanation}"


def _iter_child_lines(graph: ReasonGraph, node: ReasonNode) -> Iterator[tuple[int, str]]:
    for edge, source in sorted(graph.list_incoming(node), key=lambda edge_and_source: EDGE_ORDER.index(edge_and_source[0].kind)):
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


def render_verification(verification: VerificationResult) -> list[str]:
    lines = [f"✗ {violation.promise}: {violation.says}" for violation in verification.broken]
    lines += [f"? {reason}" for reason in verification.unchecked]
    summary = f"{verification.held} contracts hold"
    if verification.broken:
        broken_contracts = {violation.contract for violation in verification.broken}
        summary += f", {len(broken_contracts)} broken: a fault of RackMedic's"
    return [*lines, f"{summary}."]
