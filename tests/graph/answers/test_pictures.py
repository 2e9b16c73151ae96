"""Timeline, tree and bandwidth requested in words: a few lines and a picture with its rows, or that there is no data."""

from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage
from tests.support.talk import Talk


def wants(picture: str) -> ParsedMessage:
    return ParsedMessage(intent=Intent.SHOW_PICTURE, picture=picture)


async def test_the_timeline_names_the_last_moments_and_is_drawn() -> None:
    talk = await Talk.about()
    report = await talk.means(wants("timeline"))
    _, *moments = report.reply.splitlines()
    assert [line.split()[1] for line in moments][-1] == "found:"
    assert [(row.kind, row.asked) for row in report.pictures] == [("timeline", True)]
    assert talk.ran == []


async def test_what_was_ruled_out_is_named_and_the_tree_drawn() -> None:
    talk = await Talk.about()
    report = await talk.means(wants("walk"))
    assert talk.ports.taxonomy.titles["GPU.BUS.Fallen_Off_Bus"] in report.reply
    assert "Ruled out: " in report.reply
    assert [row.kind for row in report.pictures] == ["walk"]
    assert await talk.says("what did you rule out?") == report.reply


async def test_what_could_not_be_looked_at_is_named_beside_what_is_out() -> None:
    talk = await Talk.about({"id": "F01", "node": "gpu-001", "t": -420}, modifiers=["R6(check=ibstat, how=timeout)@*"])
    report = await talk.means(wants("walk"))
    assert "could not look" in report.reply
    assert "ot look: " in report.reply


async def test_an_unmeasured_bandwidth_is_not_drawn() -> None:
    talk = await Talk.about()
    report = await talk.means(wants("bandwidth"))
    assert "gpu-[001-004]" in report.reply
    assert "run nccl1 on gpu-001" in report.reply
    assert report.pictures == ()
