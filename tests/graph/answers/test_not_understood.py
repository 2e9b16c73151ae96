"""A message in no known words gets the nearest facts, at most two, that the reader may see; corrections, changed hosts and delays are stored."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.incidents.dispatch.metrics import UNLISTED_CAUSE, summarize_metrics, update_metrics
from bot.incidents.dispatch.sweeper import AUTO_CLOSE, plan_timers
from graph.dialogue.intents import Intent
from graph.learning.lesson_drafts import draft_lesson
from graph.state import Origin, TenantThread
from tests.support.clock import T0
from tests.support.talk import FAULT, Talk

pytestmark = pytest.mark.slow
LEAK = "FRAMEWORK.DATA.Dataloader_Worker_Leak"
FOUND = "GPU.BUS.Fallen_Off_Bus"


def nearest(answer: str) -> list[str]:
    """Return the indented lines."""
    return [line.strip() for line in answer.splitlines() if line.startswith("  ")]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("the xid thingy gives me a headache", "Xid"),
        ("hm, fallen off the bus again", "fell off"),
        ("and the temperatures, oracle?", "temperature"),
        ("so the nvlink fabric whispers", "NVLink"),
        ("wot about draining", "rain"),
    ],
)
async def test_the_nearest_facts_are_shown_with_their_source(text: str, part: str) -> None:
    talk = await Talk.about()
    lines = nearest(await talk.asks(Intent.NOT_UNDERSTOOD, text=text))
    assert 1 <= len(lines) <= 2
    assert any(part.lower() in line.lower() for line in lines)


@pytest.mark.parametrize("text", ["lunch first", "hm", "zzz", "good grief", "🤷", "so it goes"])
async def test_what_is_near_nothing_gets_the_honest_line_alone(text: str) -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.NOT_UNDERSTOOD, text=text)
    assert answer
    assert nearest(answer) == []
    assert talk.ran == []


async def test_the_nearest_intents_are_offered_as_buttons() -> None:
    talk = await Talk.about()
    await talk.says("drain it, unless Olga says otherwise about gpu-002")
    report = (await talk.rows()).report
    assert report is not None
    assert len(report.meant) == 2
    await talk.says("status")
    report = (await talk.rows()).report
    assert report is not None
    assert report.meant == ()


async def test_a_text_of_any_kind_is_shown_on_bounded_lines() -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.NOT_UNDERSTOOD, text="xid \u202e\u0000 <!channel> " * 2000)
    assert all(len(line) < 400 for line in answer.splitlines())
    assert "\u202e" not in answer


async def test_a_tenant_reads_of_no_foreign_host() -> None:
    talk = await Talk.about()
    thread = TenantThread(team="T1", channel="C1", thread_ts="2.0", user="U2")
    theirs = Origin(kind="slack", team="T1", channel="", thread_ts="2.0", tenant="acme", customer=thread)
    tenants = Talk.over(talk.stage, theirs)
    tenants.ports = replace(talk.ports, recent={})
    await tenants.reports("gpu-003 is odd")
    answer = await tenants.asks(Intent.NOT_UNDERSTOOD, text="xid fallen off the bus on gpu-003, drain")
    assert "gpu-003 ·" not in answer


@pytest.mark.parametrize("text", ["you are wrong, it was a leak in our dataloader", "it was a leak in our dataloader, not the GPU"])
async def test_a_correction_is_stored_asked_about_once_and_learnt(text: str) -> None:
    talk = await Talk.about()
    await talk.says(text, user="U7")
    rows = await talk.rows()
    assert rows.report is not None
    assert rows.correction is not None
    assert (rows.correction.label, rows.correction.by, rows.correction.denied) == (LEAK, "U7", (FOUND,))
    assert rows.report.meant == (Intent.CLOSE.value,)
    assert await talk.put_up() == []
    await talk.says(text, user="U7")
    rows = await talk.rows()
    assert rows.report is not None
    assert rows.report.meant == ()
    await talk.says("close")
    rows = await talk.rows()
    lesson = draft_lesson(rows.stored, T0, set(talk.ports.taxonomy.leaves), lambda _: frozenset())
    assert lesson is not None
    assert (lesson.label, lesson.root_cause, lesson.misled) == (LEAK, "a leak in our dataloader", (FOUND,))
    metrics = update_metrics(rows.stored, None, T0 + timedelta(hours=1))
    assert metrics.truth == LEAK
    summary = summarize_metrics([metrics], ())
    assert (summary.checked, summary.right) == (1, 0)


async def test_a_cause_that_no_label_names_closes_in_the_writers_words_and_counts() -> None:
    talk = await Talk.about()
    await talk.says("wrong diagnosis, a trainee had unplugged it")
    assert await talk.put_up() == []
    assert (await talk.says("close")).startswith("Closed: a trainee had unplugged it.")
    rows = await talk.rows()
    metrics = update_metrics(rows.stored, None, T0 + timedelta(hours=1))
    assert (metrics.truth, summarize_metrics([metrics], ()).checked) == (UNLISTED_CAUSE, 1)
    lesson = draft_lesson(rows.stored, T0, set(talk.ports.taxonomy.leaves), lambda _: frozenset())
    assert lesson is not None
    assert (lesson.label, lesson.root_cause) == ("", "a trainee had unplugged it")


async def test_a_cause_beside_the_found_one_withdraws_nothing() -> None:
    talk = await Talk.about()
    await talk.asks(Intent.CORRECT, text="it was a long cable run", cause="a long cable run")
    assert len(await talk.put_up()) == 1


@pytest.mark.parametrize(
    "text", ["gpu-003 has been rebooted by carlos", "Lena has replaced the riser of gpu-003", "we swapped the cable on gpu-003"]
)
async def test_a_changed_host_alone_is_looked_at_again(text: str) -> None:
    talk = await Talk.about(FAULT)
    await talk.says(text)
    assert {host for host, _ in talk.ran} == {"gpu-003"}


async def test_a_snooze_mutes_reminders_until_its_time_and_answers_go_on() -> None:
    talk = await Talk.about()
    answer = await talk.says("not urgent, do it tomorrow")
    rows, now = await talk.rows(), talk.stage.clock.now()
    until = rows.reminders_from
    assert until is not None
    assert (until.date() - now.date(), until.hour) == (timedelta(days=1), 8)
    assert f"{until:%H:%M} UTC" in answer
    assert rows.quiet_until is None
    assert rows.is_muted(now)
    assert not rows.is_muted(until)
    assert len(await talk.put_up()) == 1
    assert rows.report is not None
    open_state = {**rows.stored, "lifecycle": "open"}
    assert plan_timers(open_state, rows.report, rows.item, now)[AUTO_CLOSE] >= until  # type: ignore[arg-type]
    assert await talk.says("status")
