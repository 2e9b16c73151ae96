"""State machine of an action; scripts only compare and set.

Terminal states have no exits: nothing returns to `approved`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class State(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    EXECUTING = "executing"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    DENIED = "denied"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    REVOKED = "revoked"


class Transition(StrEnum):
    APPROVE = "approve"
    DENY = "deny"
    EXPIRE = "expire"
    SUPERSEDE = "supersede"
    REVOKE = "revoke"
    CLAIM = "claim"
    DONE = "done"
    FAIL = "fail"
    DOUBT = "doubt"
    RECONCILE_RAN = "reconcile_ran"
    RECONCILE_NOT = "reconcile_not"


_END_TRANSITIONS: Final = {Transition.EXPIRE: State.EXPIRED, Transition.SUPERSEDE: State.SUPERSEDED, Transition.REVOKE: State.REVOKED}

TRANSITION_TABLE: Final[Mapping[State, Mapping[Transition, State]]] = {
    State.PENDING: {**_END_TRANSITIONS, Transition.APPROVE: State.APPROVED, Transition.DENY: State.DENIED},
    State.APPROVED: {**_END_TRANSITIONS, Transition.CLAIM: State.EXECUTING},
    State.EXECUTING: {Transition.DONE: State.DONE, Transition.FAIL: State.FAILED, Transition.DOUBT: State.UNKNOWN},
    State.UNKNOWN: {Transition.RECONCILE_RAN: State.DONE, Transition.RECONCILE_NOT: State.FAILED},
    State.DONE: {},
    State.FAILED: {},
    State.DENIED: {},
    State.EXPIRED: {},
    State.SUPERSEDED: {},
    State.REVOKED: {},
}

OPEN_STATES: Final = frozenset({State.PENDING, State.APPROVED})
TERMINAL_STATES: Final = frozenset(state for state, exits in TRANSITION_TABLE.items() if not exits)


def get_next_state(state: State, event: Transition) -> State | None:
    """Return None if the transition is not allowed."""
    return TRANSITION_TABLE[state].get(event)
