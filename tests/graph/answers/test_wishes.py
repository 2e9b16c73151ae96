"""What people wish for becomes a card that somebody else approves, or the reason why not; a person's word is kept beside what was seen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from graph.conversation.intents import Intent
from graph.conversation.said import OTHERS
from tests.support.talk import FAULT, Talk
from tools.fact import Status, blind
from tools.fleet.answers import Answer, Ask, Seen, Wave
from tools.fleet.fleet import Fleet

CLOCKS = {"id": "G17", "node": "gpu-003", "gpu": 5, "t": -420}
"""Clocks locked low: what nvidia-smi shows and nothing logged."""


@dataclass
class Dark:
    """A fleet that answers no more."""

    fleet: Fleet
    clock: str = "virtual"

    def __post_init__(self) -> None:
        self.checks = self.fleet.checks

    def outdate(self, hosts: Iterable[str], since: datetime) -> None:
        """Nothing is kept here."""

    async def look(self, incident: str, asks: Sequence[Ask], seen: Seen | None = None, *, fresh: bool = False) -> Wave:
        lost = [Answer(ask.host, ask.check, (blind(ask.check, Status.TIMEOUT, "no answer", ask.host),), 1.0, "no answer") for ask in asks]
        return Wave(tuple(lost), 1.0, 1.0)


async def test_a_drain_that_nothing_asks_for_is_refused_with_the_reason() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).ladders
    answer = await talk.says("drain gpu-002")
    assert answer.startswith("No card: nothing was found on gpu-002 that a drain would mend (")
    assert (await talk.rows()).ladders == before


async def test_a_drain_of_a_host_that_could_not_be_looked_at_is_refused_with_the_reason() -> None:
    talk = await Talk.about()
    talk.ports = replace(talk.ports, fleet=Dark(talk.ports.fleet))  # type: ignore[arg-type]  # the part of Fleet that is used
    await talk.says("recheck gpu-002")
    answer = await talk.says("drain gpu-002")
    assert answer.startswith("No card for a drain: a fix is put up only for a fault that a look has shown. gpu-002: could not be looked at")
    assert "drain it yourselves: `scontrol update NodeName=gpu-002 State=DRAIN" in answer
    assert "ask its BMC from outside" in await talk.says("reboot gpu-002")


async def test_what_is_up_for_decision_already_is_not_put_up_twice() -> None:
    talk = await Talk.about()
    assert await talk.says("drain gpu-003") == "Drain gpu-003: it is up for decision already; press Approve on its card."
    assert "a reboot comes later, if it is still needed" in await talk.says("reboot gpu-003")
    assert len(await talk.put_up()) == 1


async def test_a_fix_that_people_ended_is_put_up_again_when_somebody_wishes_for_it_who_may_not_approve_it() -> None:
    talk = await Talk.about()
    await talk.says("stop")
    assert await talk.put_up() == []
    answer = await talk.says("please drain gpu-003", user="U7")
    assert answer.startswith("Put up again: Drain gpu-003.")
    (row,) = await talk.put_up()
    assert (row.target, row.asked_by, row.attempt) == ("gpu-003", "T1:U7", 2)
    assert row.fault is not None


async def test_a_test_that_needs_idle_gpus_is_put_up_and_never_run() -> None:
    talk = await Talk.about()
    answer = await talk.says("run nccl1 on gpu-001 and gpu-002", user="U7")
    assert answer.startswith("Put up for decision: nccl1 on gpu-[001-002].")
    row = next(row for row in await talk.put_up() if row.now and row.now.remedy == "run_check")
    assert (row.target, row.now and row.now.args, row.asked_by) == ("gpu-001,gpu-002", {"check": "nccl1"}, "T1:U7")
    assert "is up for decision already" in await talk.says("run nccl1 on gpu-001 and gpu-002")
    assert "at least two" in await talk.asks(Intent.RUN_CHECK, check="nccl2", hosts=("gpu-001",))
    assert talk.ran == []


async def test_typed_approval_is_no_approval() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).ladders
    assert (await talk.says("approve")).startswith("Words approve nothing.")
    assert (await talk.rows()).ladders == before


async def test_nothing_that_was_not_done_is_undone() -> None:
    talk = await Talk.about()
    assert await talk.says("undo that") == (
        "There is nothing to undo: RackMedic has changed nothing there. Drain gpu-003 was only put up for decision: reject its card."
    )


async def test_another_cause_by_a_persons_word_takes_back_what_was_up_for_decision() -> None:
    talk = await Talk.about()
    answer = await talk.says("no, it was the cable", user="U7")
    assert "I had found GPU fell off the PCIe bus (lspci, kernel log, nvidia-smi on gpu-003); what I saw stays as it is." in answer
    assert "What was up for decision for it is taken back: gpu-003." in answer
    rows = await talk.rows()
    assert rows.correction is not None
    assert (rows.correction.label, rows.correction.by) == ("INTERCONNECT.IB", "U7")
    assert await talk.put_up() == []


async def test_the_found_cause_by_a_persons_word_changes_nothing() -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.CORRECT, labels=("GPU.BUS.Fallen_Off_Bus",))
    assert (
        answer == "That is what I found: GPU fell off the PCIe bus (lspci, kernel log, nvidia-smi on gpu-003). Noted as confirmed by you."
    )
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
    assert (await talk.says("reopen")).startswith("Open again.")
    assert (await talk.rows()).lifecycle == "open"


async def test_what_a_form_closed_and_nobody_handed_over_is_opened_again_without_a_ticket() -> None:
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
    assert (await talk.says("who is on it?")).startswith("Nobody is on it.")
    await talk.says("I take it", user="U7")
    assert (await talk.says("who is on it?")).startswith("U7 is on it.")
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
    assert (await talk.says("is it safe to restart the job?")).startswith("No, not on gpu-003:")
    assert (await talk.says("is it safe to use gpu-001?")).startswith("Yes, by all that I see. gpu-001: nothing abnormal")
    assert (await talk.says("is it safe to use gpu-002?")).startswith("I cannot tell for gpu-002: not all of gpu-002 could be looked at")


async def test_what_ended_a_job_and_is_over_speaks_against_no_machine_and_against_no_new_start() -> None:
    talk = await Talk.about({"id": "O06", "node": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"], "t": -420})
    for asks, hosts in (("can i put gpu-002 back to work", "gpu-002"), ("is it safe to restart the job?", "gpu-[001-004]")):
        answer = await talk.says(asks)
        assert answer.startswith(f"Yes, by all that I see. {hosts}: nothing abnormal")
        assert "What ended the job is no fault of a machine: The scheduler preempted the job (sched, job log on gpu-001)." in answer


async def test_what_ends_a_job_each_time_speaks_against_the_job_alone() -> None:
    talk = await Talk.about({"id": "U05", "node": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"], "t": -420})
    assert (await talk.says("is it safe to restart the job?")).startswith("No, it would fail again: ")
    assert (await talk.says("can i put gpu-002 back to work")).startswith("Yes, by all that I see. gpu-002: ")


async def test_what_an_approval_would_do_is_told_from_the_tables() -> None:
    talk = await Talk.about()
    answer = await talk.says("what happens if I approve?")
    assert answer.startswith("If approved: Drain gpu-003, by way of slurm-controller.")
    assert "the fault is still there" in answer
    assert "Then: Reboot the node, with a card of its own." in answer
    assert answer.endswith("Nothing runs before somebody presses Approve.")
    assert "with the button on the card" in await talk.says("who may approve?")


async def test_what_works_again_by_a_persons_word_is_looked_at_where_it_was_decided_and_only_there() -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.FIXED)
    assert answer.startswith("Still there: GPU fell off the PCIe bus (gpu-003/gpu5): ")
    assert {host for host, _ in talk.ran} == {"gpu-003"}
    assert len(talk.ran) <= 5
    assert (await talk.rows()).lifecycle != "closed"


async def test_what_is_mended_by_a_persons_word_and_by_a_look_is_closed_and_its_card_taken_back() -> None:
    talk = await Talk.about(CLOCKS)
    assert len(await talk.put_up()) == 1
    talk.stage.cluster.heal("gpu-003")
    answer = await talk.says("it works again")
    assert answer.splitlines()[0].startswith("Looked again: ")
    assert answer.splitlines()[-1] == "Closed. Say “reopen” if it comes back."
    assert {host for host, _ in talk.ran} == {"gpu-003"}
    assert ((await talk.rows()).lifecycle, await talk.put_up()) == ("closed", [])


async def test_what_is_still_broken_though_what_was_found_is_gone_asks_for_what_is_seen() -> None:
    talk = await Talk.about(CLOCKS)
    talk.stage.cluster.heal("gpu-003")
    answer = await talk.says("still broken")
    assert answer.splitlines()[-1].startswith("What do you see now?")
    assert (await talk.rows()).lifecycle != "closed"


async def test_what_could_not_be_looked_at_again_is_not_called_mended() -> None:
    talk = await Talk.about(CLOCKS)
    talk.stage.cluster.heal("gpu-003")
    talk.ports = replace(talk.ports, fleet=Dark(talk.ports.fleet))  # type: ignore[arg-type]  # the part of Fleet that the graph uses
    answer = await talk.says("it works again")
    assert answer.startswith("Could not look whether ")
    assert (await talk.rows()).lifecycle != "closed"


async def test_whose_gpus_a_test_takes_is_nobodys_guess() -> None:
    talk = await Talk.about()
    assert (await talk.asks(Intent.RUN_CHECK, check="nccl1")).startswith("On which hosts?")
    assert (await talk.asks(Intent.RUN_CHECK, check="nccl1", group=OTHERS)).startswith("Put up for decision: nccl1 on gpu-[001-002,004].")


async def test_what_people_say_it_was_not_is_put_up_again_only_when_they_wish_for_it() -> None:
    talk = await Talk.about()
    await talk.says("no, it was the cable")
    await talk.asks(Intent.STILL_BROKEN)
    assert await talk.put_up() == []
    assert (await talk.says("drain gpu-003")).startswith("Put up again: Drain gpu-003.")
    assert [row.target for row in await talk.put_up()] == ["gpu-003"]
