"""Progress of running turns on status messages, at Slack's rate; the latest update wins.

Best effort: after three refusals in a row a message is left alone until the next turn.
"""

from collections import OrderedDict

import structlog
from redis.exceptions import RedisError

from bot.incidents.cards import progress
from bot.incidents.cards.progress import ProgressCard
from bot.incidents.publishing.status_messages import StatusMessages
from bot.refusal import Refusal
from bot.slack.client import SLACK_ERRORS, Throttle
from bot.slack.posted_messages import PendingMessages
from bot.slack.rate_limits import Urgency, with_urgency
from bot.tasks import BackgroundTasks
from graph.context import Progress
from graph.report import Report
from graph.state import IncidentState

log = structlog.get_logger()
MAX_EDITS_PER_MINUTE, MAX_EDIT_BURST = 45, 8  # below chat.update's 50 per minute, shared by all messages
MAX_REFUSALS, MAX_CARDS = 3, 1000


class ProgressUpdates:
    """`queue_update` returns at once; a background task posts."""

    def __init__(self, messages: StatusMessages, tasks: BackgroundTasks, *, throttle: Throttle | None = None) -> None:
        self._messages = messages
        self._tasks = tasks
        self._throttle = throttle or Throttle(MAX_EDITS_PER_MINUTE, MAX_EDIT_BURST)
        self._living: OrderedDict[str, ProgressCard] = OrderedDict()
        self._turn: dict[str, str] = {}
        self._dirty: dict[str, None] = {}
        self._refused: dict[str, int] = {}
        self._painting = False

    @property
    def unsettled(self) -> PendingMessages:
        return self._messages.unsettled

    def queue_update(self, news: Progress) -> None:
        """Show this update unless a newer one comes first."""
        self._living[news.incident] = progress.apply_progress(self._living.pop(news.incident, ProgressCard(news.incident)), news)
        while len(self._living) > MAX_CARDS:
            self._forget_incident(next(iter(self._living)))
        if news.stage == "queued":  # the requester waits for a first sign; posts have a rate limit of their own
            self._tasks.spawn_task("first_card", self._post_latest(news.incident))
            return
        self._dirty.setdefault(news.incident)
        if not self._painting:
            self._painting = True
            self._tasks.spawn_task("living_cards", self._post_updates())

    async def finish_turn(self, incident: str, state: IncidentState, report: Report) -> bool:
        """Show the status at once. Return whether the report is on the status message."""
        self._forget_incident(incident)
        here = await self._messages.finish_turn(incident, state, report)
        self._forget_incident(incident)
        return here

    async def _post_updates(self) -> None:
        try:
            while self._dirty:
                await self._throttle.wait_turn()
                for incident in list(self._dirty)[:1]:
                    del self._dirty[incident]
                    with with_urgency(Urgency.PROGRESS):
                        await self._post_latest(incident)
        finally:
            self._painting = False

    async def _post_latest(self, incident: str) -> None:
        living = self._living.get(incident)
        if living is None or self._refused.get(incident, 0) >= MAX_REFUSALS:
            return
        try:
            turn = self._turn.get(incident)
            if turn is None:
                turn = self._turn[incident] = await self._messages.get_turn_number(incident)
            if not await self._messages.show_progress(living, turn):
                self._forget_incident(incident)
        except (*SLACK_ERRORS, RedisError, Refusal) as error:
            refused = self._refused[incident] = self._refused.get(incident, 0) + 1
            log.warning("living_card.not_painted", incident=incident, times=refused, error=str(error)[:200])
        else:
            self._refused.pop(incident, None)

    def _forget_incident(self, incident: str) -> None:
        for rows in (self._living, self._dirty, self._refused, self._turn):
            rows.pop(incident, None)
