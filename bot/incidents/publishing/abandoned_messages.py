"""Update status messages of dead processes, and make pending edits."""

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
ABANDONED_AFTER = timedelta(seconds=30)  # without an update, and without a process that holds the incident's lease


@dataclass(frozen=True, slots=True)
class AbandonedMessageSweeper:
    """Idempotent: any number may run."""

    messages: StatusMessages
    catch_up: Callable[[str], Awaitable[None]]  # makes an incident's other pending edits

    async def sweep(self) -> int:
        """Update abandoned messages; return how many. A worker that resumes the turn shows progress again."""
        gone = await self.messages.unsettled.list_abandoned(ABANDONED_AFTER)
        for incident in gone:
            try:
                await self.messages.clear_abandoned(incident)
                await self.catch_up(incident)
            except (*SLACK_ERRORS, UpdateInProgress, Refusal) as error:
                log.warning("abandoned_message.not_settled", incident=incident, error=str(error)[:200])
            except RedisError:
                raise
            except Exception:
                log.exception("abandoned_message.failed", incident=incident)  # one bad row must not hide the others
        return len(gone)

    async def run(self) -> None:
        await run_periodically("abandoned_messages", self.sweep, SWEEP_INTERVAL_SECONDS)
