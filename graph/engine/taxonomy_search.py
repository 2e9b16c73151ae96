"""Search the taxonomy depth-first: likeliest child first, with pruning and backtracking.

This is algorithm 1 of AidAI with the posterior in place of the model. Unlike there, facts persist between siblings, so
most leaves are decided by earlier observations. The state is plain JSON, and the search may pause at any leaf.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graph.engine.assessment import Assessment
from graph.engine.verdict import LabelVerdict

MIN_RELEVANT_POSTERIOR = 0.015  # below this an unsupported leaf is not visited
MAX_LOG_ENTRIES = 40  # log entries
MAX_REASON_CHARS = 60  # characters per reason: the state is stored at every step


@dataclass(frozen=True, slots=True)
class LeafVisit:
    """A leaf whose (host, check) pairs must be observed before the search continues."""

    label: str
    asks: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class TaxonomySearch:
    """State of a search. `stack` holds a path and its unvisited children; cards draw the log."""

    stack: list[tuple[str, list[str]]] = field(default_factory=list)
    started: bool = False
    found: list[str] = field(default_factory=list)
    exhausted: list[str] = field(default_factory=list)
    log: list[tuple[str, str, str]] = field(default_factory=list)  # (path, action, reason)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "TaxonomySearch":
        return cls(
            stack=[(path, list(todo)) for path, todo in state.get("stack", ())],
            started=bool(state.get("started")),
            found=list(state.get("found", ())),
            exhausted=list(state.get("exhausted", ())),
            log=[(path, did, reason) for path, did, reason in state.get("log", ())],
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "stack": [[path, list(todo)] for path, todo in self.stack],
            "started": self.started,
            "found": self.found,
            "exhausted": self.exhausted,
            "log": [list(entry) for entry in self.log],
        }

    def log_step(self, path: str, did: str, reason: str = "") -> None:
        if len(self.log) < MAX_LOG_ENTRIES:
            self.log.append((path, did, reason[:MAX_REASON_CHARS]))


def advance_search(search: TaxonomySearch, assessment: Assessment) -> tuple[TaxonomySearch, LeafVisit | None]:
    """Advance the search until a leaf needs observation, or return None when all relevant branches are explored."""
    search = TaxonomySearch.from_json(search.to_json())
    if not search.started:
        search.started = True
        search.stack.append(("", _select_children(search, "", assessment)))
    while search.stack:
        path, todo = search.stack[-1]
        if not todo:
            _leave_branch(search, path)
            continue
        child = todo[0]
        if child in assessment.label_verdicts:
            visit = _visit_leaf(search, child, assessment)
            if visit:
                return search, visit
        else:
            search.stack.append((child, _select_children(search, child, assessment)))
        todo.pop(0)
    return search, None


def _select_children(search: TaxonomySearch, path: str, assessment: Assessment) -> list[str]:
    """Return relevant children, likeliest best leaf first; an empty list stops early."""
    children = assessment.reference.taxonomy.list_children(path)
    worth = {child: _compute_interest(_list_verdicts_below(child, assessment)) for child in children}
    kept_children = sorted((child for child in children if worth[child] > 0), key=lambda child: (-worth[child], child))
    pruned = [child for child in children if worth[child] <= 0]
    if not kept_children and path:
        search.log_step(path, "stopped early", _format_prune_reason(_list_verdicts_below(path, assessment)))
    elif pruned and not path:
        for child in pruned:
            search.log_step(child, "pruned", _format_prune_reason(_list_verdicts_below(child, assessment)))
    return kept_children


def _list_verdicts_below(path: str, assessment: Assessment) -> list[LabelVerdict]:
    labels: Iterable[str] = (label for label in assessment.label_verdicts if label == path or label.startswith(f"{path}."))
    return [assessment.label_verdicts[label] for label in labels]


def _compute_interest(verdicts: Sequence[LabelVerdict]) -> float:
    return max((_compute_leaf_interest(verdict) for verdict in verdicts), default=0.0)


def _compute_leaf_interest(verdict: LabelVerdict) -> float:
    if verdict.verdict == "confirmed":
        return 1 + verdict.confidence
    if verdict.verdict == "rejected" and not verdict.best.support:
        return 0.0
    return verdict.confidence if verdict.confidence >= MIN_RELEVANT_POSTERIOR or verdict.best.support else 0.0


def _format_prune_reason(verdicts: Sequence[LabelVerdict]) -> str:
    rejected = [verdict for verdict in verdicts if verdict.verdict == "rejected"]
    return f"{len(rejected)} of {len(verdicts)} rejected, the rest unlikely"


def _visit_leaf(search: TaxonomySearch, label: str, assessment: Assessment) -> LeafVisit | None:
    """Judge a leaf, or return a LeafVisit if checks are missing."""
    verdict = assessment.label_verdicts[label]
    if verdict.verdict == "open" and verdict.unasked_checks:
        return LeafVisit(label, verdict.unasked_checks)
    if verdict.verdict == "confirmed":
        search.found.append(label)
    did = "could not look" if verdict.unobserved_hosts else verdict.verdict
    search.log_step(label, did, "" if verdict.verdict == "rejected" else verdict.because)
    return None


def _leave_branch(search: TaxonomySearch, path: str) -> None:
    search.stack.pop()
    if path:
        search.exhausted.append(path)
        if not any(label.startswith(f"{path}.") for label in search.found):
            search.log_step(path, "backtracked")
