"""The pulse of a thread: who had the last word, whether our question is open, and how much was answered lately, whoever notes it when."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.desk.inbox import Inbox
from bot.desk.pulse import MUTED, Before, BoardWithPulse, May, Pulse
from bot.desk.sweeper import timers_after
from bot.store.closed import ClosedIncidents
from graph.report import Report
from graph.state import Incident, ItemKind
from tests.support.clock import SetClock
from tests.support.fakes_desk import BoardOfList, item, origin

pytest_plugins = ("tests.support.fixtures_redis",)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def pulse(redis: Redis, clock: SetClock) -> Pulse:
    return Pulse(redis, clock, most=4)


def at(seconds: int) -> str:
    return f"{1_700_000_000 + seconds}.000100"


async def test_of_a_thread_that_nobody_noted_nothing_is_known(pulse: Pulse) -> None:
    assert await pulse.heard("i1", at(0), "U0OLGA") == Before()


async def test_who_spoke_last_is_told_from_whoever_speaks_now(pulse: Pulse) -> None:
    await pulse.spoke("i1", at(0))
    said = [await pulse.heard("i1", at(n), user) for n, user in enumerate(("U0OLGA", "U0OLGA", "U0PRIYA", "U0OLGA"), 1)]
    assert [before.follows for before in said] == ["us", "self", "person", "person"]


async def test_our_question_is_open_to_one_person_until_another_speaks(pulse: Pulse) -> None:
    await pulse.spoke("i1", at(0), asked=True)
    said = [await pulse.heard("i1", at(n), user) for n, user in enumerate(("U0OLGA", "U0OLGA", "U0PRIYA", "U0OLGA", "U0PRIYA"), 1)]
    assert [before.asked for before in said] == [True, True, False, False, False]
    await pulse.spoke("i1", at(9), asked=True)
    assert (await pulse.heard("i1", at(10), "U0PRIYA")).asked


async def test_a_question_between_people_is_known_as_one(pulse: Pulse) -> None:
    await pulse.heard("i1", at(1), "U0OLGA", question=True)
    assert (await pulse.heard("i1", at(2), "U0PRIYA")).after_question
    assert not (await pulse.heard("i1", at(3), "U0OLGA")).after_question


async def test_both_events_of_a_mention_and_what_slack_sends_again_read_the_same(pulse: Pulse) -> None:
    await pulse.spoke("i1", at(0), asked=True)
    first, twin = await asyncio.gather(pulse.heard("i1", at(1), "U0OLGA"), pulse.heard("i1", at(1), "U0OLGA"))
    assert first == twin == await pulse.heard("i1", at(1), "U0OLGA") == Before("us", asked=True, after_question=True)


async def test_whoever_notes_first_the_later_word_is_the_last(pulse: Pulse) -> None:
    await pulse.heard("i1", at(5), "U0OLGA")
    await pulse.spoke("i1", at(3), asked=True)
    await pulse.heard("i1", at(2), "U0PRIYA")
    assert await pulse.heard("i1", at(6), "U0OLGA") == Before("self", others=("U0PRIYA",))


async def test_a_word_that_ours_overtook_still_tells_that_people_spoke(pulse: Pulse) -> None:
    await pulse.spoke("i1", at(5))
    assert not await pulse.people("i1")
    await pulse.heard("i1", at(1), "U0PRIYA")
    assert await pulse.people("i1")
    assert (await pulse.heard("i1", at(6), "U0OLGA")).follows == "us"


async def test_who_spoke_lately_is_known_and_never_more_than_a_few(pulse: Pulse) -> None:
    for n in range(20):
        await pulse.heard("i1", at(n), f"U{n}")
    assert (await pulse.heard("i1", at(21), "U18")).others == tuple(f"U{n}" for n in (19, 17, 16, 15, 14, 13, 12))


async def test_answers_are_counted_and_one_too_many_is_said_once(pulse: Pulse, clock: SetClock) -> None:
    async def asks(n: int) -> May:
        return await pulse.may("i1", at(n))

    assert [await asks(n) for n in range(7)] == [May.GO] * 4 + [May.TRIP, May.SILENT, May.SILENT]
    clock.go(seconds=80)  # one has come back: not enough to begin anew
    assert await asks(8) is May.SILENT
    clock.go(seconds=80)
    assert [await asks(n) for n in (9, 10, 11)] == [May.GO, May.GO, May.TRIP]
    assert await pulse.may("i2", at(12)) is May.GO


async def test_the_first_mention_of_a_muted_thread_is_told_so_once_each_time_it_is_muted(pulse: Pulse, clock: SetClock) -> None:
    async def asks(n: int, *, mention: bool) -> May:
        return await pulse.may("i1", at(n), mention=mention)

    for n in range(4):
        await asks(n, mention=False)
    assert [await asks(n, mention=n > 5) for n in (4, 5, 6, 6, 7, 8)] == [May.TRIP, May.SILENT, May.TRIP, May.TRIP, May.SILENT, May.SILENT]
    clock.go(seconds=300)
    for n in range(10, 14):
        assert await asks(n, mention=True) is May.GO
    assert [await asks(n, mention=True) for n in (14, 15)] == [May.TRIP, May.SILENT]
    clock.go(seconds=MUTED.total_seconds())
    assert await asks(16, mention=False) is May.GO


async def test_one_person_alone_is_never_passed_over_in_silence(pulse: Pulse) -> None:
    said = [await pulse.may("i1", at(n), alone=True) for n in range(8)]
    assert said == [May.GO] * 4 + [May.TRIP] * 4
    assert await pulse.may("i1", at(7)) is May.TRIP  # the same message, delivered again
    assert await pulse.may("i1", at(9)) is May.SILENT  # by now somebody else is there
    assert await pulse.may("i1", at(10), always=True, alone=True) is May.GO


async def test_what_must_get_through_does_and_the_same_message_counts_once(pulse: Pulse) -> None:
    assert [await pulse.may("i1", at(0)) for _ in range(9)] == [May.GO] * 9
    for n in range(1, 6):
        await pulse.may("i1", at(n))
    assert await pulse.may("i1", at(7), always=True) is May.GO
    assert await pulse.may("i1", at(8)) is May.SILENT


async def test_until_when_to_be_quiet_is_what_the_incident_said_last(pulse: Pulse, clock: SetClock) -> None:
    until = clock.now() + timedelta(hours=2)
    await pulse.spoke("i1", at(0), quiet_until=until)
    assert (await pulse.heard("i1", at(1), "U0OLGA")).quiet_until == until
    await pulse.spoke("i1", "")
    assert await pulse.heard("i1", at(2), "U0OLGA") == Before("self")


async def test_a_closed_incidents_pulse_goes_with_it_and_comes_back_to_life_with_it(redis: Redis, clock: SetClock, pulse: Pulse) -> None:
    inbox = Inbox(redis, clock)
    incident = (await inbox.open(origin(), "a", lambda i: item(i, "a"))).incident
    key = f"rm:incident:{{{incident}}}:pulse"
    await redis.hset(f"rm:incident:{{{incident}}}", "lifecycle", "closed")
    await redis.expire(f"rm:incident:{{{incident}}}", 600)
    assert (await pulse.heard(incident, at(0), "U0OLGA")).lifecycle == "closed"
    assert 0 < await redis.ttl(key) <= 600
    await inbox.enqueue(item(incident, "b"), "b")
    assert await redis.ttl(key) == -1
    assert key in ClosedIncidents(redis)._keys(incident)


@pytest.mark.parametrize(
    ("kind", "report", "before"),
    [
        ("mention", {"questions": ("Which rack?",)}, Before("us", asked=True, after_question=True)),
        ("mention", {"headline": "GPU 5 fell off"}, Before("us")),
        ("ask", {"questions": ("Which rack?",), "reply": "gpu-002 is well"}, Before("us")),
        ("ask", {}, Before()),
        ("action_result", {}, Before()),
    ],
)
async def test_what_the_board_says_is_the_last_word_unless_it_says_nothing(
    pulse: Pulse, clock: SetClock, kind: ItemKind, report: dict[str, Any], before: Before
) -> None:
    board = BoardWithPulse(BoardOfList(), pulse, clock)
    state: Incident = {"item": item("i1", "a", kind).model_dump(mode="json")}
    await board.report("i1", state, Report(item="a", outcome="abstained", **report))
    assert await pulse.heard("i1", f"{clock.stamp() + 60:.6f}", "U0OLGA") == before


async def test_a_clock_behind_slacks_does_not_hide_our_question(pulse: Pulse, clock: SetClock) -> None:
    asked = item("i1", "a").model_copy(update={"at": clock.now() + timedelta(seconds=30)})
    await pulse.heard("i1", f"{asked.at.timestamp():.6f}", "U0OLGA")
    report = Report(item="a", outcome="abstained", questions=("Which rack?",))
    await BoardWithPulse(BoardOfList(), pulse, clock).report("i1", {"item": asked.model_dump(mode="json")}, report)
    assert (await pulse.heard("i1", f"{asked.at.timestamp() + 5:.6f}", "U0OLGA")).asked


def test_nobody_is_reminded_and_nothing_ends_while_people_want_quiet(clock: SetClock) -> None:
    until = clock.now() + timedelta(days=5)
    report = Report(item="a", outcome="abstained", questions=("Which rack?",))
    state: Incident = {"lifecycle": "waiting", "quiet_until": until.isoformat()}
    assert timers_after(state, report, item("i1", "a"), clock.now()) == {"remind": until, "auto_close": until}
