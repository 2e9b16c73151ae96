"""News about what was diagnosed: only what they point to is looked at, and only what they change is told."""

from graph.conversation.intents import Intent
from tests.support.talk import Talk


async def test_a_change_that_somebody_made_has_the_versions_read_and_nothing_else() -> None:
    talk = await Talk.about()
    talk.minutes = 10
    answer = await talk.says("we updated the driver at 02:00")
    assert answer.startswith("Noted; nothing that I know changes by it.")
    assert "The cause stays: GPU fell off the PCIe bus (gpu-003/gpu5)." in answer
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
    answer = await talk.asks(Intent.NEW_FACTS)
    after = (await talk.rows()).report
    assert before
    assert after
    assert answer.startswith("Noted; nothing that I know changes by it.")
    assert [row.label for row in after.root_causes] == [row.label for row in before.root_causes]
    assert after.changed == ""


async def test_news_that_change_the_diagnosis_say_what_was_believed_before() -> None:
    talk = await Talk.about()
    talk.minutes = 10
    talk.stage.cluster.heal("gpu-003")
    await talk.says("gpu-003 rebooted at 03:00 and throws Xid 79")
    report = (await talk.rows()).report
    assert report
    assert (report.changed, report.reply) == ("Changed. Before: GPU fell off the PCIe bus (gpu-003/gpu5)", "")
    assert report.headline.startswith("No fault found")
