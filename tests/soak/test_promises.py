"""The soak's judge finds each kind of broken promise. `make soak` and a slice of tier 3 run the soak."""

from datetime import timedelta

from bot.remediation.cards import approval_card as approval
from tests.soak.promises import Seen, Thread, broken
from tests.support.clock import SetClock
from tests.support.fakes_ledger import action
from tools.ledger.record import ActionRecord, ApprovalTerms
from tools.ledger.states import State


def record(state: State) -> ActionRecord:
    now, terms = SetClock().now(), ApprovalTerms(frozenset({"T:ANN"}), 1, "h100", 100, 900, 300)
    return ActionRecord(action(), terms, state, (), now, now + timedelta(minutes=15))


def card_of(text: str, *buttons: str, about: str) -> dict[str, object]:
    """Return an action's card as Slack stores it."""
    elements = [{"type": "button", "action_id": name} for name in buttons]
    metadata = {"event_type": "rackmedic_approval", "event_payload": {"approval": about, "what": "card"}}
    return {"text": text, "metadata": metadata, "blocks": [{"type": "actions", "elements": elements}] if buttons else []}


def test_the_judge_sees_what_was_not_kept() -> None:
    ended = record(State.SUPERSEDED)
    name = ended.approval
    false = card_of("✋ Approve? Reset", approval.APPROVE_ACTION_ID, approval.REJECT_ACTION_ID, about=name)
    true = card_of("🔁 Superseded: Reset", about=name)

    def said(*messages: dict[str, object], incident: str = "inc-1", ended_at_all: bool = True, **more: object) -> list[str]:
        return broken(Seen([Thread(1, incident, messages, [ended], ended=ended_at_all)], **{"executions": {}, **more}))  # type: ignore[arg-type]

    assert said(true) == []
    assert any("a button is live" in row for row in said(false))
    assert any("its card" in row for row in said(false))
    assert any("did not end" in row for row in said(true, ended_at_all=False))
    assert any("lost" in row for row in said(true, incident=""))
    assert any("ran 2 times" in row for row in said(true, executions={("n1", "reboot", "d"): 2}))
    assert any("a lease is stuck" in row for row in said(true, leases=["rm:incident:{inc-1}:lease"]))
    assert any("set aside" in row for row in said(true, set_aside=1))
    assert any("exited by itself" in row for row in said(true, ended_by_themselves={"worker-1": [1]}))
    assert any("waits still" in row for row in said(true, waiting=["rm:incident:{inc-1}:inbox"]))
    pending = record(State.PENDING)
    assert any("still pending" in row for row in broken(Seen([Thread(1, "inc-1", [], [pending])], {})))
