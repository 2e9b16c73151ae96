"""Intermittent and late faults: counters are read twice, and hosts are checked once more after the report."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bot.incidents.dispatch.sweeper import plan_timers
from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.context import IncidentTimeouts
from graph.engine.assessment import assess_facts
from graph.engine.counter_rises import MIN_COUNTER_RISES, format_rise, mark_counter_rises
from graph.engine.reference_data import ReferenceData
from graph.extraction.complaints import is_intermittent
from graph.report import Report
from graph.state import COUNTERS_RECHECK, FULL_RECHECK, ScheduledRecheck
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.support.talk import Talk, case_of
from tools.checks import CHECKS
from tools.fact import Fact, Status, build_unobserved_fact

MINUTE, FIVE = timedelta(minutes=1), timedelta(minutes=5)
LENS = ReferenceData(load_taxonomy().decidable, CHECKS)


@pytest.mark.parametrize(
    "text",
    [
        "the link flaps",
        "training sometimes hangs on gpu-001",
        "NCCL errors intermittently",
        "it fails now and then",
        "random NCCL errors on gpu-002",
        "job dies every few minutes",
        "errors every 10 min",
        "occasionally drops out of the fabric",
        "ab und zu bricht der Link weg",
        "manchmal hängt das Training",
        "the error comes and goes",
        "mlx5_3 goes up and down",
        "flaky node",
    ],
)
def test_words_that_say_that_it_comes_and_goes(text: str) -> None:
    assert is_intermittent(text)


@pytest.mark.parametrize(
    "text",
    [
        "job 4711 hangs on gpu-001",
        "we set a random seed",
        "all_reduce is slow",
        "nothing works since 10:30",
        "every node is down",
        "it is not intermittent",
    ],
)
def test_words_that_do_not(text: str) -> None:
    assert not is_intermittent(text)


def counter(key: str, value: int, at: datetime, **more: Any) -> Fact:
    if key.startswith("kernel."):
        attrs = {"count": value, "last": at.isoformat()}
        return Fact("dmesg", key, "corrected", "0000:5d:00.0", host="gpu-001", time=T0, attrs=attrs)
    return Fact("ibstat", key, value, "mlx5_3", host="gpu-001", time=at, **more)


@pytest.mark.parametrize("key", MIN_COUNTER_RISES)
def test_a_counter_that_rises_between_two_looks_is_abnormal_and_told_with_both_numbers(key: str) -> None:
    least = MIN_COUNTER_RISES[key]
    old, new = [counter(key, 12, T0)], [counter(key, 12 + least, T0 + MINUTE)]
    (fact,) = mark_counter_rises(old, new)
    assert format_rise(fact) == f"rose from 12 to {12 + least} in 60 s"
    now = assess_facts([fact], LENS, ("gpu-001",), None, T0 + MINUTE)
    assert fact.key in {odd.key for odd in now.abnormal_facts}
    said = [*now.why_unsure, *(match.says for row in now.beliefs for match in row.support)]
    assert any(f"rose from 12 to {12 + least} in 60 s" in line for line in said)


@pytest.mark.parametrize("key", MIN_COUNTER_RISES)
@pytest.mark.parametrize(("rise", "after"), [(0, 60), (-1, 60), (1000, 5), (1000, 7200)])
def test_what_does_not_rise_or_was_read_too_soon_or_too_late_is_no_evidence(key: str, rise: int, after: int) -> None:
    assert mark_counter_rises([counter(key, 12, T0)], [counter(key, 12 + rise, T0 + timedelta(seconds=after))]) == [
        counter(key, 12 + rise, T0 + timedelta(seconds=after))
    ]


def test_a_counter_that_could_not_be_read_rose_nowhere() -> None:
    unread = [build_unobserved_fact("ibstat", Status.TIMEOUT, "no answer", "gpu-001")]
    assert mark_counter_rises([counter("ib.link_downed", 12, T0)], unread) == unread


def test_the_same_look_once_more_keeps_what_it_is_compared_with() -> None:
    first = mark_counter_rises([counter("ib.link_downed", 12, T0)], [counter("ib.link_downed", 14, T0 + MINUTE)])
    (again,) = mark_counter_rises(first, [counter("ib.link_downed", 14, T0 + MINUTE + timedelta(seconds=3))])
    assert format_rise(again) == "rose from 12 to 14 in 63 s"


def talk_of(*faults: dict[str, Any], counters: timedelta = MINUTE, look_again: timedelta = FIVE) -> Talk:
    talk = Talk.over(build_case_run(case_of(*faults, nodes=("gpu-001", "gpu-002", "gpu-003"))))
    talk.ports = replace(talk.ports, waits=IncidentTimeouts(counters=counters, look_again=look_again))
    return talk


async def due(talk: Talk) -> dict[str, timedelta]:
    """Return the incident's recheck timers and the time until each."""
    rows = await talk.rows()
    assert rows.report is not None
    timers = plan_timers(rows.stored, rows.report, rows.item, talk.stage.clock.now())
    return {why: at - talk.stage.clock.now() for why, at in timers.items() if why in (COUNTERS_RECHECK, FULL_RECHECK)}


