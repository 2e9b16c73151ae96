"""The status line and steps of an incident follow its stored state and the ledger's actions."""

from dataclasses import replace
from typing import Any, cast

import pytest

from bot.incidents.cards import incident_card
from bot.incidents.cards.incident_status import LOST_CONTACT_TEXT, STATUS_SIGNS, get_incident_status
from graph.incident_view import IncidentView, serialize_remediations
from graph.report import CauseOwnedElsewhere, HostsSummary, Report, ReturnableNode
from graph.state import HandoffTicket, Hypothesis, IncidentState, Remediation, RemediationStep
from tests.support.clock import T0
from tests.support.fakes_approvals import APPROVERS
from tests.support.fakes_ledger import action
from tools.ledger.record import ActionRecord, ApprovalTerms
from tools.ledger.states import State

RUNGS = (
    RemediationStep(remedy="drain_node", args={"node": "gpu-002"}, part="prepare"),
    RemediationStep(remedy="gpu_reset", args={"bdf": "0000:3b:00.0"}),
    RemediationStep(remedy="resume_node", args={"node": "gpu-002"}, plan=-1, part="restore"),
)
LADDER = Remediation(id="l1", label="GPU.X.Y", target="gpu-002", rungs=RUNGS, approval="apr-1")
FOUND = Report(item="1", outcome="diagnosed", headline="Memory error (gpu-002/gpu1)")


WELL = FOUND.model_copy(update={"about": HostsSummary(hosts=("gpu-001",), found="nothing", checks=22), "also_seen": ("GPU.X.Y",)})
THEIRS = FOUND.model_copy(
    update={
        "root_causes": (Hypothesis(label="GPU.X.Y"),),
        "shared": (CauseOwnedElsewhere(label="GPU.X.Y", incident="i2", hosts=("gpu-002",)),),
    }
)
ODD = THEIRS.model_copy(update={"about": HostsSummary(hosts=("gpu-001",), found="odd", checks=22), "also_seen": ("GPU.X.Y",)})


def incident(*ladders: Remediation, **more: Any) -> IncidentView:
    stored = {
        "id": "i1",
        "lifecycle": "waiting",
        "report": FOUND.model_dump(mode="json"),
        "ladders": serialize_remediations(ladders),
        **more,
    }
    return IncidentView(cast(IncidentState, stored))


def record(state: State, approval: str = "apr-1") -> ActionRecord:
    made = replace(action(), approval=approval)
    terms = ApprovalTerms(approvers=APPROVERS, quorum=1, group="h100", group_size=100)
    return ActionRecord(made, terms, state, votes=(), proposed_at=T0, decide_by=T0)


@pytest.mark.parametrize(
    ("state", "words", "status"),
    [
        (State.PENDING, "waiting for approval until", "pending"),
        (State.APPROVED, "approved, starts as soon as it may", "in_progress"),
        (State.EXECUTING, "running", "in_progress"),
    ],
)
def test_the_present_step_says_how_far_it_is_and_what_comes_then(state: State, words: str, status: str) -> None:
    stands = get_incident_status(incident(LADDER.model_copy(update={"rung": 1})), [record(state)])
    assert stands.sign == "people"
    assert stands.lines[0].startswith(f"Step 2 of 3: Reset the GPU at 0000:3b:00.0, gpu-002 ({words}")
    assert stands.then == "Return gpu-002 to service"
    assert [is_ for _, is_ in stands.tasks] == ["complete", status, "pending"]


def test_a_running_step_whose_host_does_not_answer_is_not_called_running() -> None:
    stands = get_incident_status(incident(LADDER.model_copy(update={"rung": 1})), [record(State.EXECUTING)], lost=("apr-1",))
    assert LOST_CONTACT_TEXT in stands.lines[0]
    assert "(running)" not in stands.lines[0]
    assert LOST_CONTACT_TEXT not in get_incident_status(incident(LADDER), [record(State.APPROVED)], lost=("apr-1",)).lines[0]


def test_hosts_at_the_same_step_are_named_together() -> None:
    rungs = [
        (name, tuple(row.model_copy(update={"args": {k: v.replace("gpu-002", name) for k, v in row.args.items()}}) for row in RUNGS))
        for name in ("gpu-001", "gpu-002", "gpu-003")
    ]
    ladders = [LADDER.model_copy(update={"id": name, "target": name, "rungs": own, "approval": name}) for name, own in rungs]
    stands = get_incident_status(incident(*ladders), [record(State.PENDING, name) for name, _ in rungs])
    assert len(stands.lines) == 1
    assert "Drain gpu-[001-003]" in stands.lines[0]
    assert stands.then == "Reset the GPU at 0000:3b:00.0, gpu-[001-003]"


def test_many_fixes_are_three_lines_and_the_most_pressing_comes_first() -> None:
    ladders = [
        LADDER.model_copy(update={"id": str(n), "label": f"L{n}", "target": f"gpu-00{n}", "approval": f"apr-{n}", "waiting_for": wait})
        for n, wait in enumerate(("idle", "node_back", "idle", "approval", "idle"))
    ]
    stands = get_incident_status(incident(*ladders), [record(State.PENDING, "apr-3")])
    assert "waiting for approval" in stands.lines[0]
    assert len(stands.lines) == 3
    assert stands.lines[-1] == "and 3 more fixes"
    assert stands.tasks == ()


def test_fixes_that_only_wait_to_be_decided_are_counted_with_their_hosts() -> None:
    ladders = [
        LADDER.model_copy(update={"id": str(n), "label": f"L{n}", "target": f"gpu-00{n}", "approval": f"apr-{n}"}) for n in range(1, 6)
    ]
    stands = get_incident_status(incident(*ladders), [record(State.PENDING, f"apr-{n}") for n in (1, 2, 3)])
    assert "Drain gpu-002" in stands.lines[0]
    assert stands.lines[1:] == ("2 more fixes to decide: gpu-[002-003]", "2 more fixes to come: gpu-[004-005]")


