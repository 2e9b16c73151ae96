"""The taxonomy search as a tree: which branches were searched, what was found, and which were skipped. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from graph.incident_view import IncidentView

BranchResult = Literal["found", "ruled out", "passed by", "could not look", "not decided", "not reached"]
RESULT_MARKS: Final[Mapping[BranchResult, str]] = {
    "found": "✓",
    "ruled out": "✗",
    "passed by": "⊘",
    "could not look": "!",
    "not decided": "?",
    "not reached": "·",
}
RESULT_TEXTS: Final[Mapping[BranchResult, str]] = {
    "found": "found, with proof",
    "ruled out": "looked at and ruled out",
    "passed by": "passed by: the facts reject it or make it unlikely",
    "could not look": "could not be looked at, so it is not ruled out",
    "not decided": "looked at, not decided",
    "not reached": "not looked into",
}
_LOG_RESULTS: Final[Mapping[str, BranchResult]] = {
    "confirmed": "found",
    "rejected": "ruled out",
    "inconclusive": "not decided",
    "could not look": "could not look",
    "open": "not decided",
    "pruned": "passed by",
    "stopped early": "passed by",
    "backtracked": "passed by",
}
# Used where no reason was recorded.
_DEFAULT_REASONS: Final[Mapping[BranchResult, str]] = {
    "ruled out": "what would show it was looked at, and does not",
    "passed by": "gone down to its end, and nothing was found there",
}
_RESULT_PRIORITY: Final[tuple[BranchResult, ...]] = ("found", "could not look", "not decided", "ruled out", "passed by", "not reached")
MAX_CHILDREN = 10  # Children shown per branch, the most telling first.
MAX_REASON_CHARS = 120


@dataclass(frozen=True, slots=True)
class SearchBranch:
    """A category, branch or leaf. `children` are those that were searched, `left_out` counts the others."""

    path: str
    title: str
    sign: BranchResult
    why: str = ""
    children: "tuple[SearchBranch, ...]" = ()
    left_out: int = 0

    @property
    def reason(self) -> str:
        """Its own reason, else that of the first child with the same result. Never empty for `ruled out` and `passed
        by`.
        """
        if self.why or self.sign not in _DEFAULT_REASONS:
            return self.why
        telling = next((row for row in self.children if row.sign == self.sign), None)
        if telling is None:
            return _DEFAULT_REASONS[self.sign]
        return telling.reason if telling.children else f"{telling.title}: {telling.reason}"


@dataclass(frozen=True, slots=True)
class SearchTree:
    """All categories, in search order."""

    branches: tuple[SearchBranch, ...]

    def list_rows(self) -> list[tuple[int, SearchBranch]]:
        """Return (depth, branch) from top to bottom."""
        return [pair for branch in self.branches for pair in _iter_rows(branch, 0)]

    def to_table(self) -> list[tuple[str, ...]]:
        cells = [(branch.path, branch.title, branch.sign, _format_reason(branch)) for _, branch in self.list_rows()]
        return [("where", "what", "came to", "why"), *cells]

    def find_leaves(self, sign: BranchResult) -> list[SearchBranch]:
        return [branch for _, branch in self.list_rows() if branch.sign == sign and not branch.children]


def _iter_rows(branch: SearchBranch, depth: int) -> Iterable[tuple[int, SearchBranch]]:
    yield depth, branch
    for child in branch.children:
        yield from _iter_rows(child, depth + 1)


def _format_reason(branch: SearchBranch) -> str:
    rest = f"{branch.left_out} more below, not looked into" if branch.left_out else ""
    return "; ".join(filter(None, (branch.reason, rest)))


def build_search_tree(incident: IncidentView, titles: Mapping[str, str]) -> SearchTree:
    """Build the tree from the search log, overridden by the latest verdicts. `titles` covers the taxonomy."""
    signs, order = _collect_results(incident)
    roots = sorted({path.partition(".")[0] for path in titles}, key=lambda path: (order.get(path, len(order)), path))
    below: dict[str, set[str]] = {}
    for path in titles:
        for step in _list_path_prefixes(path):
            below.setdefault(step.rpartition(".")[0], set()).add(step)
    return SearchTree(tuple(_build_branch(root, signs, order, below, titles) for root in roots))


def _collect_results(incident: IncidentView) -> tuple[dict[str, tuple[BranchResult, str]], dict[str, int]]:
    """Return path → (result, reason) and path → order of the first visit."""
    signs: dict[str, tuple[BranchResult, str]] = {}
    order: dict[str, int] = {}
    for path, did, reason in incident.search_steps:
        signs[path] = (_LOG_RESULTS.get(did, "not decided"), reason[:MAX_REASON_CHARS])
        for step in _list_path_prefixes(path):
            order.setdefault(step, len(order))
    report = incident.report
    judged_causes = (*(report.ruled_out if report else ()), *incident.hypotheses, *(report.root_causes if report else ()))
    for row in judged_causes:
        signs[row.label] = (_get_final_result(row.verdict, signs.get(row.label)), row.because[:MAX_REASON_CHARS])
        for step in _list_path_prefixes(row.label):
            order.setdefault(step, len(order))
    return signs, order


def _get_final_result(verdict: str, before: tuple[BranchResult, str] | None) -> BranchResult:
    """Verdicts do not record failed checks, so an inconclusive one keeps the log's `could not look`."""
    was_unobserved = verdict == "inconclusive" and before is not None and before[0] == "could not look"
    return "could not look" if was_unobserved else _LOG_RESULTS.get(verdict, "not decided")


