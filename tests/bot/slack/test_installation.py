"""Checks of the Slack app's installation and of what prevents the connection."""

import pytest
from slack_sdk.errors import SlackApiError

from bot.refusal import Refusal
from bot.slack.client import build_slack_client
from bot.slack.installation import Installation, NotInstalled, SlackUnreachable, check_installation
from bot.slack.manifest import SCOPES, build_manifest
from bot.slack.rate_limits import SlackTurnTimeout
from bot.slack.socket_mode import MAX_CONNECT_RETRIES, build_app_with_retries, connect_with_retries, run_socket_mode
from deploy.sandbox.slack import SlackSandbox
from tests.support.fakes_bot import slack_side

NOWHERE = "http://127.0.0.1:1/api/"


async def test_an_app_made_from_our_manifest_lacks_nothing() -> None:
    async with SlackSandbox(manifest=build_manifest()) as slack:
        found = await check_installation(slack.bot_token, slack.api_url)
    assert found == Installation("rackmedic", "Rackwise Cloud")


async def test_scopes_that_were_not_granted_are_named() -> None:
    older = build_manifest()
    older["oauth_config"]["scopes"]["bot"] = sorted({*SCOPES} - {"files:read", "usergroups:read"})
    async with SlackSandbox(manifest=older) as slack:
        found = await check_installation(slack.bot_token, slack.api_url)
    assert found.lacking == ("files:read", "usergroups:read")


async def test_a_token_that_slack_refuses_is_not_slack_being_away() -> None:
    async with SlackSandbox() as slack:
        with pytest.raises(NotInstalled, match=r"^invalid_auth$"):
            await check_installation("xoxb-of-another-app", slack.api_url)
    with pytest.raises(SlackUnreachable, match=f"^{NOWHERE}: "):
        await check_installation("xoxb-1", NOWHERE)


async def test_what_keeps_us_from_listening_names_the_setting_to_mend() -> None:
    async with slack_side() as bot:
        strange = build_slack_client("xoxb-of-another-app", bot.slack.api_url)
        nowhere = build_slack_client("xoxb-1", NOWHERE)
        with pytest.raises(Refusal, match="SLACK_BOT_TOKEN: Slack answers invalid_auth"):
            async with run_socket_mode(strange, bot.registry, bot.slack.app_token):
                pass
        with pytest.raises(Refusal, match="SLACK_API_URL: Slack cannot be reached"):
            async with run_socket_mode(nowhere, bot.registry, bot.slack.app_token):
                pass


async def test_a_front_end_that_starts_while_slack_has_no_turn_for_it_waits() -> None:
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    async with slack_side() as bot:
        bot.slack.rates.fail_next("auth.test", 2, 1)
        once = build_slack_client(bot.slack.bot_token, bot.slack.api_url, tries=0)
        assert await build_app_with_retries(once, bot.registry, pause=pause)
        assert len(paused) == 2
        bot.slack.api.refuse["auth.test"] = "account_inactive"
        with pytest.raises(SlackApiError, match="account_inactive"):
            await build_app_with_retries(once, bot.registry, pause=pause)
        assert len(paused) == 2


class CrowdedDoor:
    """Refuses the first connections with a rate limit."""

    def __init__(self, times: int) -> None:
        self.times, self.tried = times, 0

    async def connect_async(self) -> None:
        self.tried += 1
        if self.tried <= self.times:
            raise SlackTurnTimeout


async def test_a_front_end_waits_for_its_connection_too_while_slack_has_no_turn_for_it() -> None:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    door = CrowdedDoor(3)
    await connect_with_retries(door, pause=pause)
    assert (door.tried, len(waits)) == (4, 3)
    with pytest.raises(Refusal, match="RACKMEDIC_SLACK_API_URL: Slack cannot be reached"):
        await connect_with_retries(CrowdedDoor(MAX_CONNECT_RETRIES + 1), pause=pause)
