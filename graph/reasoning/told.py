"""The reasoning of a turn as a tree that people read: each cause with what decides, speaks for and against it, what moved it, and what it calls for. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from graph.reading.counts import sure
from graph.reasoning.contracts import Verified
from graph.reasoning.nodes import EdgeKind, ReasonEdge, ReasonGraph, ReasonNode
from tools.inventory.ranges import fold

MARKS: Final[Mapping[str, str]] = {"confirmed": "✓", "rejected": "✗", "inconclusive": "?", "open": "·", "supported": "◐", "refuted": "✗"}
"""What a cause came to, in signs that differ in shape."""
WORDS: Final[Mapping[EdgeKind, str]] = {
    "decides": "proof",
    "supports": "for",
    "contradicts": "against",
    "leaves open": "could not look",
    "objects to": "objection",
    "moves": "moved by",
    "calls for": "calls for",
}
MOVERS: Final[Mapping[str, str]] = {
    "words": "the words of the report",
    "history": "past incidents like it",
    "mistakes": "corrected diagnoses of incidents like it",
    "read": "a model that read the report",
    "judge": "a model that compared the causes",
    "critique": "a model that doubted the cause",
}
ORDER: Final = tuple(WORDS)
Titles = Mapping[str, str]


def tree(graph: ReasonGraph, titles: Titles) -> list[tuple[int, str]]:
    """(depth, line), from top to bottom."""
    return [row for node in graph.of_kind("proposition") for row in ((0, _cause(node, titles)), *_below(graph, node))]


def in_lines(graph: ReasonGraph, titles: Titles) -> list[str]:
    """The same drawn with branches."""
    rows = tree(graph, titles)
    drawn: list[str] = []
    for at, (depth, line) in enumerate(rows):
        last = at + 1 == len(rows) or rows[at + 1][0] == 0
        drawn.append(line if not depth else f"{'└' if last else '├'} {line}")
    return drawn


def beside(graph: ReasonGraph, label: str) -> list[str]:
    """What went into a cause beside the facts that prove it: what speaks against it, could not look, was objected, moved it."""
    node = next((one for one in graph.of_kind("proposition") if one.label == label), None)
    kinds: tuple[EdgeKind, ...] = ("contradicts", "leaves open", "objects to", "moves")
    return [_plain(edge, source) for edge, source in graph.into(node, *kinds)] if node else []


def _plain(edge: ReasonEdge, source: ReasonNode) -> str:
    """A line for people: a belief that was moved is told in words, for its numbers mean nothing to them."""
    if edge.kind != "moves" or source.line:
        return f"{WORDS[edge.kind]}: {_step(edge, source)}"
    by = MOVERS[source.by.removeprefix("model:")]
    return f"{'likelier' if edge.weight > 0 else 'less likely'} by {by}"


def _cause(node: ReasonNode, titles: Titles) -> str:
    mark = MARKS.get(node.verdict, "·")
    if not node.label:
        return f"{mark} a model's idea, {node.verdict}: {node.says}"
    where = ", ".join(node.devices[:4]) or fold(node.hosts)
    place = f" ({where})" if where else ""
    said = f"{node.verdict} {sure(node.confidence)}" if node.verdict == "confirmed" else node.verdict
    return f"{mark} {titles.get(node.label, node.label)}{place}: {said}{f', {node.says}' if node.says else ''}"


def _below(graph: ReasonGraph, node: ReasonNode) -> Iterator[tuple[int, str]]:
    rows = [(edge, source) for edge, source in graph.into(node)]
    for edge, source in sorted(rows, key=lambda row: ORDER.index(row[0].kind)):
        yield 1, f"{WORDS[edge.kind]}: {_step(edge, source)}"
    for edge in graph.edges:
        if edge.source == node.id and edge.kind == "calls for":
            yield 1, f"{WORDS[edge.kind]}: {graph.by_id[edge.target].says}"


def _step(edge: ReasonEdge, node: ReasonNode) -> str:
    if node.kind == "verification":
        source = f" ({node.check} on {node.host or 'what was handed in'})"
        return f"{node.says}{source}{f' {edge.weight:+.1f}' if edge.weight else ''}"
    if node.kind == "refinement" and not node.line:
        return f"{node.by} {edge.weight:+.2f}"
    return f"{node.says} ({node.by})" if node.by.startswith("model") else node.says


def verdict(came: Verified) -> list[str]:
    """What checking came to, a line each."""
    lines = [f"✗ {row.promise}: {row.says}" for row in came.broken]
    lines += [f"? {says}" for says in came.unchecked]
    whole = f"{came.held} contracts hold"
    return [
        *lines,
        f"{whole}." if not came.broken else f"{whole}, {len({row.contract for row in came.broken})} broken: a fault of RackMedic's.",
    ]
