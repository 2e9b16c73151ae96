"""Post answers to direct messages, each once: after a crash the thread is searched for the answer first."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog
from redis.exceptions import RedisError

from bot.cards.blocks import Card
from bot.incidents.cards import notes
from bot.incidents.cards.direct_messages import READING_STATUS_TEXTS, THREAD_TITLES, DirectRequest
from bot.incidents.context import render_refusal
from bot.incidents.direct_messages import DirectMessages
from bot.incidents.publishing.answer_only_runner import AnswerOnlyRunner
from bot.refusal import Refusal
from bot.slack.client import SLACK_ERRORS
from bot.slack.posted_messages import IdempotentPoster
from bot.store.unreachable import StoreUnreachable
from graph.report import Report
from graph.state import InboxItem, IncidentState, Origin
from tools.clock import Clock

log = structlog.get_logger()
STATUS_TIMEOUT_SECONDS: Final = 5.0  # how long a slow status line may delay its answer
GIVE_UP_AFTER: Final = timedelta(hours=1)  # an answer that Slack refuses for so long is not posted any more
AnswerRenderer = Callable[[str, str, DirectRequest], Awaitable[Card]]  # team, user and what they wish to know → the card


@dataclass(frozen=True, slots=True)
class DirectAnswers(AnswerOnlyRunner):
    """Turns of the dispatcher of direct messages, and the observer that posts their answers."""

    direct: DirectMessages
    answer_to: AnswerRenderer
    clock: Clock

    async def publish_report(self, incident: str, state: IncidentState, report: Report) -> None:
        """Answer the oldest question. Re-raises Slack errors until GIVE_UP_AFTER."""
        [item], origin = await self.direct.inbox.list_waiting(incident, 1), await self.direct.inbox.get_origin(incident)
        if origin is None:
            return
        await self.cards.set_retention(incident, closed=False)
        wish: DirectRequest = item.data["wish"]
        name = f"answer:{item.id}"
        try:
            begun = await self.cards.get(incident, name)
            if wish in READING_STATUS_TEXTS and not begun:  # only our post clears the status, and a begun answer may be posted already
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STATUS_TIMEOUT_SECONDS):
                        await self.direct.set_status(origin.channel, origin.thread_ts, READING_STATUS_TEXTS[wish])
            answered, card = await self._render_card(origin, item, report)
            await IdempotentPoster(self.direct.client, self.cards).post_once(origin, incident, name, card, build_metadata(item))
        except SLACK_ERRORS:
            if self.clock.now() - item.at < GIVE_UP_AFTER:
                raise
            log.exception("direct.not_answered", item=item.id)
            return
        if answered:
            await self._decorate(origin, item, wish)

    async def _render_card(self, origin: Origin, item: InboxItem, report: Report) -> tuple[bool, Card]:
        """Return (answered, card)."""
        if report.headline:  # the dispatcher gives up on the item
            return False, notes.render_refusal(report.headline)
        try:
            return True, await self.answer_to(origin.team, item.user, item.data["wish"])
        except Refusal as error:
            return False, render_refusal(error)
        except (RedisError, StoreUnreachable, *SLACK_ERRORS):
            raise
        except Exception:
            reference = secrets.token_hex(4)
            log.exception("direct.bug", reference=reference, item=item.id)
            return False, notes.render_internal_error(reference, notes.MESSAGE_ERROR_TEXT)

    async def _decorate(self, origin: Origin, item: InboxItem, wish: DirectRequest) -> None:
        """A question outside a thread begins its own, which Slack does not let an app decorate."""
        threaded = not item.id.endswith(f".{origin.thread_ts}")
        if threaded and wish in THREAD_TITLES:
            await self.direct.set_title(origin.channel, origin.thread_ts, THREAD_TITLES[wish])
        if wish == "elsewhere":
            await self.direct.suggest_prompts(origin.channel, origin.thread_ts if threaded else "")


def build_metadata(item: InboxItem) -> dict[str, Any]:
    return {"event_type": "rackmedic_answer", "event_payload": {"asked": item.id}}
