"""A real Bolt app over a real websocket to the Slack sandbox. Tests add listeners to `bolt.app` and act through
`bolt.slack`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from deploy.sandbox.slack import SlackSandbox
from deploy.sandbox.slack.app.socket_mode import DeliveryTimeouts

EAGER = DeliveryTimeouts(ack=2.0, retries=(0.0, 0.0, 0.0), offline=5.0)  # Slack's retries without pauses


@dataclass
class Bolt:
    slack: SlackSandbox
    app: AsyncApp
    handler: AsyncSocketModeHandler
    heard: list[dict[str, Any]] = field(default_factory=list)

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [body["event"] for body in self.heard if body.get("event", {}).get("type") == kind]


@asynccontextmanager
async def bolt_bot(slack: SlackSandbox) -> AsyncIterator[Bolt]:
    """Run an app that records every body and acks unhandled ones."""
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
    app = AsyncApp(name="rackmedic", client=client, token=slack.bot_token, raise_error_for_unhandled_request=False)
    bolt = Bolt(slack, app, AsyncSocketModeHandler(app, slack.app_token))

    @app.middleware
    async def remember(body: dict[str, Any], request: Any, next: Any) -> None:  # noqa: A002
        bolt.heard.append(body | {"headers": request.headers})
        slack.workspace.journal.wake_waiters()
        await next()

    await bolt.handler.connect_async()  # type: ignore[no-untyped-call]
    await slack.connected()
    try:
        yield bolt
    finally:
        await bolt.handler.close_async()  # type: ignore[no-untyped-call]
