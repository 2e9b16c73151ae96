"""Answers after a proven remediation, about an action's effect on the job, and about the size of a deviation."""

from datetime import timedelta
from typing import Any

import pytest

from bot.incidents.cards import handoff_card
from bot.incidents.cards.handoff_content import build_handoff
from graph.incident.answers.safety import NOT_SAFE_PREFIX, SAFE_PREFIX
from tests.support.talk import Talk

pytestmark = pytest.mark.slow

CLOCK = {"id": "S17", "node": "gpu-002", "t": -600}


async def mended(fault: dict[str, Any] = CLOCK, **ends: Any) -> Talk:
    """Return a thread whose remediation ran and was proven, with a second proof due."""
    talk = await Talk.about(fault)
    (ladder, *_) = (await talk.rows()).remediations
    talk.stage.cluster.heal(fault["node"])
    at = talk.stage.clock.now()
    told = {"waiting_for": "proof", "proven": "a-1", "since": at, "due": at + timedelta(hours=2)} | ends
    row = ladder.model_copy(update=told).model_dump(mode="json")
    await talk.graph.aupdate_state({"configurable": {"thread_id": "inc-1"}}, {"ladders": [row]})
    await talk.says(f"recheck {fault['node']}")
    return talk


@pytest.mark.parametrize("question", ["how far off is the clock now?", "is the clock right now?", "is gpu-002's clock ok again?"])
async def test_a_mended_cause_is_told_of_its_own_host_and_from_after_the_fix(question: str) -> None:
    talk = await mended()
    answer = await talk.says(question)
    assert answer.startswith("Clock skew on gpu-002: passes now; re-check at")
    assert "gpu-002: the clock is off by" in answer
    assert "gpu-001" not in answer
    assert "412" not in answer
    assert talk.ran == []


async def test_a_mended_host_in_service_is_safe_and_its_second_proof_is_told() -> None:
    talk = await mended()
    answer = await talk.says("is it safe to restart the job?")
    assert answer.startswith(SAFE_PREFIX)
    assert "Fixed: Clock skew on gpu-002: passes now; re-check at" in answer


@pytest.mark.parametrize("ends", [{"drained": True}, {"proven": "", "waiting_for": "idle"}, {"waiting_for": "approval"}])
async def test_a_host_that_is_held_or_not_proved_is_not_safe(ends: dict[str, Any]) -> None:
    talk = await mended(**ends)
    assert not (await talk.says("is it safe to restart the job?")).startswith(SAFE_PREFIX)


async def test_a_mended_host_that_was_not_read_since_is_not_called_safe() -> None:
    talk = await mended()
    (row,) = (await talk.rows()).remediations
    late = row.model_copy(update={"since": talk.stage.clock.now() + timedelta(minutes=1)}).model_dump(mode="json")
    await talk.graph.aupdate_state({"configurable": {"thread_id": "inc-1"}}, {"ladders": [late]})
    assert "but not checked since" in await talk.says("is it safe to restart the job?")


async def test_a_hand_off_says_what_approved_actions_did() -> None:
    talk = await mended()
    await talk.presses("hand_off")
    state = (await talk.rows()).stored
    card = str(handoff_card.render_ticket(build_handoff(state)).blocks)
    assert "Done:" in card
    assert "gpu-002: Start chrony" in card
    assert "; verified" in card
    await talk.presses("close")
    closed = str(handoff_card.render_ticket(build_handoff((await talk.rows()).stored)).blocks)
    assert "(gpu-002), fixed" in closed
    assert "unknown" not in closed.lower().partition("for:")[0]


@pytest.mark.parametrize(
    "question",
    [
        "will fixing the clock kill my job?",
        "would the fix interrupt our training?",
        "does stepping the clock hurt the job?",
        "is the fix safe for my job?",
        "does the fix cost us the run?",
        "will my job survive the fix?",
        "could that disturb the running jobs?",
    ],
)
async def test_what_a_fix_does_to_the_job_is_told_of_the_fix(question: str) -> None:
    talk = await Talk.about(CLOCK)
    answer = await talk.says(question)
    assert answer.startswith("Outage: none: the clock steps once")
    assert "is waiting for approval" in answer
    assert "Nothing found" not in answer


@pytest.mark.parametrize(
    ("question", "begins"),
    [("will the reboot kill my job?", "Outage: the node for"), ("will draining gpu-001 stop the job?", "Outage: none for running jobs")],
)
async def test_a_remedy_that_the_question_names_is_the_one_told(question: str, begins: str) -> None:
    assert (await (await Talk.about(CLOCK)).says(question)).startswith(begins)


async def test_cancelling_the_job_is_still_told_of_the_job() -> None:
    assert "one job on all of its nodes" in await (await Talk.about()).says("is it safe to kill the job?")


@pytest.mark.parametrize(
    "question",
    ["how far off is the clock?", "how far off is gpu-002's clock", "by how many seconds is the clock off?", "how big is the clock skew?"],
)
async def test_how_much_is_answered_with_the_number(question: str) -> None:
    assert (await (await Talk.about(CLOCK)).says(question)).startswith("gpu-002: the clock is off by -412 s (time, read")


@pytest.mark.parametrize(
    "question",
    [
        "is gpu-002's clock ok again?",
        "is gpu-002 ok again?",
        "is it working again?",
        "are the nodes fine again?",
        "does gpu-002 work again?",
        "and is gpu-002 healthy again now?",
    ],
)
async def test_a_question_whether_it_is_well_again_starts_no_look(question: str) -> None:
    talk = await Talk.about(CLOCK)
    answer = await talk.says(question)
    assert talk.ran == []
    assert "gpu-002: Clock skew" in answer
    assert "1779246188" not in answer


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("can I run on 001,003 and 4 meanwhile", SAFE_PREFIX),
        ("can I run on 001,002 and 4 meanwhile", f"{NOT_SAFE_PREFIX} gpu-002"),
        ("can we use gpu-001 and gpu-003 in the meantime?", SAFE_PREFIX),
        ("is it safe to restart the job on 001-3?", f"{NOT_SAFE_PREFIX} gpu-002"),
        ("is it safe to restart the job on 003-4?", SAFE_PREFIX),
    ],
)
async def test_hosts_in_short_have_their_yes_or_no(question: str, begins: str) -> None:
    assert (await (await Talk.about(CLOCK)).says(question)).startswith(begins)


async def test_a_question_about_a_handed_in_line_names_the_host_of_the_line() -> None:
    talk = await Talk.about(CLOCK)
    talk.stage.cluster.heal("gpu-002")
    await talk.says("May 20 03:09:30 gpu-004 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=88123, name=python, GPU has fallen off the bus.")
    await talk.says("recheck gpu-[001-004]")
    report = (await talk.rows()).report
    assert report
    asked = [question for question in report.questions if question.startswith("Did you see")]
    assert all("gpu-004" in question for question in asked)
    assert len(report.suggestions) == len(set(report.suggestions))
    assert all("on gpu-004" in row for row in report.suggestions if row.startswith("If it is GPU fell off"))
