"""Approvers and channel sharing are read from Slack for each decision; one answer serves decisions within seconds."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from bot.slack.client import build_slack_client
from bot.slack.people import CACHE_SECONDS, DECISION_CACHE_SECONDS, People, SlackAnswerMissing
from bot.store.channel_sharing import ChannelSharingCache
from bot.store.keys import RedisKeys
from deploy.sandbox.slack import SlackSandbox

pytest_plugins = ("tests.support.fixtures_redis",)

GROUP, TEAM = "S0GPUAPPR", "T0RACK"
ASKED = "usergroups.users.list"
INFO, CHANNEL = "conversations.info", "C0GPUINC"


class Seconds:
    """A clock set by tests."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox() as one:
        yield one


async def test_a_hundred_decisions_in_one_moment_are_one_question(slack: SlackSandbox) -> None:
    people = People(build_slack_client(slack.bot_token, slack.api_url))
    found = await asyncio.gather(*(people.list_approvers(GROUP, TEAM) for _ in range(100)))
    assert set(found) == {frozenset({f"{TEAM}:U0PRIYA", f"{TEAM}:U0ANTON"})}
    assert slack.api.calls[ASKED] == 1


async def test_three_hundred_claims_within_a_minute_ask_as_often_as_slack_allows(slack: SlackSandbox) -> None:
    clock = Seconds()
    people = People(build_slack_client(slack.bot_token, slack.api_url), seconds=clock)
    for _ in range(300):
        people.refresh(GROUP)
        await people.list_approvers(GROUP, TEAM)
        clock.now += 0.2
    assert slack.api.calls[ASKED] <= 60 / DECISION_CACHE_SECONDS + 1
    assert slack.api.refusals == {}


async def test_who_lost_the_right_is_out_as_soon_as_an_answer_is_too_old_for_a_decision(slack: SlackSandbox) -> None:
    clock = Seconds()
    people = People(build_slack_client(slack.bot_token, slack.api_url), seconds=clock)
    await people.list_approvers(GROUP, TEAM)
    slack.workspace.groups[GROUP].users.remove("U0ANTON")
    clock.now += DECISION_CACHE_SECONDS - 1
    people.refresh(GROUP)
    assert f"{TEAM}:U0ANTON" in await people.list_approvers(GROUP, TEAM)
    clock.now += 1
    assert f"{TEAM}:U0ANTON" in await people.list_approvers(GROUP, TEAM)  # no decision depends on it
    people.refresh(GROUP)
    assert f"{TEAM}:U0ANTON" not in await people.list_approvers(GROUP, TEAM)
    assert DECISION_CACHE_SECONDS < CACHE_SECONDS


async def test_a_slack_that_does_not_say_refuses_all_who_asked_and_is_asked_again(slack: SlackSandbox) -> None:
    people = People(build_slack_client(slack.bot_token, slack.api_url, tries=0))
    slack.api.refuse[ASKED] = "internal_error"
    told = await asyncio.gather(*(people.list_members(GROUP) for _ in range(5)), return_exceptions=True)
    assert [type(one) for one in told] == [SlackAnswerMissing] * 5
    del slack.api.refuse[ASKED]
    assert await people.list_members(GROUP)


async def test_one_answer_about_a_channel_serves_processes_that_were_just_started(slack: SlackSandbox, redis: Redis) -> None:
    for _ in range(20):  # each killed once it has the answer
        people = People(build_slack_client(slack.bot_token, slack.api_url), marks=ChannelSharingCache(redis))
        assert not await people.is_shared(CHANNEL)
    assert slack.api.calls[INFO] == 1


async def test_an_answer_of_another_process_is_as_old_as_it_was_there(slack: SlackSandbox, redis: Redis) -> None:
    clock = Seconds()
    people = People(build_slack_client(slack.bot_token, slack.api_url), seconds=clock, marks=ChannelSharingCache(redis))
    assert not await people.is_shared(CHANNEL)
    key = RedisKeys().channel_sharing_key(CHANNEL)
    await redis.pexpire(key, 1000)  # 59 seconds have passed
    later = People(build_slack_client(slack.bot_token, slack.api_url), seconds=clock, marks=ChannelSharingCache(redis))
    assert not await later.is_shared(CHANNEL)
    await redis.delete(key)  # and now 60
    clock.now += 2
    assert not await later.is_shared(CHANNEL)
    assert slack.api.calls[INFO] == 2


async def test_an_answer_that_was_under_way_does_not_hide_that_a_channel_turned_shared(slack: SlackSandbox, redis: Redis) -> None:
    marks = ChannelSharingCache(redis)
    await marks.mark_shared(CHANNEL)
    await marks.save_answer(CHANNEL, shared=False)
    assert await People(build_slack_client(slack.bot_token, slack.api_url), marks=marks).is_shared(CHANNEL)
    assert slack.api.calls[INFO] == 0


@pytest.mark.parametrize("word", ["", "1", "no", "\0"])
async def test_a_word_about_a_channel_that_none_of_us_wrote_is_asked_anew(slack: SlackSandbox, redis: Redis, word: str) -> None:
    await redis.set(RedisKeys().channel_sharing_key(CHANNEL), word)
    slack.share(CHANNEL)
    assert await People(build_slack_client(slack.bot_token, slack.api_url), marks=ChannelSharingCache(redis)).is_shared(CHANNEL)
