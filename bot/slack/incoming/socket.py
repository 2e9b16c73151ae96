"""Slack's events reach us over Socket Mode, from here until the block is left."""

import contextlib
from collections.abc import AsyncIterator

from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_sdk.errors import SlackApiError

from bot.refusal import Refusal
from bot.settings import PREFIX
from bot.slack.context import Surface
from bot.slack.incoming.listeners import Door, slack_app


@contextlib.asynccontextmanager
async def listening(surface: Surface, app_token: str, door: Door | None = None) -> AsyncIterator[None]:
    """Connected. Raises Refusal, naming the setting to mend, where Slack does not let us in or cannot be reached."""
    try:
        app = await slack_app(surface, door)
    except SlackApiError as why:
        raise Refusal(f"{PREFIX}SLACK_BOT_TOKEN: Slack answers {why.response['error']}; reinstall the app and copy its bot token") from why
    except OSError as why:
        raise Refusal(f"{PREFIX}SLACK_API_URL: Slack cannot be reached: {why}") from why
    handler = AsyncSocketModeHandler(app, app_token)
    await handler.connect_async()  # type: ignore[no-untyped-call]  # slack_bolt leaves it untyped
    try:
        yield
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]
