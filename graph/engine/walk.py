"""The walk down the taxonomy: depth first, likeliest child first, irrelevant branches pruned, exhausted ones backtracked from. Pure.

Algorithm 1 of AidAI with the posterior in the model's place, with one difference: facts are never forgotten between
siblings, so most leaves are decided by what another leaf had looked at. The walk is plain JSON and may stop at any leaf.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graph.engine.assess import Assessment
from graph.engine.verdict import Standing

IRRELEVANT = 0.015
"""Posterior under which a leaf that nothing speaks for is not worth a look."""

LONGEST_LOG, LONGEST_WHY = 40, 60
"""Visits, and characters of why each went as it did. Of what was rejected there are many, and a state is written at every step: why stands with
the hypotheses, as far as those are kept."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A leaf that needs to be looked at before the walk can go on: (host, check) pairs."""

    label: str
    asks: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Walk:
    """Where a walk stands. `stack` holds a path and its children still to visit; the log is what the card draws."""

    stack: list[tuple[str, list[str]]] = field(default_factory=list)
    started: bool = False
    found: list[str] = field(default_factory=list)
    exhausted: list[str] = field(default_factory=list)
    log: list[tuple[str, str, str]] = field(default_factory=list)
    """(path, what was done, why)."""

    @classmethod
    def read(cls, state: Mapping[str, Any]) -> "Walk":
        return cls(
            stack=[(path, list(todo)) for path, todo in state.get("stack", ())],
            started=bool(state.get("started")),
            found=list(state.get("found", ())),
            exhausted=list(state.get("exhausted", ())),
            log=[(path, did, why) for path, did, why in state.get("log", ())],
        )

    def write(self) -> dict[str, Any]:
        """The same as plain JSON."""
        return {
            "stack": [[path, list(todo)] for path, todo in self.stack],
            "started": self.started,
            "found": self.found,
            "exhausted": self.exhausted,
            "log": [list(entry) for entry in self.log],
        }

    def note(self, path: str, did: str, why: str = "") -> None:
        if len(self.log) < LONGEST_LOG:
            self.log.append((path, did, why[:LONGEST_WHY]))


def advance(walk: Walk, now: Assessment) -> tuple[Walk, Visit | None]:
    """The walk gone on with until a leaf must be looked at, or every branch worth it is explored (None)."""
    walk = Walk.read(walk.write())
    if not walk.started:
        walk.started = True
        walk.stack.append(("", _worth_it(walk, "", now)))
    while walk.stack:
        path, todo = walk.stack[-1]
        if not todo:
            _leave(walk, path)
            continue
        child = todo[0]
        if child in now.standings:
            visit = _visit(walk, child, now)
            if visit:
                return walk, visit
        else:
            walk.stack.append((child, _worth_it(walk, child, now)))
        todo.pop(0)
    return walk, None


def _worth_it(walk: Walk, path: str, now: Assessment) -> list[str]:
    """Children by the likelihood of the best leaf below, without the irrelevant; none at all is an early stop."""
    children = now.lens.taxonomy.children(path)
    worth = {child: _interest(_below(child, now)) for child in children}
    kept = sorted((child for child in children if worth[child] > 0), key=lambda child: (-worth[child], child))
    pruned = [child for child in children if worth[child] <= 0]
    if not kept and path:
        walk.note(path, "stopped early", _why_pruned(_below(path, now)))
    elif pruned and not path:
        for child in pruned:
            walk.note(child, "pruned", _why_pruned(_below(child, now)))
    return kept


def _below(path: str, now: Assessment) -> list[Standing]:
    labels: Iterable[str] = (label for label in now.standings if label == path or label.startswith(f"{path}."))
    return [now.standings[label] for label in labels]


def _interest(standings: Sequence[Standing]) -> float:
    return max((_leaf_interest(standing) for standing in standings), default=0.0)


def _leaf_interest(standing: Standing) -> float:
    if standing.verdict == "confirmed":
        return 1 + standing.confidence
    if standing.verdict == "rejected" and not standing.best.support:
        return 0.0
    return standing.confidence if standing.confidence >= IRRELEVANT or standing.best.support else 0.0


def _why_pruned(standings: Sequence[Standing]) -> str:
    rejected = [standing for standing in standings if standing.verdict == "rejected"]
    return f"{len(rejected)} of {len(standings)} rejected, the rest unlikely"


def _visit(walk: Walk, label: str, now: Assessment) -> Visit | None:
    """Judge a leaf; a Visit when it cannot be judged before more is looked at."""
    standing = now.standings[label]
    if standing.verdict == "open" and standing.unasked:
        return Visit(label, standing.unasked)
    if standing.verdict == "confirmed":
        walk.found.append(label)
    did = "could not look" if standing.unseen else standing.verdict
    walk.note(label, did, "" if standing.verdict == "rejected" else standing.because)
    return None


def _leave(walk: Walk, path: str) -> None:
    walk.stack.pop()
    if path:
        walk.exhausted.append(path)
        if not any(label.startswith(f"{path}.") for label in walk.found):
            walk.note(path, "backtracked")
