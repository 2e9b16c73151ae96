"""Thread activity: who wrote last, whether our question is open, and the rate of answers, in any order of recording."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.sweeper import plan_timers
from bot.incidents.dispatch.thread_activity import MAX_MUTE_DURATION, AnswerPermit, PreviousActivity, ThreadActivity
from bot.store.closed_incidents import ClosedIncidentStore
from graph.report import Report
from graph.state import InboxItemKind, IncidentState
from tests.support.clock import SetClock
from tests.support.fakes_desk import item, origin

pytest_plugins = ("tests.support.fixtures_redis",)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def pulse(redis: Redis, clock: SetClock) -> ThreadActivity:
    return ThreadActivity(redis, clock, max_answers=4)


def at(seconds: int) -> str:
    return f"{1_700_000_000 + seconds}.000100"


async def test_an_unrecorded_thread_is_unknown(pulse: ThreadActivity) -> None:
    assert await pulse.record_message("i1", at(0), "U0OLGA") == PreviousActivity()


async def test_the_last_author_is_compared_with_the_present_one(pulse: ThreadActivity) -> None:
    await pulse.record_reply("i1", at(0))
    said = [await pulse.record_message("i1", at(n), user) for n, user in enumerate(("U0OLGA", "U0OLGA", "U0PRIYA", "U0OLGA"), 1)]
    assert [before.follows for before in said] == ["us", "self", "person", "person"]


async def test_our_question_is_open_to_one_person_until_another_speaks(pulse: ThreadActivity) -> None:
    await pulse.record_reply("i1", at(0), asked=True)
    said = [await pulse.record_message("i1", at(n), user) for n, user in enumerate(("U0OLGA", "U0OLGA", "U0PRIYA", "U0OLGA", "U0PRIYA"), 1)]
    assert [before.asked for before in said] == [True, True, False, False, False]
    await pulse.record_reply("i1", at(9), asked=True)
    assert (await pulse.record_message("i1", at(10), "U0PRIYA")).asked


async def test_a_question_between_people_is_known_as_one(pulse: ThreadActivity) -> None:
    await pulse.record_message("i1", at(1), "U0OLGA", question=True)
    assert (await pulse.record_message("i1", at(2), "U0PRIYA")).after_question
    assert not (await pulse.record_message("i1", at(3), "U0OLGA")).after_question


async def test_both_events_of_a_mention_and_what_slack_sends_again_read_the_same(pulse: ThreadActivity) -> None:
    await pulse.record_reply("i1", at(0), asked=True)
    first, twin = await asyncio.gather(pulse.record_message("i1", at(1), "U0OLGA"), pulse.record_message("i1", at(1), "U0OLGA"))
    assert first == twin == await pulse.record_message("i1", at(1), "U0OLGA") == PreviousActivity("us", asked=True, after_question=True)


async def test_the_later_message_is_the_last_in_any_order_of_recording(pulse: ThreadActivity) -> None:
    await pulse.record_message("i1", at(5), "U0OLGA")
    await pulse.record_reply("i1", at(3), asked=True)
    await pulse.record_message("i1", at(2), "U0PRIYA")
    assert await pulse.record_message("i1", at(6), "U0OLGA") == PreviousActivity("self", others=("U0PRIYA",))


async def test_a_word_that_ours_overtook_still_tells_that_people_spoke(pulse: ThreadActivity) -> None:
    await pulse.record_reply("i1", at(5))
    assert not await pulse.has_human_messages("i1")
    await pulse.record_message("i1", at(1), "U0PRIYA")
    assert await pulse.has_human_messages("i1")
    assert (await pulse.record_message("i1", at(6), "U0OLGA")).follows == "us"


async def test_who_spoke_lately_is_known_and_never_more_than_a_few(pulse: ThreadActivity) -> None:
    for n in range(20):
        await pulse.record_message("i1", at(n), f"U{n}")
    assert (await pulse.record_message("i1", at(21), "U18")).others == tuple(f"U{n}" for n in (19, 17, 16, 15, 14, 13, 12))


async def test_answers_are_counted_and_one_too_many_is_said_once(pulse: ThreadActivity, clock: SetClock) -> None:
    async def asks(n: int) -> AnswerPermit:
        return await pulse.admit_answer("i1", at(n))

    assert [await asks(n) for n in range(7)] == [AnswerPermit.GO] * 4 + [AnswerPermit.TRIP, AnswerPermit.SILENT, AnswerPermit.SILENT]
    clock.go(seconds=80)  # one permit has returned, which is not enough to start again
    assert await asks(8) is AnswerPermit.SILENT
    clock.go(seconds=80)
    assert [await asks(n) for n in (9, 10, 11)] == [AnswerPermit.GO, AnswerPermit.GO, AnswerPermit.TRIP]
    assert await pulse.admit_answer("i2", at(12)) is AnswerPermit.GO


async def test_the_first_mention_of_a_muted_thread_is_told_so_once_each_time_it_is_muted(pulse: ThreadActivity, clock: SetClock) -> None:
    async def asks(n: int, *, mention: bool) -> AnswerPermit:
        return await pulse.admit_answer("i1", at(n), mention=mention)

    for n in range(4):
        await asks(n, mention=False)
    assert [await asks(n, mention=n > 5) for n in (4, 5, 6, 6, 7, 8)] == [
        AnswerPermit.TRIP,
        AnswerPermit.SILENT,
        AnswerPermit.TRIP,
        AnswerPermit.TRIP,
        AnswerPermit.SILENT,
        AnswerPermit.SILENT,
    ]
    clock.go(seconds=300)
    for n in range(10, 14):
        assert await asks(n, mention=True) is AnswerPermit.GO
    assert [await asks(n, mention=True) for n in (14, 15)] == [AnswerPermit.TRIP, AnswerPermit.SILENT]
    clock.go(seconds=MAX_MUTE_DURATION.total_seconds())
    assert await asks(16, mention=False) is AnswerPermit.GO


async def test_one_person_alone_is_never_passed_over_in_silence(pulse: ThreadActivity) -> None:
    said = [await pulse.admit_answer("i1", at(n), alone=True) for n in range(8)]
    assert said == [AnswerPermit.GO] * 4 + [AnswerPermit.TRIP] * 4
    assert await pulse.admit_answer("i1", at(7)) is AnswerPermit.TRIP  # the same message, delivered again
    assert await pulse.admit_answer("i1", at(9)) is AnswerPermit.SILENT  # another person has joined
    assert await pulse.admit_answer("i1", at(10), always=True, alone=True) is AnswerPermit.GO


async def test_what_must_get_through_does_and_the_same_message_counts_once(pulse: ThreadActivity) -> None:
    assert [await pulse.admit_answer("i1", at(0)) for _ in range(9)] == [AnswerPermit.GO] * 9
    for n in range(1, 6):
        await pulse.admit_answer("i1", at(n))
    assert await pulse.admit_answer("i1", at(7), always=True) is AnswerPermit.GO
    assert await pulse.admit_answer("i1", at(8)) is AnswerPermit.SILENT


async def test_until_when_to_be_quiet_is_what_the_incident_said_last(pulse: ThreadActivity, clock: SetClock) -> None:
    until = clock.now() + timedelta(hours=2)
    await pulse.record_reply("i1", at(0), quiet_until=until)
    assert (await pulse.record_message("i1", at(1), "U0OLGA")).quiet_until == until
    await pulse.record_reply("i1", "")
    assert await pulse.record_message("i1", at(2), "U0OLGA") == PreviousActivity("self")


async def test_a_closed_incidents_pulse_goes_with_it_and_comes_back_to_life_with_it(
    redis: Redis, clock: SetClock, pulse: ThreadActivity
) -> None:
    inbox = Inbox(redis, clock)
    incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
    key = f"rm:incident:{{{incident}}}:pulse"
    await redis.hset(f"rm:incident:{{{incident}}}", "lifecycle", "closed")
    await redis.expire(f"rm:incident:{{{incident}}}", 600)
    assert (await pulse.record_message(incident, at(0), "U0OLGA")).lifecycle == "closed"
    assert 0 < await redis.ttl(key) <= 600
    await inbox.enqueue(item(incident, "b"), "b")
    assert await redis.ttl(key) == -1
    assert key in ClosedIncidentStore(redis)._list_incident_keys(incident)


@pytest.mark.parametrize(
    ("kind", "report", "before"),
    [
        ("mention", {"questions": ("Which rack?",)}, PreviousActivity("us", asked=True, after_question=True)),
        ("mention", {"headline": "GPU 5 fell off"}, PreviousActivity("us")),
        ("ask", {"questions": ("Which rack?",), "reply": "gpu-002 is well"}, PreviousActivity("us")),
        ("ask", {}, PreviousActivity()),
        ("action_result", {}, PreviousActivity()),
    ],
)
async def test_what_the_board_says_is_the_last_word_unless_it_says_nothing(
    pulse: ThreadActivity, clock: SetClock, kind: InboxItemKind, report: dict[str, Any], before: PreviousActivity
) -> None:
    state: IncidentState = {"item": item("i1", "a", kind).model_dump(mode="json")}
    await pulse.record_report("i1", state, Report(item="a", outcome="abstained", **report))
    assert await pulse.record_message("i1", f"{clock.stamp() + 60:.6f}", "U0OLGA") == before


async def test_a_clock_behind_slacks_does_not_hide_our_question(pulse: ThreadActivity, clock: SetClock) -> None:
    asked = item("i1", "a").model_copy(update={"at": clock.now() + timedelta(seconds=30)})
    await pulse.record_message("i1", f"{asked.at.timestamp():.6f}", "U0OLGA")
    report = Report(item="a", outcome="abstained", questions=("Which rack?",))
    await pulse.record_report("i1", {"item": asked.model_dump(mode="json")}, report)
    assert (await pulse.record_message("i1", f"{asked.at.timestamp() + 5:.6f}", "U0OLGA")).asked


def test_a_paused_incident_sends_no_reminder_and_does_not_close(clock: SetClock) -> None:
    until = clock.now() + timedelta(days=5)
    report = Report(item="a", outcome="abstained", questions=("Which rack?",))
    state: IncidentState = {"lifecycle": "waiting", "quiet_until": until.isoformat()}
    assert plan_timers(state, report, item("i1", "a"), clock.now()) == {"remind": until, "auto_close": until}
