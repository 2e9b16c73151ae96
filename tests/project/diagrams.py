"""State diagrams (Mermaid) generated from the product: the action's from its table, the remediation's by playing every
event in every state. `tests.project.generated` puts them into docs/architecture.md.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from graph.incident.lifecycle import LIFECYCLE_TRANSITIONS, TurnEvent
from graph.remediation.build import PlanContext, build_remediations
from graph.remediation.outcomes import release_finished_nodes
from graph.remediation.state_machine import ACTION_RESULT_KINDS, RemediationEvent, apply_event
from graph.state import Hypothesis, Remediation
from tests.support.clock import T0
from tests.support.fakes_actions import HUNG, TAXONOMY, well
from tests.support.inventories import inventory
from tools.ledger.states import OPEN_STATES, TRANSITION_TABLE, State

Edges = Mapping[tuple[str, str], Iterable[str]]

# the state of an open remediation, by what it waits for
WAITS = {
    "approval": "to_decide: proposed for approval",
    "idle": "until_idle: waits until drained and idle",
    "node_back": "until_back: waits for the node",
    "proof": "watched: passes now, proved again later",
    "none": "at_the_door: waits for other fixes of the host",
}
# possible events while it waits for that: action results, findings of a proposal, readings and timers
COMES = {
    "approval": ("done", *sorted(ACTION_RESULT_KINDS - {"done"}), "held", "unreachable", "cannot", "over", "needless", "not_idle"),
    "idle": ("idle", "busy", "unreachable", "cannot"),
    "node_back": ("back",),
    "proof": ("cured", "recurred"),
    "none": (),
}
# events after a remediation ended: a new request, or the result of an unknown action
AFTERWARDS = ("again", "done", "failed")
PROOFS = ("passes_now", "unchanged", "worse")
# wording of an event and its outcome; others use their own name
SPOKEN = {
    ("done", "passes_now"): "passes now",
    ("done", "unchanged"): "did not help",
    ("done", "worse"): "made it worse",
    ("superseded", "covered"): "covered by another",
    ("superseded", "host_key"): "host key changed",
    ("failed", "never"): "refused on the node",
    ("back", "passes_now"): "back, and well",
}


def action_states() -> str:
    """Return an action's diagram, from the ledger's table."""
    edges = {
        (str(state), str(then)): [str(event).replace("_", " ")]
        for state, exits in TRANSITION_TABLE.items()
        for event, then in exits.items()
    }
    return _drawn(
        str(State.PENDING), edges, (str(state) for state in TRANSITION_TABLE if state not in OPEN_STATES and not TRANSITION_TABLE[state])
    )


def incident_states() -> str:
    """Return an incident's diagram, from its table. Transitions common to all states are drawn once, from *any*."""
    edges: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for came in TurnEvent:
        rows = {before: row[came] for before, row in LIFECYCLE_TRANSITIONS.items() if came in row}
        everywhere = set(rows) == set(LIFECYCLE_TRANSITIONS)
        for before, after in rows.items():
            if everywhere or before != after:
                edges["any" if everywhere else before, after][str(came)] = None
    return _drawn("open", edges, ("closed",))


def ladder_states() -> str:
    """Return a remediation's diagram: three remedies on a drained node, each event in each reachable state."""
    edges: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for stuck in (False, True):
        yard = PlanContext("inc-1", T0, inventory(), TAXONOMY, well("n1", "n2"), job="4711", stuck=stuck)
        (first,) = build_remediations([Hypothesis(label=HUNG, hosts=("n1",), devices=("n1/gpu3",), verdict="confirmed")], yard).ladders
        for before, event, after in _played(first, yard):
            if before.outcome and _state(before) == _state(after):
                continue  # only the drained flag changed
            edges[_state(before), _state(after)][SPOKEN.get((event.kind, _with(event)), event.kind.replace("_", " "))] = None
    ends = {then for _, then in edges} - {state for state, _ in edges}
    return _drawn("to_decide", edges, sorted(ends))


def _played(first: Remediation, yard: PlanContext) -> Iterable[tuple[Remediation, RemediationEvent, Remediation]]:
    """Yield each event that changes a remediation, until no new state is found."""
    open_rows, seen = [first], set()
    while open_rows:
        row = open_rows.pop()
        if (key := (row.rung, min(row.attempt, yard.waits.asks), row.waiting_for, row.outcome, row.drained, len(row.rungs))) in seen:
            continue
        seen.add(key)
        for event in _events(row):
            (after,) = release_finished_nodes([apply_event(row, event, yard)], yard)
            if after != row:
                yield row, event, after
                open_rows.append(after)


def _events(row: Remediation) -> Iterable[RemediationEvent]:
    """Yield the possible events with each outcome."""
    for kind in AFTERWARDS if row.outcome else COMES[row.waiting_for]:
        outcomes = {"done": PROOFS, "superseded": ("", "covered", "host_key")}.get(kind, ("",))
        yield from (RemediationEvent(kind, ladder=row.id, outcome=outcome, since=T0 if kind == "done" else None) for outcome in outcomes)
        if kind == "failed":
            yield RemediationEvent(kind, ladder=row.id, ran=False)


def _with(event: RemediationEvent) -> str:
    return event.outcome or ("" if event.ran else "never")


def _state(row: Remediation) -> str:
    return row.outcome or WAITS[row.waiting_for].partition(":")[0]


def _drawn(first: str, edges: Edges, ends: Iterable[str]) -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"  [*] --> {first}"]
    named = {state for pair in edges for state in pair}
    lines += [f"  {name}" for name in WAITS.values() if name.partition(":")[0] in named]
    lines += [f"  {state} --> {then}: {' · '.join(events)}" for (state, then), events in edges.items()]
    return "\n".join([*lines, *(f"  {end} --> [*]" for end in ends), "```"])
