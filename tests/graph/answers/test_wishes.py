"""Requests in a thread: a requested action is proposed for approval or refused with a reason; corrections, closing and
reported fixes are stored beside the facts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pytest

from graph.dialogue.intents import Intent
from graph.dialogue.said import OTHERS
from graph.incident.answers.action_details import NOTHING_RUNS_TEXT
from graph.incident.answers.remedy_requests import NO_CARD_PREFIX, NOTHING_TO_UNDO_PREFIX
from graph.incident.answers.safety import FAILS_AGAIN_PREFIX, NOT_SAFE_PREFIX, SAFE_PREFIX, UNSURE_PREFIX
from graph.incident.answers.summaries import USE_BUTTON_TEXT
from tests.support.talk import FAULT, Talk
from tools.fact import Status, build_unobserved_fact
from tools.fleet.answers import AnswerCallback, CheckAnswer, CheckRequest, FleetAnswers
from tools.fleet.fleet import Fleet

pytestmark = pytest.mark.slow


LOCKED_CLOCKS = {"id": "G17", "node": "gpu-003", "gpu": 5, "t": -420}  # clocks locked low: visible in nvidia-smi, not logged
DIAGNOSED_LABEL = "GPU.BUS.Fallen_Off_Bus"


@dataclass
class UnreachableFleet:
    """A fleet whose hosts do not answer any check."""

    fleet: Fleet
    clock: str = "virtual"

    def __post_init__(self) -> None:
        self.checks = self.fleet.checks

    def invalidate_before(self, hosts: Iterable[str], since: datetime) -> None: ...

    async def run_checks(
        self, incident: str, asks: Sequence[CheckRequest], seen: AnswerCallback | None = None, *, fresh: bool = False
    ) -> FleetAnswers:
        answers: list[CheckAnswer] = []
        for request in asks:
            fact = build_unobserved_fact(request.check, Status.TIMEOUT, "no answer", request.host)
            answers.append(CheckAnswer(request.host, request.check, (fact,), 1.0, "no answer"))
        return FleetAnswers(tuple(answers), 1.0, 1.0)


async def test_drain_of_a_healthy_host_is_refused_with_the_reason() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).remediations
    answer = await talk.says("drain gpu-002")
    assert answer.startswith(NO_CARD_PREFIX)
    assert "gpu-002" in answer
    assert (await talk.rows()).remediations == before


async def test_drain_of_an_unobserved_host_is_refused_with_the_reason() -> None:
    talk = await Talk.about()
    talk.ports = replace(talk.ports, fleet=UnreachableFleet(talk.ports.fleet))  # type: ignore[arg-type]  # the part of Fleet that is used
    await talk.says("recheck gpu-002")
    before = (await talk.rows()).remediations
    answer = await talk.says("drain gpu-002")
    assert answer.startswith(NO_CARD_PREFIX)
    assert "could not be looked at" in answer
    assert "`scontrol update NodeName=gpu-002 State=DRAIN" in answer
    assert "BMC" in await talk.says("reboot gpu-002")
    assert (await talk.rows()).remediations == before


async def test_pending_remediation_is_not_proposed_twice() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).remediations
    for text in ("drain gpu-003", "reboot gpu-003"):
        assert not (await talk.says(text)).startswith(NO_CARD_PREFIX)
        assert (await talk.rows()).remediations == before
    assert len(await talk.put_up()) == 1


async def test_stopped_remediation_is_proposed_again_and_names_its_requester() -> None:
    talk = await Talk.about()
    await talk.says("stop")
    assert await talk.put_up() == []
    await talk.says("please drain gpu-003", user="U7")
    (row,) = await talk.put_up()
    assert (row.target, row.asked_by, row.attempt) == ("gpu-003", "T1:U7", 2)
    assert row.fault is not None


@pytest.mark.parametrize(
    "text",
    [
        "drain all but gpu-003",
        "drain everything except gpu-003",
        "drain all nodes other than gpu-003 please",
        "drain the others, not gpu-003",
        "drain it, but not gpu-003",
        "drain all - gpu-003 stays",
        "keep gpu-003 and drain the rest",
        "leave gpu-003 alone, drain the others",
        "spare gpu-003, drain everything else",
        "drain everything, leave gpu-003",
        "drain all minus gpu-003",
        "drain all of them, gpu-003 excluded",
        "drain everything without gpu-003",
        "don't drain gpu-003, drain gpu-002",
        "drain gpu-002 rather than gpu-003",
        "drain gpu-002, not gpu-003",
        "reboot all nodes apart from gpu-003 and gpu-002",
        "undo everything except gpu-003",
        "run nccl1 on all but gpu-003",
        "run nccl1 on gpu-001 and gpu-002, keep gpu-003 free",
    ],
)
async def test_excluded_host_is_not_proposed(text: str) -> None:
    talk = await Talk.about()
    await talk.says("stop")
    answer = await talk.says(text, user="U7")
    assert [row.target for row in await talk.put_up() if "gpu-003" in row.target] == []
    assert "Proposed again" not in answer


@pytest.mark.parametrize(
    "text", ["drain gpu-003, all its jobs are dead", "drain gpu-003: all 8 GPUs hang", "drain gpu-003, it does not answer"]
)
async def test_all_and_it_in_a_reason_do_not_block_a_drain_request(text: str) -> None:
    talk = await Talk.about()
    await talk.says("stop")
    await talk.says(text, user="U7")
    assert [row.target for row in await talk.put_up()] == ["gpu-003"]


async def test_load_test_is_proposed_once_and_not_run_without_approval() -> None:
    talk = await Talk.about()
    answer = await talk.says("run nccl1 on gpu-001 and gpu-002", user="U7")
    assert "nccl1 on gpu-[001-002]" in answer
    row = next(row for row in await talk.put_up() if row.current_step and row.current_step.remedy == "run_check")
    assert (row.target, row.current_step and row.current_step.args, row.asked_by) == ("gpu-001,gpu-002", {"check": "nccl1"}, "T1:U7")
    before = (await talk.rows()).remediations
    await talk.says("run nccl1 on gpu-001 and gpu-002")
    await talk.asks(Intent.RUN_CHECK, check="nccl2", hosts=("gpu-001",))
    assert (await talk.rows()).remediations == before, "neither a second time nor with fewer than two hosts"
    assert talk.ran == []


async def test_typed_approval_approves_nothing() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).remediations
    assert (await talk.says("approve")).startswith(USE_BUTTON_TEXT)
    assert (await talk.rows()).remediations == before


async def test_undo_without_an_executed_action_changes_nothing() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).remediations
    answer = await talk.says("undo that")
    assert answer.startswith(NOTHING_TO_UNDO_PREFIX)
    assert "Drain gpu-003" in answer
    assert (await talk.rows()).remediations == before


async def test_correction_to_another_cause_withdraws_the_pending_remediation() -> None:
    talk = await Talk.about()
    answer = await talk.says("no, it was the cable", user="U7")
    assert talk.ports.taxonomy.titles[DIAGNOSED_LABEL] in answer, "the diagnosed cause is named beside the correction"
    assert "gpu-003" in answer.splitlines()[1], "the withdrawn remediation is named"
    rows = await talk.rows()
    assert rows.correction is not None
    assert (rows.correction.label, rows.correction.by) == ("INTERCONNECT.IB", "U7")
    assert await talk.put_up() == []


async def test_correction_to_the_diagnosed_cause_is_a_confirmation() -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.CORRECT, labels=(DIAGNOSED_LABEL,))
    assert "confirmed" in answer
    assert talk.ports.taxonomy.titles[DIAGNOSED_LABEL] in answer
    assert len(await talk.put_up()) == 1


async def test_doubt_is_not_recorded_as_a_confirmation() -> None:
    talk = await Talk.about()
    answer = await talk.says("I don't think it is the GPU.")
    assert "confirmed" not in answer
    assert "something else" in answer


async def test_closed_incident_has_no_ticket_and_can_be_reopened() -> None:
    talk = await Talk.about()
    answer = await talk.says("close, it was the cable")
    assert answer.startswith("Closed: InfiniBand.")
    rows = await talk.rows()
    assert (rows.lifecycle, rows.ticket, await talk.put_up()) == ("closed", None, [])
    assert (await talk.says("reopen")).startswith("Reopened.")
    assert (await talk.rows()).lifecycle == "open"


async def test_incident_closed_by_form_is_reopened_without_a_ticket() -> None:
    talk = await Talk.about()
    await talk.presses("close", label="GPU.BUS.Fallen_Off_Bus", root_cause="riser")
    assert "\nState: closed.\n" in await talk.says("status")
    await talk.says("reopen")
    rows = await talk.rows()
    assert (rows.lifecycle, rows.ticket and rows.ticket.handed) == ("open", False)
    assert "Ticket" not in await talk.says("status")
    await talk.says("recheck")
    assert ((await talk.rows()).lifecycle, await talk.put_up() != []) == ("waiting", True)
    await talk.says("hand off")
    rows = await talk.rows()
    assert (rows.lifecycle, rows.ticket and (rows.ticket.handed, rows.ticket.state)) == ("handed_off", (True, "open"))


async def test_owner_is_the_person_who_took_the_incident_or_was_assigned() -> None:
    talk = await Talk.about()
    assert "U7" not in await talk.says("who is on it?")
    await talk.says("I take it", user="U7")
    assert (await talk.says("who is on it?")).startswith("U7 ")
    await talk.asks(Intent.ASSIGN, person="U9")
    assert (await talk.rows()).owner == "U9"
    assert (await talk.rows()).ticket is None


async def test_pause_ends_after_two_hours() -> None:
    talk = await Talk.about()
    await talk.asks(Intent.PAUSE)
    until = (await talk.rows()).quiet_until
    assert until is not None
    assert (until - talk.stage.clock.now()).total_seconds() == 7200


async def test_safety_answer_is_not_safe_safe_or_unsure() -> None:
    talk = await Talk.about(FAULT, modifiers=["R6(check=smi, how=timeout)@gpu-002"])
    assert (await talk.says("is it safe to restart the job?")).startswith(f"{NOT_SAFE_PREFIX} gpu-003:")
    assert (await talk.says("is it safe to use gpu-001?")).startswith(f"{SAFE_PREFIX} gpu-001: ")
    assert (await talk.says("is it safe to use gpu-002?")).startswith(f"{UNSURE_PREFIX} for gpu-002: ")


async def test_past_job_failure_leaves_its_hosts_and_a_restart_safe() -> None:
    talk = await Talk.about({"id": "O06", "node": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"], "t": -420})
    for question, hosts in (("can i put gpu-002 back to work", "gpu-002"), ("is it safe to restart the job?", "gpu-[001-004]")):
        answer = await talk.says(question)
        assert answer.startswith(f"{SAFE_PREFIX} {hosts}: ")
        report = (await talk.rows()).report
        assert report
        assert talk.ports.taxonomy.titles[report.root_causes[0].label] in answer


async def test_recurring_job_failure_makes_a_restart_unsafe_but_not_the_host() -> None:
    talk = await Talk.about({"id": "U05", "node": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"], "t": -420})
    assert (await talk.says("is it safe to restart the job?")).startswith(FAILS_AGAIN_PREFIX)
    assert (await talk.says("can i put gpu-002 back to work")).startswith(f"{SAFE_PREFIX} gpu-002: ")


async def test_approval_preview_lists_action_precondition_verification_and_next_step() -> None:
    talk = await Talk.about()
    answer = await talk.says("what happens if I approve?")
    action, precondition, verification, next_step, *_ = answer.splitlines()
    assert "Drain gpu-003" in action
    assert "slurm-controller" in action
    assert "gpu5" in precondition, "the fault must still be there"
    assert "sched" in verification
    assert "Reboot" in next_step
    assert answer.endswith(NOTHING_RUNS_TEXT)
    assert "button" in await talk.says("who may approve?")


async def test_reported_fix_is_checked_only_on_the_diagnosed_host() -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.FIXED)
    assert "(gpu-003/gpu5)" in answer.splitlines()[0]
    assert {host for host, _ in talk.ran} == {"gpu-003"}
    assert len(talk.ran) <= 5
    assert (await talk.rows()).lifecycle != "closed"


async def test_reported_fix_confirmed_by_a_check_closes_the_incident_and_withdraws_its_remediation() -> None:
    talk = await Talk.about(LOCKED_CLOCKS)
    assert len(await talk.put_up()) == 1
    talk.stage.cluster.heal("gpu-003")
    answer = await talk.says("it works again")
    assert "reopen" in answer.splitlines()[-1]
    assert {host for host, _ in talk.ran} == {"gpu-003"}
    assert ((await talk.rows()).lifecycle, await talk.put_up()) == ("closed", [])


async def test_still_broken_after_the_fault_is_gone_asks_for_symptoms() -> None:
    talk = await Talk.about(LOCKED_CLOCKS)
    talk.stage.cluster.heal("gpu-003")
    answer = await talk.says("still broken")
    assert answer.splitlines()[-1].partition("?")[1], "it asks what is seen now"
    assert (await talk.rows()).lifecycle != "closed"


async def test_reported_fix_on_an_unreachable_host_does_not_close_the_incident() -> None:
    talk = await Talk.about(LOCKED_CLOCKS)
    talk.stage.cluster.heal("gpu-003")
    talk.ports = replace(talk.ports, fleet=UnreachableFleet(talk.ports.fleet))  # type: ignore[arg-type]  # the part of Fleet that the graph uses
    answer = await talk.says("it works again")
    assert answer.startswith("Could not look")
    assert (await talk.rows()).lifecycle != "closed"


async def test_load_test_without_a_host_is_not_proposed() -> None:
    talk = await Talk.about()
    before = await talk.put_up()
    await talk.asks(Intent.RUN_CHECK, check="nccl1")
    assert await talk.put_up() == before, "it asks on which hosts"
    await talk.asks(Intent.RUN_CHECK, check="nccl1", group=OTHERS)
    assert [row.target for row in await talk.put_up() if row not in before] == ["gpu-001,gpu-002,gpu-004"]


async def test_remediation_of_a_corrected_cause_is_proposed_again_only_on_request() -> None:
    talk = await Talk.about()
    await talk.says("no, it was the cable")
    await talk.asks(Intent.STILL_BROKEN)
    assert await talk.put_up() == []
    await talk.says("drain gpu-003")
    assert [row.target for row in await talk.put_up()] == ["gpu-003"]
