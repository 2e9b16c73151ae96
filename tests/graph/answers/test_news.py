"""New facts after a diagnosis run only the checks they point to, and the answer says only what changed."""

import pytest

from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage
from tests.support.talk import Talk, case_of

pytestmark = pytest.mark.slow


async def test_a_reported_change_reads_only_the_versions() -> None:
    talk = await Talk.about()
    talk.minutes = 10
    before = (await talk.rows()).report
    answer = await talk.says("we updated the driver at 02:00")
    after = (await talk.rows()).report
    assert before
    assert after
    assert (after.root_causes[0].label, after.changed) == (before.root_causes[0].label, "")
    assert "(gpu-003/gpu5)" in answer, "the cause that stays"
    assert {check for _, check in talk.ran} <= {"vers", "mods", "env", "smi"}
    assert len({check for _, check in talk.ran}) >= 1


async def test_what_was_read_a_minute_ago_is_not_read_again() -> None:
    talk = await Talk.about()
    await talk.says("we updated the driver at 02:00")
    assert talk.ran == []


async def test_an_error_on_a_known_host_has_what_shows_it_read_there_alone() -> None:
    talk = await Talk.about()
    talk.minutes = 10
    await talk.says("gpu-002 throws Xid 79 now")
    assert {host for host, _ in talk.ran} == {"gpu-002"}
    assert 0 < len(talk.ran) < 12


async def test_the_diagnosis_stays_as_it_is_where_news_change_nothing() -> None:
    talk = await Talk.about()
    before = (await talk.rows()).report
    assert await talk.asks(Intent.NEW_FACTS)
    after = (await talk.rows()).report
    assert before
    assert after
    assert [row.label for row in after.root_causes] == [row.label for row in before.root_causes]
    assert after.changed == ""


async def test_news_that_change_the_diagnosis_say_what_was_believed_before() -> None:
    talk = await Talk.about()
    talk.minutes = 10
    talk.stage.cluster.heal("gpu-003")
    await talk.says("gpu-003 rebooted at 03:00 and throws Xid 79")
    report = (await talk.rows()).report
    assert report
    assert "(gpu-003/gpu5)" in report.changed
    assert (report.reply, report.outcome) == ("", "no_fault")


async def nothing_found() -> Talk:
    """Return a thread without a proven cause, because one host's kernel log timed out."""
    talk = await Talk.of(case_of(modifiers=["R6(check=dmesg@gpu-002, how=timeout)"]))
    talk.minutes = 10
    rows = await talk.rows()
    assert rows.report
    assert rows.report.outcome == "abstained"
    return talk


async def test_without_a_diagnosis_news_have_only_what_they_point_to_read() -> None:
    talk = await nothing_found()
    await talk.says("we updated the driver at 02:00")
    assert talk.ran
    assert {check for _, check in talk.ran} <= {"vers", "mods", "env", "smi"}


async def test_without_a_diagnosis_an_error_on_a_host_has_that_host_read_alone() -> None:
    talk = await nothing_found()
    await talk.says("gpu-004 throws Xid 79 now")
    assert {host for host, _ in talk.ran} == {"gpu-004"}


async def test_without_a_diagnosis_an_answer_that_tells_nothing_to_look_at_has_nothing_read() -> None:
    talk = await nothing_found()
    said = await talk.means(ParsedMessage(intent=Intent.NEW_FACTS, text="no idea"))
    assert talk.ran == []
    assert said.outcome == "abstained"
    assert "no cause is proven" in said.changed.lower() or said.reply.startswith("Noted")


async def test_without_a_diagnosis_a_host_that_was_dark_is_looked_at_whole_once_it_is_named() -> None:
    talk = await nothing_found()
    await talk.says("gpu-002 had a cable swapped at 02:00")
    assert ("gpu-002", "dmesg") in talk.ran
    assert {host for host, _ in talk.ran} == {"gpu-002"}