def test_what_ended_in_doubt_stays_in_sight_beside_what_goes_on() -> None:
    doubt = LADDER.model_copy(update={"id": "l2", "target": "gpu-009", "outcome": "unknown", "says": "no answer"})
    stands = get_incident_status(incident(LADDER, doubt), [record(State.PENDING)])
    assert stands.lines[0] == "gpu-009: unknown whether it ran; check the host, then answer on its card, no answer."


@pytest.mark.parametrize(
    ("rows", "sign", "words"),
    [
        (incident(lifecycle="closed"), "well", "Closed."),
        (incident(LADDER.model_copy(update={"outcome": "cured"}), lifecycle="closed"), "well", "Closed: the fix held."),
        (incident(LADDER.model_copy(update={"outcome": "cured"}), lifecycle="watching"), "well", "Cured"),
        (
            incident(LADDER.model_copy(update={"waiting_for": "proof", "due": T0}), lifecycle="watching"),
            "well",
            "Fixed; re-check at",
        ),
        (incident(lifecycle="handed_off", ticket=HandoffTicket().model_dump(mode="json")), "ticket", "Waiting for a person"),
        (incident(lifecycle="open"), "people", "Waiting for people."),
        (incident(report=FOUND.model_copy(update={"outcome": "no_fault"}).model_dump(mode="json")), "well", "Nothing to fix"),
        (
            incident(report=FOUND.model_copy(update={"questions": ("Since when?",)}).model_dump(mode="json")),
            "people",
            "Waiting for an answer.",
        ),
        (incident(report=WELL.model_dump(mode="json")), "well", "Nothing to fix on the hosts you asked about."),
        (incident(report=THEIRS.model_dump(mode="json")), "people", "Worked on and decided in another thread."),
        (
            incident(report=ODD.model_dump(mode="json")),
            "people",
            "No cause is proven on gpu-001; what else was seen is worked on in another thread.",
        ),
    ],
)
def test_each_state_has_its_sign_and_line(rows: IncidentView, sign: str, words: str) -> None:
    stands = get_incident_status(rows)
    assert (stands.sign, words in stands.lines[0]) == (sign, True)


def test_what_a_fix_leaves_to_people_is_said_when_they_have_it() -> None:
    left = LADDER.model_copy(update={"outcome": "ticket", "says": "replace the GPU; gpu-002 stays drained"})
    stands = get_incident_status(incident(left, lifecycle="handed_off"), taken_by="Priya")
    assert stands.lines == ("Priya has it.", "gpu-002: for people, replace the GPU; gpu-002 stays drained.")


def test_what_one_fix_left_to_people_stays_in_sight_beside_another_that_goes_on() -> None:
    left = LADDER.model_copy(update={"id": "l2", "target": "gpu-004", "outcome": "ticket", "says": "next: replace the cable"})
    stands = get_incident_status(incident(LADDER, left), [record(State.PENDING)])
    assert stands.lines[1:] == ("gpu-004: for people, next: replace the cable.",)


def test_a_node_that_was_not_drained_is_not_returned() -> None:
    rungs = (
        RemediationStep(remedy="reset_clocks", args={"bdf": "0000:3b:00.0"}),
        *(row.model_copy(update={"plan": 1}) for row in RUNGS[:2]),
        RUNGS[2],
    )
    stands = get_incident_status(incident(LADDER.model_copy(update={"rungs": rungs})), [record(State.PENDING)])
    assert (stands.lines[0].partition(":")[0], stands.then) == ("Step 1 of 1", "re-checked later")


def test_signs_differ_in_more_than_their_colour() -> None:
    assert len({row.reaction for row in STATUS_SIGNS.values()}) == len(STATUS_SIGNS)
    assert len({row.mark for row in STATUS_SIGNS.values()}) == len(STATUS_SIGNS)


def test_a_node_that_may_come_back_is_offered_on_the_living_message() -> None:
    report = FOUND.model_copy(update={"held": (ReturnableNode(ladder="l1", host="gpu-002"),)})
    made = incident_card.render_incident_card(
        incident_card.IncidentCardView("i1", report, standing=get_incident_status(incident(report=report.model_dump(mode="json"))))
    )
    assert "Ask again to return gpu-002" in str(made.blocks)


@pytest.mark.parametrize(("lifecycle", "mark"), [("waiting", "🔴"), ("watching", "✅"), ("closed", "✅"), ("handed_off", "🎫")])
def test_the_headline_begins_with_how_it_stands(lifecycle: str, mark: str) -> None:
    rows = incident(LADDER.model_copy(update={"waiting_for": "proof"}) if lifecycle == "watching" else LADDER, lifecycle=lifecycle)
    made = incident_card.render_incident_card(incident_card.IncidentCardView("i1", FOUND, standing=get_incident_status(rows)))
    assert made.blocks[0]["text"]["text"].startswith(mark)


def test_advice_that_is_under_way_is_not_given_again() -> None:
    report = FOUND.model_copy(update={"next_step": "Drain the node and reset the GPU."})
    under_way = incident_card.render_incident_card(
        incident_card.IncidentCardView("i1", report, standing=get_incident_status(incident(LADDER), [record(State.PENDING)]))
    )
    assert "Drain the node and reset" not in str(under_way.blocks)
    people = incident_card.render_incident_card(incident_card.IncidentCardView("i1", report, standing=get_incident_status(incident())))
    assert "Drain the node and reset" in str(people.blocks)
