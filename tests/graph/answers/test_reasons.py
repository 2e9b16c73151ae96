"""Answers to why and why not: the verdict first, then the lines with source and age."""

import pytest

from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage
from tests.support.talk import Talk

pytestmark = pytest.mark.slow


FOUND = "GPU.BUS.Fallen_Off_Bus"
AS_FILE = ParsedMessage(intent=Intent.SHOW_OUTPUT, hosts=("gpu-003",), check="dmesg", form="file")


async def test_why_names_the_cause_how_sure_and_the_lines() -> None:
    talk = await Talk.about()
    lines = (await talk.says("why?")).splitlines()
    assert lines[0].startswith(f"{talk.ports.taxonomy.titles[FOUND]} (gpu-003/gpu5), 98 % sure: ")
    assert all(" · read just now: " in line for line in lines[1:4])
    assert lines[4].startswith("Ruled out: ")


async def test_why_not_the_network_says_what_speaks_against_it() -> None:
    talk = await Talk.about()
    first, *lines = (await talk.says("why not the network?")).splitlines()
    assert first.endswith(": ruled out.")
    assert lines
    assert all(line.startswith("• ") and "read just now" in line for line in lines)


async def test_what_was_found_is_not_ruled_out() -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.WHY_NOT, labels=(FOUND,))
    assert "ruled out" not in answer
    assert answer.splitlines()[1].startswith(f"{talk.ports.taxonomy.titles[FOUND]} (gpu-003/gpu5), 98 % sure ")


async def test_what_could_not_be_looked_at_is_not_ruled_out() -> None:
    talk = await Talk.about({"id": "F01", "node": "gpu-001", "t": -420}, modifiers=["R6(check=ibstat, how=timeout)@*"])
    answer = await talk.says("did you rule out the cable?")
    assert "not ruled out" in answer
    assert ": ruled out." not in answer


async def test_a_healthy_cluster_has_nothing_to_explain() -> None:
    talk = await Talk.about({"id": "G07", "node": "gpu-003", "gpu": 5, "t": 900_000})
    assert "% sure" not in await talk.says("why?")
    report = (await talk.rows()).report
    assert report
    assert report.root_causes == ()


async def test_the_difference_that_matters_is_told_first_and_rightful_ones_not_at_all() -> None:
    talk = await Talk.about()
    first, *lines = (await talk.says("compare gpu-002 and gpu-003")).splitlines()
    assert first.startswith("gpu-002 and gpu-003: ")
    assert "gpu5 · lspci · gpu-002: no; gpu-003: yes" in lines[0]
    assert "boot" not in "\n".join(lines)
    assert (await talk.says("compare gpu-001 and gpu-002")).startswith("gpu-001 and gpu-002: nothing differs")


async def test_the_past_is_what_was_logged_and_recorded() -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.CHANGED_SINCE, at=talk.stage.clock.now().replace(hour=3, minute=0))
    assert "03:03:00 gpu-003 · kernel log" in answer or "gpu-003 · kernel log" in answer
    before = await talk.says("has this happened before?")
    assert before.startswith("I could not look")
    assert len([line for line in before.splitlines() if line.startswith("• ")]) == 2, "recorded incidents of the same cause"
    assert talk.ran == []


async def test_output_is_shown_by_its_telling_lines_and_whole_as_a_file() -> None:
    talk = await Talk.about()
    asked = await talk.means(AS_FILE.model_copy(update={"form": ""}))
    head, *lines = asked.reply.splitlines()
    assert head.startswith("gpu-003 · kernel log · read just now: 12 of ")
    assert "file" in head
    assert [row.name for row in asked.shown] == ["gpu-003-dmesg.txt"], "the boot's id, which it reads too, is no output of anybody's"
    assert any("fallen off the bus" in line for line in lines)
    assert all(line.startswith("  ") for line in lines[:12])
    report = await talk.means(AS_FILE)
    assert "file" in report.reply
    assert report.shown[0].name == "gpu-003-dmesg.txt"
    drawn = await talk.means(AS_FILE.model_copy(update={"form": "picture"}))
    assert (drawn.pictures, len(drawn.shown)) == ((), len(report.shown))
    short = await talk.means(AS_FILE.model_copy(update={"check": "uptime", "form": ""}))
    assert short.shown == (), "what is all here needs no file"
    later = await talk.means(AS_FILE.model_copy(update={"intent": Intent.THANKS}))
    assert later.shown == ()


async def test_a_number_of_every_gpu_is_told_in_a_line_and_drawn_of_all_hosts_to_compare() -> None:
    talk = await Talk.about()
    report = await talk.means(ParsedMessage(intent=Intent.SHOW_OUTPUT, check="smi", form="picture", text="temperatures as a picture"))
    assert report.reply.startswith("core temperature of 4 hosts: ")
    (wanted,) = report.pictures
    assert (wanted.key, len(wanted.hosts)) == ("gpu.temp.core", 4)
    usual = await talk.means(ParsedMessage(intent=Intent.SHOW_OUTPUT, form="picture", text="heat map please"))
    assert [row.key for row in usual.pictures] == ["gpu.temp.core"], "no number decided this one"
    nothing = await talk.means(ParsedMessage(intent=Intent.SHOW_OUTPUT, check="nccl2", form="picture", text="nccl matrix as a picture"))
    assert "run nccl2 on" in nothing.reply
    assert nothing.pictures == ()
    assert talk.ran == []


async def test_a_heat_map_of_nothing_more_is_of_the_number_that_decided() -> None:
    talk = await Talk.about({"id": "G09", "node": "gpu-003", "gpu": 5, "t": -420})
    report = await talk.means(ParsedMessage(intent=Intent.SHOW_OUTPUT, form="picture", text="heat map please"))
    found = (await talk.rows()).report
    cited = {line.key for cause in (found.root_causes if found else ()) for line in cause.evidence}
    assert report.pictures[0].key in cited
