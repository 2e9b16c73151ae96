"""Lessons in Redis: changes apply to the version read or not at all, all processes see them, and accepted ones are
never evicted.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.lessons.lesson_follower import LessonFollower
from bot.lessons.lesson_observer import LessonObserver
from bot.lessons.store import LessonStore
from bot.store.keys import LESSONS_KEY
from graph.report import MatchedLesson, Report
from kb.history.index import PastIncidentIndex
from kb.history.lessons import Lesson, LessonState
from tests.support.clock import T0, SetClock
from tests.support.lessons import DEAD, ECC, OLD, a_lesson, closed


@pytest.fixture
async def redis() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


async def test_a_draft_is_kept_once_and_every_change_is_counted(redis: Redis) -> None:
    lessons = LessonStore(redis)
    assert await lessons.get_version() == 0
    assert [await lessons.add_lesson(a_lesson()) for _ in range(2)] == [True, False]
    assert await lessons.list_lessons() == [a_lesson()]
    after = await lessons.update_lesson("les-4f2a", lambda now: now.model_copy(update={"state": "accepted"}))
    assert after == await lessons.get_lesson("les-4f2a")
    assert await lessons.get_version() == 2
    assert await lessons.update_lesson("les-gone", lambda now: now) is None
    assert (await lessons.update_lesson("les-4f2a", lambda now: now), await lessons.get_version()) == (after, 2)


async def test_of_many_at_once_one_settles_it(redis: Redis) -> None:
    lessons, won = LessonStore(redis), []
    await lessons.add_lesson(a_lesson())

    async def settle(by: str, to: LessonState) -> None:
        def first(now: Lesson) -> Lesson:
            if now.state != "draft":
                raise ValueError(now.by)
            return now.model_copy(update={"state": to, "by": by})

        try:
            await lessons.update_lesson("les-4f2a", first)
            won.append(by)
        except ValueError:
            pass

    await asyncio.gather(*(settle(f"U{n}", "accepted" if n % 2 else "refused") for n in range(20)))
    lesson = await lessons.get_lesson("les-4f2a")
    assert lesson
    assert won == [lesson.by]


async def test_what_was_accepted_is_never_crowded_out(redis: Redis) -> None:
    lessons = LessonStore(redis, max_lessons=4)
    for name, state in (("a", "accepted"), ("b", "refused"), ("c", "accepted"), ("d", "draft")):
        await lessons.add_lesson(a_lesson(name, state=state))
    assert await lessons.add_lesson(a_lesson("e", state="accepted"))
    assert await lessons.add_lesson(a_lesson("f", state="accepted"))
    assert not await lessons.add_lesson(a_lesson("g"))
    assert [one.id for one in await lessons.list_lessons()] == ["a", "c", "e", "f"]


async def test_a_row_of_another_version_is_passed_over_and_stays(redis: Redis) -> None:
    await redis.hset(LESSONS_KEY, "les-new", '{"shape": "of tomorrow"}')
    lessons = LessonStore(redis)
    assert await lessons.list_lessons() == []
    assert await lessons.update_lesson("les-new", lambda now: now) is None
    assert await redis.hexists(LESSONS_KEY, "les-new")


async def test_a_closed_incident_drafts_one_lesson_however_often_it_is_told(redis: Redis) -> None:
    lessons, shown = LessonStore(redis), list[Lesson]()
    drafts = {"inc-4f2a": a_lesson()}

    async def show(lesson: Lesson) -> None:
        shown.append(lesson)

    teaching = LessonObserver(lessons, lambda state, _: drafts[state["id"]], show, SetClock())
    report = Report(item="i1", outcome="diagnosed")
    await teaching.observe_turn("inc-4f2a", {**closed(), "lifecycle": "open"}, report)
    assert (shown, await lessons.list_lessons()) == ([], [])
    await teaching.observe_turn("inc-4f2a", closed(), report)
    await lessons.update_lesson("les-4f2a", lambda now: now.model_copy(update={"title": "by a person", "edited": True}))
    drafts["inc-4f2a"] = a_lesson(label=ECC)
    await teaching.observe_turn("inc-4f2a", closed(), report)
    assert [one.title for one in shown] == [a_lesson().title, "by a person"]
    assert [one.label for one in await lessons.list_lessons()] == [DEAD]


async def test_what_one_process_accepts_another_uses_at_its_next_look_and_drops_when_it_is_retired(redis: Redis) -> None:
    here, there = LessonStore(redis), PastIncidentIndex()
    following = LessonFollower(LessonStore(redis), there, SetClock())

    async def found() -> list[str]:
        await following.catch_up()
        return [one.lesson for one in await there.find_similar("job hangs, a GPU is lost")]

    await here.add_lesson(a_lesson())
    assert await found() == []
    for state, served in (("refused", []), ("accepted", ["les-4f2a"]), ("retired", []), ("draft", [])):
        settled = a_lesson(state=state)
        await here.update_lesson("les-4f2a", lambda _, settled=settled: settled)  # type: ignore[misc]
        assert await found() == served, state


async def test_a_look_whose_index_was_away_is_made_again(redis: Redis) -> None:
    await LessonStore(redis).add_lesson(a_lesson(state="accepted"))
    history = PastIncidentIndex(url="http://127.0.0.1:9")
    following = LessonFollower(LessonStore(redis), history, SetClock())
    await history.find_similar("a GPU is lost")
    await following.catch_up()
    await following.catch_up()
    assert len(history) == 1


async def test_a_closed_incident_counts_what_it_recalled_and_shows_what_that_retires(redis: Redis) -> None:
    lessons, shown = LessonStore(redis), list[Lesson]()

    async def show(lesson: Lesson) -> None:
        shown.append(lesson)

    teaching = LessonObserver(lessons, lambda state, _: None, show, SetClock())
    await lessons.add_lesson(a_lesson(state="accepted", settled=T0.date()))
    row = MatchedLesson(lesson="les-4f2a", label=DEAD, incident="inc-4f2a", on="2026-05-03", title="it hangs", score=0.6).model_dump(
        mode="json"
    )
    report = Report(item="i1", outcome="diagnosed")

    async def closes(incident: str, label: str, **recalled: Any) -> Lesson:
        state = closed(incident, label=label)
        state["turn"] = {"recalled": [{**row, **recalled}]}
        for _ in range(2):  # a report may be told twice
            await teaching.observe_turn(incident, state, report)
        kept = await lessons.get_lesson("les-4f2a")
        assert kept
        return kept

    assert (await closes("inc-1", DEAD)).right == ("inc-1",)
    assert (await closes("inc-2", OLD, score=0.06)).wrong == (), "it was hardly alike"
    for n in range(8):
        kept = await closes(f"inc-w{n}", OLD)
    assert (kept.state, {one.state for one in shown}) == ("retired", {"retired"})
    assert len(kept.wrong) < 8


async def test_what_nothing_bears_out_is_retired_by_one_of_two_processes_and_shown(redis: Redis) -> None:
    shown, clock = list[str](), SetClock()

    async def show(lesson: Lesson) -> None:
        shown.append(f"{lesson.id} {lesson.state}")

    await LessonStore(redis).add_lesson(a_lesson(state="accepted", settled=T0.date()))
    both = [LessonFollower(LessonStore(redis), PastIncidentIndex(), clock, show) for _ in range(2)]
    for one in both:
        await one.catch_up()
    assert shown == ["les-4f2a accepted"] * 2, "what was settled lately is drawn as it stands when a process begins"
    shown.clear()
    clock.go(days=1500)
    for one in both:
        await one.catch_up()
    assert shown == ["les-4f2a retired"]
    assert [await one.history.find_similar("job hangs, a GPU is lost") for one in both] == [[], []]
