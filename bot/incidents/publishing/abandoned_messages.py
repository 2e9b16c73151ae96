"""Messages that say "looking" though nobody is, or that Slack took no edit of: found by the process that sweeps, and brought to where their
incident stands."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog
from redis.exceptions import RedisError

from bot.incidents.publishing.status_messages import StatusMessages, UpdateInProgress
from bot.refusal import Refusal
from bot.slack.client import SLACK_ERRORS
from bot.tasks import run_periodically

log = structlog.get_logger()
SWEEP_INTERVAL_SECONDS = 15.0
ABANDONED_AFTER = timedelta(seconds=30)
"""Without news for so long, and without a process that holds its incident, a message is let go of."""


@dataclass(frozen=True, slots=True)
class AbandonedMessageSweeper:
    """`run` for as long as the process works. Any number may: doing it twice shows the same."""

    messages: StatusMessages
    catch_up: Callable[[str], Awaitable[None]]
    """Makes the edits of an incident's other messages for which Slack had no turn."""

    async def sweep(self) -> int:
        """Let go of what a dead process left; how many. Whoever goes on with its turn says so again."""
        gone = await self.messages.unsettled.list_abandoned(ABANDONED_AFTER)
        for incident in gone:
            try:
                await self.messages.clear_abandoned(incident)
                await self.catch_up(incident)
            except (*SLACK_ERRORS, UpdateInProgress, Refusal) as trouble:
                log.warning("forsaken.not_settled", incident=incident, error=str(trouble)[:200])
            except RedisError:
                raise
            except Exception:
                log.exception("forsaken.failed", incident=incident)  # one bad row must not hide the others
        return len(gone)

    async def run(self) -> None:
        """Sweep until cancelled."""
        await run_periodically("abandoned_messages", self.sweep, SWEEP_INTERVAL_SECONDS)
