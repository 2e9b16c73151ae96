"""Kill -9 before and after each observer of a turn, on a real Redis and the Slack sandbox: each effect exists once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.metrics import IncidentMetricsStore
from bot.incidents.dispatch.thread_activity import ThreadActivity
from bot.lessons.store import LessonStore
from bot.store.closed_incidents import ClosedIncidentIndex
from bot.store.keys import RedisKeys
from deploy.sandbox.slack import SlackSandbox
from graph.closed_incidents import ClosedIncidentQuery
from graph.state import Origin, TenantThread
from tests.stories.test_bot_crash import KILLED, Zygote, run_zygote
from tests.support.clock import WallClock
from tests.support.fakes_bot import ACME, OPS, TEAM
from tests.support.fakes_desk import item
from tests.support.lessons import a_lesson
from tests.support.real_observers import OBSERVERS, RECALLED
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
# What the turn posts: the status message with the report, the ticket with its evidence, and a card of each other feature.
POSTED = {
    OPS: {"rackmedic_report": 1, "rackmedic_ticket": 1, "rackmedic_provider": 1, "rackmedic_lesson": 1, "": 1},
    ACME: {"rackmedic_customer": 1, "rackmedic_customer_moved": 1},
}


@pytest.fixture(scope="module")
def zygote(redis_server: RealServer) -> Iterator[Zygote]:
    yield from run_zygote(redis_server.url)


@dataclass
class Site:
    slack: SlackSandbox
    redis: Redis
    zygote: Zygote
    incident: str
    threads: dict[str, str]

    async def work(self, die_at: str = "") -> int:
        job = {"die_at": die_at, "slack": [self.slack.bot_token, self.slack.api_url]}
        [code] = await asyncio.to_thread(self.zygote.run, job)
        return code

    def posted(self, channel: str) -> dict[str, int]:
        rows: Any = self.slack.thread(channel, self.threads[channel])
        return dict(Counter((row.get("metadata") or {}).get("event_type", "") for row in rows if row.get("bot_id")))


@pytest.fixture
async def site(zygote: Zygote, real_redis: Redis) -> AsyncIterator[Site]:
    async with SlackSandbox() as slack:
        threads = {channel: await slack.say("olga", channel, "job 4711 hangs on gpu-[017-018]") for channel in (OPS, ACME)}
        theirs = TenantThread(team=TEAM, channel=ACME, thread_ts=threads[ACME], user="U0CARLA")
        ours = Origin(kind="slack", team=TEAM, channel=OPS, thread_ts=threads[OPS], user="U0OLGA", tenant="acme", customer=theirs)
        incident = (await Inbox(real_redis, WallClock()).open_or_join(ours, "a", lambda i: item(i, "a"))).incident
        await LessonStore(real_redis).add_lesson(a_lesson(RECALLED.lesson, state="accepted", incident="inc-0"))
        yield Site(slack, real_redis, zygote, incident, threads)


async def assert_each_effect_once(site: Site) -> None:
    redis, incident, clock = site.redis, site.incident, WallClock()
    assert {channel: site.posted(channel) for channel in POSTED} == POSTED
    metrics = IncidentMetricsStore(redis)
    assert [(row.outcome, row.closed) for row in (await metrics.list_since(clock.now() - timedelta(days=1)))[0]] == [("diagnosed", True)]
    index = ClosedIncidentIndex(redis, lambda reader, other: "whole", timedelta(days=1))
    query = ClosedIncidentQuery("inc-now", Origin(kind="slack"), ("gpu-017",), ("gpu-017",), (), ())
    assert [row.incident for row in (await index.find_incidents(query)).found] == [incident]
    known, drafted = sorted(await LessonStore(redis).list_lessons(), key=lambda lesson: lesson.incident != "inc-0")
    assert (known.right, known.wrong, known.state) == ((incident,), (), "accepted")
    assert (drafted.incident, drafted.state) == (incident, "draft")
    assert await redis.zscore(RedisKeys().actions_due, incident) is not None
    said = await ThreadActivity(redis, clock).record_message(incident, f"{clock.now().timestamp() + 60:.6f}", "U0OLGA")
    assert said.follows == "us"
    assert await Inbox(redis, clock).list_waiting(incident) == []


@pytest.mark.parametrize("edge", ["begin", "end"])
@pytest.mark.parametrize("observer", OBSERVERS)
async def test_a_process_killed_before_or_after_an_observer_leaves_each_effect_once(site: Site, observer: str, edge: str) -> None:
    assert await site.work(f"{observer}:{edge}") == KILLED
    assert await site.work() == 0
    await assert_each_effect_once(site)
    calls: Any = await site.redis.zrange("ran", 0, -1, withscores=True)
    assert {name.decode(): int(count) for name, count in calls} == {name: 1 + (name == observer) for name in OBSERVERS}


async def test_a_process_killed_in_every_observer_in_turn_leaves_each_effect_once(site: Site) -> None:
    for observer in OBSERVERS:
        assert await site.work(f"{observer}:end") == KILLED
    assert await site.work() == 0
    await assert_each_effect_once(site)
