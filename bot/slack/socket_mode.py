"""Slack events over Socket Mode."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import structlog
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError

from bot.refusal import Refusal
from bot.settings import ENV_PREFIX
from bot.slack.client import SlackClient
from bot.slack.rate_limits import SlackTurnTimeout
from bot.slack.registry import SlackRegistry, build_slack_app

log = structlog.get_logger()


MAX_CONNECT_RETRIES, CONNECT_PAUSE_SECONDS = 24, 5.0  # while Slack rate-limits us: two minutes in all


async def build_app_with_retries(
    client: SlackClient, registry: SlackRegistry, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> AsyncApp:
    """Build the Bolt app, waiting while Slack rate-limits."""
    for left in range(MAX_CONNECT_RETRIES, -1, -1):
        try:
            return await build_slack_app(client, registry)
        except (SlackTurnTimeout, SlackApiError) as error:
            crowded = isinstance(error, SlackTurnTimeout) or error.response["error"] == "ratelimited"
            if not crowded or not left:
                raise
            log.warning("slack.waiting", why=str(error)[:200])
            await pause(CONNECT_PAUSE_SECONDS)
    raise AssertionError("the last try ends it")


async def build_app_or_refuse(client: SlackClient, registry: SlackRegistry) -> AsyncApp:
    """Build the Bolt app. Raises Refusal naming the setting to fix."""
    try:
        return await build_app_with_retries(client, registry)
    except SlackApiError as error:
        raise Refusal(
            f"{ENV_PREFIX}SLACK_BOT_TOKEN: Slack answers {error.response['error']}; reinstall the app and copy its bot token"
        ) from error
    except (OSError, SlackTurnTimeout) as error:
        raise Refusal(f"{ENV_PREFIX}SLACK_API_URL: Slack cannot be reached: {error}") from error


class SocketConnection(Protocol):
    async def connect_async(self) -> None: ...


async def connect_with_retries(handler: SocketConnection, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Connect, waiting while Slack rate-limits. Raises Refusal."""
    for left in range(MAX_CONNECT_RETRIES, -1, -1):
        try:
            await handler.connect_async()
        except SlackTurnTimeout as error:
            if not left:
                raise Refusal(f"{ENV_PREFIX}SLACK_API_URL: Slack cannot be reached: {error}") from error
            log.warning("slack.waiting", why=str(error)[:200])
            await pause(CONNECT_PAUSE_SECONDS)
        else:
            return


@contextlib.asynccontextmanager
async def run_socket_mode(client: SlackClient, registry: SlackRegistry, app_token: str) -> AsyncIterator[None]:
    """Hold a connection. Raises Refusal."""
    handler = AsyncSocketModeHandler(await build_app_or_refuse(client, registry), app_token)
    await connect_with_retries(handler)
    try:
        yield
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]
