"""An answered tenant incident waits for no operator, and the internal card and the Home tab say so."""

from datetime import UTC, datetime

import pytest

from bot.incidents.cards.home import ANSWERED_TEXT, OpenIncident, render_incident_list
from bot.incidents.cards.incident_status import get_incident_status
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import Hypothesis, IncidentState, Origin, TenantThread

MISTAKE = "USER.CODE.Python_Exception"
NOW = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)


def incident(*labels: str, customer: bool = True) -> IncidentView:
    came = TenantThread(team="T", channel="C0CUSTACME", thread_ts="1", user="U0CARLA", user_team="T0ACME")
    origin = Origin(kind="slack", team="T", channel="C0GPUINC", tenant="acme", customer=came if customer else None)
    report = Report(item="i", outcome="diagnosed", root_causes=tuple(Hypothesis(label=label) for label in labels))
    return IncidentView(
        IncidentState(id="i1", lifecycle="open", origin=origin.model_dump(mode="json"), report=report.model_dump(mode="json"))
    )


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (incident(MISTAKE), "Answered: the customer was told how to fix it."),
        (incident(MISTAKE, "GPU.X"), "Waiting for people."),
        (incident(MISTAKE, customer=False), "Waiting for people."),
    ],
)
def test_an_answered_tenant_mistake_waits_for_no_operator(rows: IncidentView, says: str) -> None:
    assert get_incident_status(rows, theirs=frozenset({MISTAKE})).lines[0] == says


def test_the_home_tab_says_it_too() -> None:
    row = OpenIncident("i1", "open", NOW, "Their script raises", answered=True)
    assert ANSWERED_TEXT in str(render_incident_list([row], NOW))
    assert ANSWERED_TEXT not in str(
        render_incident_list([OpenIncident("i1", "handed_off", NOW, "Their script raises", answered=True)], NOW)
    )
