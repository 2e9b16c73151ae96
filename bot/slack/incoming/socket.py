"""Slack's events reach us over Socket Mode, from here until the block is left."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import structlog
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError

from bot.refusal import Refusal
from bot.settings import PREFIX
from bot.slack.context import Surface
from bot.slack.incoming.listeners import Door, slack_app
from bot.slack.pace import SlackCrowded

log = structlog.get_logger()


TRIES, PAUSE = 24, 5.0
"""How often we ask to be let in while Slack has no turn for us, and how many seconds apart."""


async def let_in(surface: Surface, door: Door | None = None, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> AsyncApp:
    """Slack refuses everybody for a minute now and then: a front end that starts then waits."""
    for left in range(TRIES, -1, -1):
        try:
            return await slack_app(surface, door)
        except (SlackCrowded, SlackApiError) as why:
            crowded = isinstance(why, SlackCrowded) or why.response["error"] == "ratelimited"
            if not crowded or not left:
                raise
            log.warning("slack.waiting", why=str(why)[:200])
            await pause(PAUSE)
    raise AssertionError("the last try ends it")


async def ready_app(surface: Surface, door: Door | None = None) -> AsyncApp:
    """The app, let in. Raises Refusal, naming the setting to mend, where Slack does not let us in or cannot be reached."""
    try:
        return await let_in(surface, door)
    except SlackApiError as why:
        raise Refusal(f"{PREFIX}SLACK_BOT_TOKEN: Slack answers {why.response['error']}; reinstall the app and copy its bot token") from why
    except (OSError, SlackCrowded) as why:
        raise Refusal(f"{PREFIX}SLACK_API_URL: Slack cannot be reached: {why}") from why


class Connects(Protocol):
    """As slack_bolt's handler does."""

    async def connect_async(self) -> None: ...


async def connected(handler: Connects, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Connect; where Slack has no turn for that call either, as patiently as `let_in`. Raises Refusal when it had none for minutes."""
    for left in range(TRIES, -1, -1):
        try:
            await handler.connect_async()
        except SlackCrowded as why:
            if not left:
                raise Refusal(f"{PREFIX}SLACK_API_URL: Slack cannot be reached: {why}") from why
            log.warning("slack.waiting", why=str(why)[:200])
            await pause(PAUSE)
        else:
            return


@contextlib.asynccontextmanager
async def listening(surface: Surface, app_token: str, door: Door | None = None) -> AsyncIterator[None]:
    """Connected. Raises Refusal as `ready_app` does."""
    handler = AsyncSocketModeHandler(await ready_app(surface, door), app_token)
    await connected(handler)
    try:
        yield
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]
