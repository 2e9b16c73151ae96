"""An incident closes when its alerts are resolved, unless a person took part."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from graph.engine.assessment import Assessment
from graph.incident.answers.item_answers import HANDLERS_BY_KIND
from graph.incident.context import IncidentContext, TurnState
from graph.state import ALERTS_RESOLVED, ALERTS_USER, IncidentState, Remediation

OVER = {
    "id": "alerts:e:over:0:1",
    "kind": "timer",
    "incident": "inc-1",
    "at": datetime(2026, 5, 20, tzinfo=UTC).isoformat(),
    "data": {"why": ALERTS_RESOLVED},
}
BY_ALERT = {
    "origin": {"kind": "slack", "channel": "C", "alert": "e"},
    "said": [{"user": ALERTS_USER, "text": "x", "at": "", "attachments": []}],
}
LADDER = Remediation(id="lad-1", label="GPU.BUS.Lost", target="gpu-001").model_dump(mode="json")


def after(**state: Any) -> tuple[str, str | None]:
    case = IncidentContext(cast(IncidentState, {"id": "inc-1", "item": OVER, **BY_ALERT, **state}), TurnState(), ("gpu-001",))
    concluded = HANDLERS_BY_KIND["timer"](case, cast(Assessment, None))
    return concluded.report.reply, concluded.lifecycle


def test_nothing_was_done_so_it_closes() -> None:
    said, lifecycle = after()
    assert (lifecycle, "closed" in said) == ("closed", True)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"ladders": [LADDER]}, "a fix was proposed"),
        ({"owner": "U1"}, "a person has it"),
        ({"lifecycle": "handed_off"}, "a person has it"),
        ({"said": [*BY_ALERT["said"], {"user": "U1", "text": "me too", "at": "", "attachments": []}]}, "people wrote about it"),
        ({"origin": {"kind": "slack", "channel": "C", "thread_ts": "1.0"}}, "people wrote about it"),
        ({"item": {**OVER, "data": {"why": ALERTS_RESOLVED, "people": True}}}, "people wrote about it"),
    ],
)
def test_where_people_have_to_do_with_it_it_stays_open_and_says_so(state: dict[str, Any], why: str) -> None:
    said, lifecycle = after(**state)
    assert (lifecycle, why in said) == (None, True)


def test_what_is_closed_says_nothing() -> None:
    assert after(lifecycle="closed") == ("", None)
