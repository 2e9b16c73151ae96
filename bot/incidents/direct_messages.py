"""Direct messages to the app: store each question before Slack is acknowledged, and show prompts, a status and a title.

Bolt's `AsyncAssistant` is not used. It would take the messages from our listener, which acknowledges only what it has
stored, and it stores in message metadata which channel people look at.
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
    """Stores questions of this process's conversations. They are no incidents, so `inbox` has keys of its own."""

    client: AsyncWebClient
    inbox: Inbox
    wakeups: LocalWakeups
    tasks: BackgroundTasks
    _refused_methods: set[str] = field(default_factory=set)

    async def store(self, origin: Origin, key: str, at: datetime, request: DirectRequest) -> None:
        """Store a question once and wake this process. Only what it asks for is stored, not its text."""

        def build_item(conversation: str) -> InboxItem:
            return InboxItem(id=key, kind="ask", incident=conversation, at=at, user=origin.user, data={"wish": request})

        received = await self.inbox.open_or_join(origin, key, build_item)
        if not received.duplicate:
            await self.wakeups.wake(received.incident)

    def greet(self, channel: str, thread_ts: str = "") -> None:
        self.tasks.spawn_task("prompts", self.suggest_prompts(channel, thread_ts))

    async def suggest_prompts(self, channel: str, thread_ts: str = "") -> None:
        """Suggest prompts. Name a thread only in an assistant view: an app's prompts with a thread are shown nowhere."""
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

    async def _decorate(self, method: str, channel: str, thread_ts: str, **arguments: object) -> None:
        if method in self._refused_methods:
            return
        thread = {"thread_ts": thread_ts} if thread_ts else {}
        try:
            await self.client.api_call(f"assistant.threads.{method}", json={"channel_id": channel, **thread, **arguments})
        except SLACK_ERRORS as error:
            is_permanent = isinstance(error, SlackApiError) and error.response["error"] in PERMANENT_ERRORS
            if is_permanent:
                self._refused_methods.add(method)
            log.info("direct.not_decorated", method=method, error=str(error)[:200], remembered=is_permanent)
