"""The ledger keeps its invariants in any order of events, and the runs met each situation."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.properties.ledger_machine import SITUATIONS, live
from tools.ledger.states import OPEN_STATES, TERMINAL_STATES, TRANSITION_TABLE, State, Transition

RUNS = settings(
    max_examples=10,
    stateful_step_count=8,
    derandomize=True,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def counts() -> Counter[str]:

    return live(RUNS)


def test_the_invariants_hold_in_every_order_of_events(counts: Counter[str]) -> None:
    assert counts["runs"] >= 100


def test_enough_runs_reach_an_execution(counts: Counter[str]) -> None:
    assert counts["runs with an execution"] >= 0.10 * counts["runs"]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_runs_came_across(situation: str, counts: Counter[str]) -> None:
    assert counts[situation] > 0, f"no run ever came to: {situation}"


def test_no_state_leads_back_to_a_decision() -> None:
    assert {state for state, exits in TRANSITION_TABLE.items() if State.APPROVED in exits.values()} == {State.PENDING}
    assert {state for state, exits in TRANSITION_TABLE.items() if State.EXECUTING in exits.values()} == {State.APPROVED}
    assert {State.DONE, State.FAILED, State.DENIED, State.EXPIRED, State.SUPERSEDED, State.REVOKED} == TERMINAL_STATES
    assert not {event for state in TERMINAL_STATES | {State.UNKNOWN} for event in TRANSITION_TABLE[state]} & {
        Transition.APPROVE,
        Transition.CLAIM,
    }
    assert frozenset({State.PENDING, State.APPROVED}) == OPEN_STATES
