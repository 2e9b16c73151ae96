"""Direct messages to the app: store each question before Slack is acknowledged, and decorate the conversation.

Bolt's `AsyncAssistant` is not used: it takes messages from the listener that leaves what it cannot store
unacknowledged, and it stores in message metadata which channel people look at.
"""

from dataclasses import dataclass, field
from datetime import datetime

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.incidents.cards import direct_messages
from bot.incidents.cards.direct_messages import PROMPTS_TITLE, SUGGESTED_PROMPTS, DirectRequest
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.wakeups import LocalWakeups
from bot.slack.client import SLACK_ERRORS
from bot.tasks import BackgroundTasks
from graph.state import InboxItem, Origin

log = structlog.get_logger()
PERMANENT_ERRORS = frozenset(
    {"missing_scope", "unknown_method", "not_allowed_token_type", "method_deprecated", "deprecated_endpoint", "access_denied"}
)  # Slack answers the next call in the same way, until the app is installed anew


@dataclass
class DirectMessages:
    """One per process. A conversation is not an incident, so `inbox` has other keys."""

    client: AsyncWebClient
    inbox: Inbox
    wakeups: LocalWakeups
    tasks: BackgroundTasks
    _refused_methods: set[str] = field(default_factory=set)

    async def store(self, origin: Origin, key: str, at: datetime, wish: DirectRequest) -> None:
        """Store a question once and wake this process. Only its `wish` is stored, not the text."""

        def item(conversation: str) -> InboxItem:
            return InboxItem(id=key, kind="ask", incident=conversation, at=at, user=origin.user, data={"wish": wish})

        received = await self.inbox.open_or_join(origin, key, item)
        if not received.duplicate:
            await self.wakeups.wake(received.incident)

    def greet(self, channel: str, thread_ts: str = "") -> None:
        self.tasks.spawn_task("prompts", self.suggest_prompts(channel, thread_ts))

    async def suggest_prompts(self, channel: str, thread_ts: str = "") -> None:
        """Name the thread only with an assistant view: with a thread, Slack shows an agent's prompts nowhere."""
        await self._decorate(
            "setSuggestedPrompts",
            channel,
            thread_ts,
            title=PROMPTS_TITLE,
            prompts=direct_messages.build_prompt_payload(SUGGESTED_PROMPTS),
        )

    async def set_status(self, channel: str, thread_ts: str, status: str) -> None:
        """Show a line under the thread; Slack removes it with our next message or after two minutes."""
        await self._decorate("setStatus", channel, thread_ts, status=status)

    async def set_title(self, channel: str, thread_ts: str, title: str) -> None:
        await self._decorate("setTitle", channel, thread_ts, title=title)

    async def _decorate(self, method: str, channel: str, thread_ts: str, **what: object) -> None:
        if method in self._refused_methods:
            return
        thread = {"thread_ts": thread_ts} if thread_ts else {}
        try:
            await self.client.api_call(f"assistant.threads.{method}", json={"channel_id": channel, **thread, **what})
        except SLACK_ERRORS as error:
            code = error.response["error"] if isinstance(error, SlackApiError) else ""
            if code in PERMANENT_ERRORS:
                self._refused_methods.add(method)
            log.info("direct.not_decorated", method=method, error=str(error)[:200], remembered=code in PERMANENT_ERRORS)
