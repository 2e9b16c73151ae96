"""Who may approve is asked of Slack for a decision, and one answer serves all decisions of some seconds."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bot.slack.client import slack_client
from bot.slack.people import FRESH, REMEMBER, CannotTell, People
from deploy.sandbox.slack import SlackSandbox

GROUP, TEAM = "S0GPUAPPR", "T0RACK"
ASKED = "usergroups.users.list"


class Seconds:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox() as one:
        yield one


async def test_a_hundred_decisions_in_one_moment_are_one_question(slack: SlackSandbox) -> None:
    people = People(slack_client(slack.bot_token, slack.api_url))
    found = await asyncio.gather(*(people.approvers(GROUP, TEAM) for _ in range(100)))
    assert set(found) == {frozenset({f"{TEAM}:U0PRIYA", f"{TEAM}:U0ANTON"})}
    assert slack.api.calls[ASKED] == 1


async def test_three_hundred_claims_within_a_minute_ask_as_often_as_slack_allows(slack: SlackSandbox) -> None:
    clock = Seconds()
    people = People(slack_client(slack.bot_token, slack.api_url), seconds=clock)
    for _ in range(300):
        people.refresh(GROUP)
        await people.approvers(GROUP, TEAM)
        clock.now += 0.2
    assert slack.api.calls[ASKED] <= 60 / FRESH + 1
    assert slack.api.refusals == {}


async def test_who_lost_the_right_is_out_as_soon_as_an_answer_is_too_old_for_a_decision(slack: SlackSandbox) -> None:
    clock = Seconds()
    people = People(slack_client(slack.bot_token, slack.api_url), seconds=clock)
    await people.approvers(GROUP, TEAM)
    slack.ws.groups[GROUP].users.remove("U0ANTON")
    clock.now += FRESH - 1
    people.refresh(GROUP)
    assert f"{TEAM}:U0ANTON" in await people.approvers(GROUP, TEAM)
    clock.now += 1
    assert f"{TEAM}:U0ANTON" in await people.approvers(GROUP, TEAM)  # nothing is decided on it
    people.refresh(GROUP)
    assert f"{TEAM}:U0ANTON" not in await people.approvers(GROUP, TEAM)
    assert FRESH < REMEMBER


async def test_a_slack_that_does_not_say_refuses_all_who_asked_and_is_asked_again(slack: SlackSandbox) -> None:
    people = People(slack_client(slack.bot_token, slack.api_url, tries=0))
    slack.api.refuse[ASKED] = "internal_error"
    told = await asyncio.gather(*(people.members(GROUP) for _ in range(5)), return_exceptions=True)
    assert [type(one) for one in told] == [CannotTell] * 5
    del slack.api.refuse[ASKED]
    assert await people.members(GROUP)
