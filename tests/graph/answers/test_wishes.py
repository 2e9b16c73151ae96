"""Requested actions become cards that another person approves, or are refused with a reason; a person's word is stored
beside the facts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pytest

from graph.dialogue.intents import Intent
from graph.dialogue.said import OTHERS
from graph.incident.answers.next_steps import NOTHING_RUNS_TEXT
from graph.incident.answers.remedy_requests import NO_CARD_PREFIX, NOTHING_TO_UNDO_PREFIX
from graph.incident.answers.safety import FAILS_AGAIN_PREFIX, NOT_SAFE_PREFIX, SAFE_PREFIX, UNSURE_PREFIX
from graph.incident.answers.summaries import USE_BUTTON_TEXT
from tests.support.talk import FAULT, Talk
from tools.fact import Status, build_unobserved_fact
from tools.fleet.answers import AnswerCallback, CheckAnswer, CheckRequest, FleetAnswers
from tools.fleet.fleet import Fleet

pytestmark = pytest.mark.slow


CLOCKS = {"id": "G17", "node": "gpu-003", "gpu": 5, "t": -420}  # clocks locked low: visible in nvidia-smi, never logged
FOUND = "GPU.BUS.Fallen_Off_Bus"


@dataclass
class Dark:
    """A fleet that no longer answers."""

    fleet: Fleet
    clock: str = "virtual"

    def __post_init__(self) -> None:
        self.checks = self.fleet.checks

    def invalidate_before(self, hosts: Iterable[str], since: datetime) -> None: ...

    async def run_checks(
        self, incident: str, asks: Sequence[CheckRequest], seen: AnswerCallback | None = None, *, fresh: bool = False
    ) -> FleetAnswers:
        lost = [
            CheckAnswer(ask.host, ask.check, (build_unobserved_fact(ask.check, Status.TIMEOUT, "no answer", ask.host),), 1.0, "no answer")
            for ask in asks
        ]
        return FleetAnswers(tuple(lost), 1.0, 1.0)


async def test_a_drain_that_nothing_asks_for_is_refused_with_the_reason() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).remediations
    answer = await talk.says("drain gpu-002")
    assert answer.startswith(NO_CARD_PREFIX)
    assert "gpu-002" in answer
    assert (await talk.rows()).remediations == before


async def test_a_drain_of_a_host_that_could_not_be_looked_at_is_refused_with_the_reason() -> None:
    talk = await Talk.about()
    talk.ports = replace(talk.ports, fleet=Dark(talk.ports.fleet))  # type: ignore[arg-type]  # the part of Fleet that is used
    await talk.says("recheck gpu-002")
    before = (await talk.rows()).remediations
    answer = await talk.says("drain gpu-002")
    assert answer.startswith(NO_CARD_PREFIX)
    assert "could not be looked at" in answer
    assert "`scontrol update NodeName=gpu-002 State=DRAIN" in answer
    assert "BMC" in await talk.says("reboot gpu-002")
    assert (await talk.rows()).remediations == before


async def test_what_is_up_for_decision_already_is_not_put_up_twice() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).remediations
    for text in ("drain gpu-003", "reboot gpu-003"):
        assert not (await talk.says(text)).startswith(NO_CARD_PREFIX)
        assert (await talk.rows()).remediations == before
    assert len(await talk.put_up()) == 1


async def test_a_remediation_ended_by_people_is_proposed_again_on_request_and_the_requester_may_not_approve() -> None:
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
async def test_a_host_that_a_wish_spares_is_not_put_up(text: str) -> None:
    talk = await Talk.about()
    await talk.says("stop")
    answer = await talk.says(text, user="U7")
    assert [row.target for row in await talk.put_up() if "gpu-003" in row.target] == []
    assert "Proposed again" not in answer


@pytest.mark.parametrize(
    "text", ["drain gpu-003, all its jobs are dead", "drain gpu-003: all 8 GPUs hang", "drain gpu-003, it does not answer"]
)
async def test_words_for_other_things_than_hosts_do_not_hold_up_a_wish(text: str) -> None:
    talk = await Talk.about()
    await talk.says("stop")
    await talk.says(text, user="U7")
    assert [row.target for row in await talk.put_up()] == ["gpu-003"]


async def test_a_test_that_needs_idle_gpus_is_put_up_and_never_run() -> None:
    talk = await Talk.about()
    answer = await talk.says("run nccl1 on gpu-001 and gpu-002", user="U7")
    assert "nccl1 on gpu-[001-002]" in answer
    row = next(row for row in await talk.put_up() if row.current_step and row.current_step.remedy == "run_check")
    assert (row.target, row.current_step and row.current_step.args, row.asked_by) == ("gpu-001,gpu-002", {"check": "nccl1"}, "T1:U7")
    before = (await talk.rows()).remediations
    await talk.says("run nccl1 on gpu-001 and gpu-002")
    await talk.asks(Intent.RUN_CHECK, check="nccl2", hosts=("gpu-001",))
    assert (await talk.rows()).remediations == before, "neither twice nor between fewer than two hosts"
    assert talk.ran == []


async def test_typed_approval_is_no_approval() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).remediations
    assert (await talk.says("approve")).startswith(USE_BUTTON_TEXT)
    assert (await talk.rows()).remediations == before


async def test_nothing_that_was_not_done_is_undone() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).remediations
    answer = await talk.says("undo that")
    assert answer.startswith(NOTHING_TO_UNDO_PREFIX)
    assert "Drain gpu-003" in answer
    assert (await talk.rows()).remediations == before


async def test_another_cause_by_a_persons_word_takes_back_what_was_up_for_decision() -> None:
    talk = await Talk.about()
    answer = await talk.says("no, it was the cable", user="U7")
    assert talk.ports.taxonomy.titles[FOUND] in answer, "what was seen stays beside the person's word"
    assert "gpu-003" in answer.splitlines()[1], "what is taken back is named"
    rows = await talk.rows()
    assert rows.correction is not None
    assert (rows.correction.label, rows.correction.by) == ("INTERCONNECT.IB", "U7")
    assert await talk.put_up() == []


async def test_the_found_cause_by_a_persons_word_changes_nothing() -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.CORRECT, labels=(FOUND,))
    assert "confirmed" in answer
    assert talk.ports.taxonomy.titles[FOUND] in answer
    assert len(await talk.put_up()) == 1


async def test_a_doubt_is_never_noted_as_a_confirmation() -> None:
    talk = await Talk.about()
    answer = await talk.says("I don't think it is the GPU.")
    assert "confirmed" not in answer
    assert "something else" in answer


async def test_closing_is_no_hand_off_and_can_be_taken_back() -> None:
    talk = await Talk.about()
    answer = await talk.says("close, it was the cable")
    assert answer.startswith("Closed: InfiniBand.")
    rows = await talk.rows()
    assert (rows.lifecycle, rows.ticket, await talk.put_up()) == ("closed", None, [])
    assert (await talk.says("reopen")).startswith("Reopened.")
    assert (await talk.rows()).lifecycle == "open"


async def test_an_incident_closed_by_form_is_reopened_without_a_ticket() -> None:
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


async def test_who_is_on_it_is_who_said_so_or_was_named() -> None:
    talk = await Talk.about()
    assert "U7" not in await talk.says("who is on it?")
    await talk.says("I take it", user="U7")
    assert (await talk.says("who is on it?")).startswith("U7 ")
    await talk.asks(Intent.ASSIGN, person="U9")
    assert (await talk.rows()).owner == "U9"
    assert (await talk.rows()).ticket is None


async def test_quiet_has_an_end() -> None:
    talk = await Talk.about()
    await talk.asks(Intent.PAUSE)
    until = (await talk.rows()).quiet_until
    assert until is not None
    assert (until - talk.stage.clock.now()).total_seconds() == 7200


async def test_whether_it_is_safe_has_three_answers() -> None:
    talk = await Talk.about(FAULT, modifiers=["R6(check=smi, how=timeout)@gpu-002"])
    assert (await talk.says("is it safe to restart the job?")).startswith(f"{NOT_SAFE_PREFIX} gpu-003:")
    assert (await talk.says("is it safe to use gpu-001?")).startswith(f"{SAFE_PREFIX} gpu-001: ")
    assert (await talk.says("is it safe to use gpu-002?")).startswith(f"{UNSURE_PREFIX} for gpu-002: ")


async def test_what_ended_a_job_and_is_over_speaks_against_no_machine_and_against_no_new_start() -> None:
    talk = await Talk.about({"id": "O06", "node": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"], "t": -420})
    for asks, hosts in (("can i put gpu-002 back to work", "gpu-002"), ("is it safe to restart the job?", "gpu-[001-004]")):
        answer = await talk.says(asks)
        assert answer.startswith(f"{SAFE_PREFIX} {hosts}: ")
        report = (await talk.rows()).report
        assert report
        assert talk.ports.taxonomy.titles[report.root_causes[0].label] in answer


async def test_what_ends_a_job_each_time_speaks_against_the_job_alone() -> None:
    talk = await Talk.about({"id": "U05", "node": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"], "t": -420})
    assert (await talk.says("is it safe to restart the job?")).startswith(FAILS_AGAIN_PREFIX)
    assert (await talk.says("can i put gpu-002 back to work")).startswith(f"{SAFE_PREFIX} gpu-002: ")


async def test_what_an_approval_would_do_is_told_from_the_tables() -> None:
    talk = await Talk.about()
    answer = await talk.says("what happens if I approve?")
    first, holds, proof, then, *_ = answer.splitlines()
    assert "Drain gpu-003" in first
    assert "slurm-controller" in first
    assert "gpu5" in holds, "the fault must still be there"
    assert "sched" in proof
    assert "Reboot" in then
    assert answer.endswith(NOTHING_RUNS_TEXT)
    assert "button" in await talk.says("who may approve?")


async def test_what_works_again_by_a_persons_word_is_looked_at_where_it_was_decided_and_only_there() -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.FIXED)
    assert "(gpu-003/gpu5)" in answer.splitlines()[0]
    assert {host for host, _ in talk.ran} == {"gpu-003"}
    assert len(talk.ran) <= 5
    assert (await talk.rows()).lifecycle != "closed"


async def test_what_is_mended_by_a_persons_word_and_by_a_look_is_closed_and_its_card_taken_back() -> None:
    talk = await Talk.about(CLOCKS)
    assert len(await talk.put_up()) == 1
    talk.stage.cluster.heal("gpu-003")
    answer = await talk.says("it works again")
    assert "reopen" in answer.splitlines()[-1]
    assert {host for host, _ in talk.ran} == {"gpu-003"}
    assert ((await talk.rows()).lifecycle, await talk.put_up()) == ("closed", [])


async def test_what_is_still_broken_though_what_was_found_is_gone_asks_for_what_is_seen() -> None:
    talk = await Talk.about(CLOCKS)
    talk.stage.cluster.heal("gpu-003")
    answer = await talk.says("still broken")
    assert answer.splitlines()[-1].partition("?")[1], "it asks what is seen now"
    assert (await talk.rows()).lifecycle != "closed"


async def test_what_could_not_be_looked_at_again_is_not_called_mended() -> None:
    talk = await Talk.about(CLOCKS)
    talk.stage.cluster.heal("gpu-003")
    talk.ports = replace(talk.ports, fleet=Dark(talk.ports.fleet))  # type: ignore[arg-type]  # the part of Fleet that the graph uses
    answer = await talk.says("it works again")
    assert answer.startswith("Could not look")
    assert (await talk.rows()).lifecycle != "closed"


async def test_a_test_without_a_named_host_is_not_guessed() -> None:
    talk = await Talk.about()
    before = await talk.put_up()
    await talk.asks(Intent.RUN_CHECK, check="nccl1")
    assert await talk.put_up() == before, "it asks on which hosts"
    await talk.asks(Intent.RUN_CHECK, check="nccl1", group=OTHERS)
    assert [row.target for row in await talk.put_up() if row not in before] == ["gpu-001,gpu-002,gpu-004"]


async def test_what_people_say_it_was_not_is_put_up_again_only_when_they_wish_for_it() -> None:
    talk = await Talk.about()
    await talk.says("no, it was the cable")
    await talk.asks(Intent.STILL_BROKEN)
    assert await talk.put_up() == []
    await talk.says("drain gpu-003")
    assert [row.target for row in await talk.put_up()] == ["gpu-003"]
