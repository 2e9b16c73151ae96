"""Answers to "has this happened before?" separate same device, same host and elsewhere, and no match from an unavailable store."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.cards.text import thread_link
from bot.incidents.cards import diagnosis
from graph.closed_incidents import ClosedIncident, ClosedIncidentCause, ClosedIncidentMatches, ClosedIncidentQuery
from graph.state import Origin
from kb.history.incidents import PastIncident
from kb.history.index import PastIncidentIndex
from tests.support.clock import T0
from tests.support.talk import Talk

pytestmark = pytest.mark.slow


DEAD, ECC = "GPU.BUS.Fallen_Off_Bus", "GPU.MEMORY.Uncorrectable_ECC"
ASK = "has this happened before?"


async def talk_with(seen: ClosedIncidentMatches) -> tuple[Talk, list[ClosedIncidentQuery]]:
    """Return a thread about a GPU of gpu-003 that fell off the bus, and the queries it makes."""
    talk, looked = await Talk.about(), list[ClosedIncidentQuery]()

    async def recall(sought: ClosedIncidentQuery) -> ClosedIncidentMatches:
        looked.append(sought)
        return seen

    talk.ports = replace(talk.ports, earlier=recall)
    return talk, looked


async def cause_of(talk: Talk) -> ClosedIncidentCause:
    report = (await talk.rows()).report
    assert report
    (root,) = report.root_causes
    return ClosedIncidentCause(label=root.label, hosts=root.hosts, devices=root.devices)


def row(name: str, days_ago: int, *causes: ClosedIncidentCause, ended: str = "cured") -> ClosedIncident:
    at = T0 - timedelta(days=days_ago)
    did = ("gpu_reset",) if ended in ("cured", "passed") else ()
    found = {"incident": name, "origin": Origin(), "opened": at, "closed": at, "ended": ended, "causes": causes, "did": did}
    return ClosedIncident.model_validate(found)


async def test_device_host_and_elsewhere_are_told_apart_with_how_each_ended() -> None:
    talk, _ = await talk_with(ClosedIncidentMatches())
    cause = await cause_of(talk)
    other_gpu = cause.model_copy(update={"devices": ("gpu-003/gpu1",)})
    away = ClosedIncidentCause(label=cause.label, hosts=("gpu-009",))
    rows = (row("a", 2, cause), row("b", 5, other_gpu, ended="in_vain"), row("c", 9, away, ended="quiet"))
    talk, looked = await talk_with(ClosedIncidentMatches(rows, T0 - timedelta(days=20)))
    first, *lines = (await talk.says(ASK)).splitlines()
    assert first.endswith("3 times since 2026-05-11 (1 on the same device, 1 on the same host, 1 elsewhere).")
    title = talk.ports.taxonomy.titles[DEAD]
    places = ("• 2026-05-18 gpu-003 (same device): ", "• 2026-05-15 gpu-003 (same host): ", "• 2026-05-11 gpu-009 (elsewhere): ")
    assert [line.startswith(f"{place}{title}; ") for line, place in zip(lines, places, strict=False)] == [True] * 3
    assert ["gpu reset" in line for line in lines[:3]] == [True, False, False]
    assert "not proved" in lines[1]
    assert "2026-04-30" in lines[3]
    assert (looked[0].hosts, looked[0].devices, looked[0].labels) == (("gpu-003",), cause.devices, (cause.label,))
    assert talk.ran == []


async def test_other_trouble_of_the_host_is_no_repetition() -> None:
    ecc = ClosedIncidentCause(label=ECC, hosts=("gpu-003",))
    talk, _ = await talk_with(ClosedIncidentMatches((row("a", 2, ecc),), T0 - timedelta(days=3)))
    none, other, line, *_ = (await talk.says(ASK)).splitlines()
    assert none.startswith("None of the closed incidents")
    assert "gpu-003" in other
    assert "(another cause)" in line


async def test_a_lesson_of_a_closed_incident_is_no_recorded_one() -> None:
    talk, _ = await talk_with(ClosedIncidentMatches())
    own = PastIncident(
        "les-1", "job 4711 hangs on gpu-[001-004]", "job 4711 hangs, our own", DEAD, "x", "y", learnt="inc-1", on="2026-05-20"
    )
    other = replace(own, id="les-2", title="gpu-009 lost a GPU", learnt="inc-9")
    exported = replace(own, id="exp-3", title="a card that came off the bus", learnt="exp-3")
    history = PastIncidentIndex([own, other, exported])
    talk.ports = replace(talk.ports, history=history)
    answer = await talk.says(ASK)
    assert exported.title in answer
    assert own.title not in answer
    assert "gpu-009" not in answer


async def test_yes_is_said_of_a_named_host_only_where_it_was_there() -> None:
    talk, _ = await talk_with(ClosedIncidentMatches())
    cause = await cause_of(talk)
    away = ClosedIncidentCause(label=cause.label, hosts=("gpu-001",))
    talk, _ = await talk_with(ClosedIncidentMatches((row("a", 2, away),), T0 - timedelta(days=3)))
    assert not (await talk.says("has gpu-003 had this before?")).startswith("Yes")
    talk, _ = await talk_with(ClosedIncidentMatches((row("a", 2, cause),), T0 - timedelta(days=3)))
    assert (await talk.says("has gpu-003 had this before?")).startswith("Yes")
    assert (await talk.says(ASK)).startswith("Yes")
    assert not (await talk.says("how often did that happen?")).startswith("Yes")


async def test_five_are_told_and_the_rest_are_counted() -> None:
    talk, _ = await talk_with(ClosedIncidentMatches())
    cause = await cause_of(talk)
    talk, _ = await talk_with(ClosedIncidentMatches(tuple(row(f"i{n}", n, cause) for n in range(1, 10)), T0 - timedelta(days=9), cut=True))
    answer = await talk.says(ASK)
    assert "at least 9 times since" in answer
    assert answer.count("(same device)") == 5
    assert "… and 4 more." in answer


async def test_no_match_and_an_unavailable_store_are_different_answers() -> None:
    talk, _ = await talk_with(ClosedIncidentMatches())
    assert "None of the closed incidents" in await talk.says(ASK)
    talk, _ = await talk_with(ClosedIncidentMatches(could_not="my store did not answer (TimeoutError)"))
    answer = await talk.says(ASK)
    assert "I could not look" in answer
    assert "(TimeoutError)" in answer
    assert "None of the closed incidents" not in answer


async def test_who_names_a_host_hears_of_that_host() -> None:
    talk, looked = await talk_with(ClosedIncidentMatches())
    await talk.says("has gpu-001 had this before?")
    assert looked[0].hosts == ("gpu-001",)


async def test_threads_are_linked_only_for_people_who_may_read_them_and_for_one_answer() -> None:
    talk, _ = await talk_with(ClosedIncidentMatches())
    cause = await cause_of(talk)
    talk, _ = await talk_with(ClosedIncidentMatches((row("a", 2, cause), row("b", 5, cause)), T0 - timedelta(days=5)))
    await talk.says(ASK)
    report = (await talk.rows()).report
    assert report
    assert [one.incident for one in report.threads] == ["a", "b"]
    card = str(diagnosis.render_diagnosis("inc-1", report, links={"a": thread_link("T1", "C0OPS", "1.0", "2026-05-18")}).blocks)
    assert "Threads: " in card
    assert "2026-05-18" in card
    assert card.count("slack.com") == 1, "the other one lives where this reader may not look"
    await talk.says("thanks")
    after = (await talk.rows()).report
    assert after
    assert after.threads == ()