def _list_path_prefixes(path: str) -> list[str]:
    steps = path.split(".")
    return [".".join(steps[: n + 1]) for n in range(len(steps))]


def _build_branch(
    path: str,
    signs: Mapping[str, tuple[BranchResult, str]],
    order: Mapping[str, int],
    below: Mapping[str, set[str]],
    titles: Mapping[str, str],
) -> SearchBranch:
    children = [_build_branch(child, signs, order, below, titles) for child in below.get(path, ()) if child in order]
    first = sorted(children, key=lambda row: (_RESULT_PRIORITY.index(row.sign), order[row.path]))
    own, reason = signs.get(path, ("not reached", ""))
    children_summary = _summarize_children(first, whole=len(children) == len(below.get(path, ())))
    if path not in signs and first:
        own = children_summary or "not decided"
    elif children_summary and _RESULT_PRIORITY.index(children_summary) < _RESULT_PRIORITY.index(own):
        own, reason = children_summary, ""  # a cause was found below it after the search had left it
    shown_children = tuple(sorted(first[:MAX_CHILDREN], key=lambda row: order[row.path]))
    hidden_count = len(below.get(path, ())) - len(shown_children)
    return SearchBranch(path, titles.get(path, path), own, reason, shown_children, hidden_count if shown_children else 0)


def _summarize_children(first: Sequence[SearchBranch], *, whole: bool) -> BranchResult | None:
    """Return the most telling result; None for `ruled out` unless every child was searched."""
    sign = first[0].sign if first else None
    return None if sign == "ruled out" and not whole else sign


def summarize_search_tree(tree: SearchTree) -> str:
    """Return one line, as caption and alt text."""
    found_titles = [branch.title for branch in tree.find_leaves("found")]
    counts = {sign: len(tree.find_leaves(sign)) for sign in _RESULT_PRIORITY if sign != "found"}
    rest = ", ".join(f"{count} {sign}" for sign, count in counts.items() if count)
    head = (
        f"Found: {'; '.join(found_titles[:4])}{f' and {len(found_titles) - 4} more' if len(found_titles) > 4 else ''}"
        if found_titles
        else "Nothing found"
    )
    return f"{head}. Of the branches gone into: {rest}." if rest else f"{head}."