async def wakes(talk: Talk, why: str, after: timedelta) -> Report:
    talk.stage.wait(after.total_seconds())
    return await talk.presses("timer", user="", why=why)


HEALTHY = "something is wrong with gpu-[001-003]"
pytestmark = pytest.mark.slow


async def test_a_report_without_a_cause_looks_again_once_and_says_that_nothing_changed() -> None:
    talk = talk_of()
    report = await talk.reports(HEALTHY)
    at = talk.stage.clock.now() + FIVE
    assert report.look_again == f"I look again at {at:%H:%M} UTC; say stop to leave it."
    assert await due(talk) == {FULL_RECHECK: FIVE}
    again = await wakes(talk, FULL_RECHECK, FIVE)
    assert again.reply.startswith("Looked again at ")
    assert again.reply.endswith("nothing has changed on 3 hosts.")
    assert {check for _, check in talk.ran} == {check.id for check in LENS.list_passive_checks()} & {check for _, check in talk.ran}
    assert await due(talk) == {}
    assert (await talk.rows()).scheduled_recheck.done == (FULL_RECHECK,)
    assert (await talk.presses("recheck")).look_again == "", "at most once an incident"


async def test_what_appeared_since_is_a_new_report() -> None:
    talk = talk_of()
    assert (await talk.reports(HEALTHY)).outcome == "no_fault"
    talk.stage.cluster.break_("G07", "gpu-002", 5, t=0)
    again = await wakes(talk, FULL_RECHECK, FIVE)
    assert again.outcome == "diagnosed"
    assert again.changed.endswith("something is new.")
    assert not again.reply
    assert (await talk.rows()).is_timer_recheck


async def test_trouble_that_comes_and_goes_has_its_counters_read_twice_first() -> None:
    talk = talk_of()
    report = await talk.reports("the IB link of gpu-[001-003] flaps now and then")
    assert report.look_again.startswith("I read the error counters again at ")
    assert await due(talk) == {COUNTERS_RECHECK: MINUTE}
    again = await wakes(talk, COUNTERS_RECHECK, MINUTE)
    assert "none rose on 3 hosts" in again.reply
    assert "I look again at " in again.reply
    assert {check for _, check in talk.ran} <= {
        check.id for check in LENS.list_passive_checks() if MIN_COUNTER_RISES.keys() & set(check.establishes)
    }
    assert await due(talk) == {FULL_RECHECK: FIVE}


async def test_a_link_that_flaps_meanwhile_is_told_with_both_readings() -> None:
    talk = talk_of({"id": "N06", "node": "gpu-002", "args": {"downs": 1}})
    report = await talk.reports("the IB link of gpu-[001-003] flaps every few minutes")
    assert not report.root_causes
    again = await wakes(talk, COUNTERS_RECHECK, MINUTE * 3)
    said = " ".join([again.headline, *(row.because for row in again.root_causes)])
    assert "rose from " in said
    assert " s" in said
    assert not again.reply


@pytest.mark.parametrize("kind", ["stop", "close", "hand_off"])
async def test_people_take_it_back(kind: Any) -> None:
    talk = talk_of()
    await talk.reports(HEALTHY)
    answer = await talk.presses(kind)
    assert await due(talk) == {}
    if kind == "stop":
        assert "I do not check again on my own." in answer.reply
    late = await wakes(talk, FULL_RECHECK, FIVE)  # it was on its way already
    assert late.reply == ""
    assert not talk.ran
    assert not (await talk.rows()).is_timer_recheck


async def test_a_question_leaves_it_due_and_a_new_report_puts_it_off() -> None:
    talk = talk_of()
    await talk.reports(HEALTHY)
    await talk.presses("status")
    assert (await due(talk))[FULL_RECHECK] <= FIVE
    talk.stage.wait(120)
    await talk.presses("recheck")
    assert await due(talk) == {FULL_RECHECK: FIVE}


async def test_a_found_cause_and_zero_seconds_wait_for_nothing() -> None:
    found = talk_of({"id": "G07", "node": "gpu-002", "gpu": 5, "t": -420})
    assert (await found.reports(HEALTHY)).outcome == "diagnosed"
    assert await due(found) == {}
    off = talk_of(counters=timedelta(), look_again=timedelta())
    assert (await off.reports("gpu-001 flaps")).look_again == ""
    assert await due(off) == {}


def test_an_incident_of_before_has_no_second_look() -> None:
    assert ScheduledRecheck.model_validate({}) == ScheduledRecheck()
