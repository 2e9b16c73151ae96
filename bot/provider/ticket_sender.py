"""Sends tickets and polls the provider, which never calls back. Safe in several processes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from redis.exceptions import RedisError

from bot.provider.link import LinkRefused, LinkUnavailable, ProviderLink
from bot.provider.provider_updates import PROVIDER_CAUSES_ADAPTER, ProviderMessage, count_heard_messages
from bot.provider.wire_messages import build_ticket_message
from bot.store.external_outbox import MAX_RETRY_DELAY, Outbox, OutboxRow, compute_retry_delay
from bot.tasks import run_periodically

log = structlog.get_logger()
SWEEP_INTERVAL_SECONDS = 2.0
POLL_INTERVAL = timedelta(seconds=30)  # default of `provider_poll_seconds`
SLOW_POLL_INTERVAL = timedelta(minutes=10)  # slower once the repair is proved


async def leave_with_provider(incident: str, ticket: str, words: ProviderMessage) -> bool:
    """Post nothing; messages stay with the provider."""
    return False


@dataclass(frozen=True, slots=True)
class TicketSender:
    """`paint` redraws a ticket; `say` posts a message once and returns whether it is there."""

    outbox: Outbox
    link: ProviderLink
    paint: Callable[[str], Awaitable[None]]
    say: Callable[[str, str, ProviderMessage], Awaitable[bool]] = leave_with_provider
    every: float = SWEEP_INTERVAL_SECONDS
    ask_every: timedelta = POLL_INTERVAL
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def sweep(self) -> int:
        """Send and poll due rows; return their number."""
        due_rows = await self.outbox.claim_due()
        for incident in due_rows:
            try:
                await self._process_row(await self.outbox.load_row(incident))
            except RedisError:
                raise
            except Exception:
                log.exception("provider.step_failed", incident=incident)  # one bad row must not block the others
        return len(due_rows)

    async def run(self) -> None:
        """Sweep at once and until cancelled: a restart finds what was queued before a crash."""
        await run_periodically("provider", self.sweep, self.every, pause=self.pause)

    async def _process_row(self, row: OutboxRow) -> None:
        if not row.document:
            await self.outbox.remove_due(row.incident)
            return
        try:
            await (self._send_ticket(row) if row.pending else self._poll_state(row))
        except LinkUnavailable as error:
            log.warning("provider.away", incident=row.incident, tries=row.tries + 1, why=str(error))
            await self.outbox.postpone_row(row, str(error), max(compute_retry_delay(row.tries), timedelta(seconds=error.after)))
        except LinkRefused as error:
            log.warning("provider.refused", incident=row.incident, why=str(error))
            await self._handle_refusal(row, str(error))
        await self.paint(row.incident)

    async def _send_ticket(self, row: OutboxRow) -> None:
        assert row.at is not None
        answer = await self.link.send_ticket(row.id, build_ticket_message(row.document, row.at))
        log.info("provider.sent", incident=row.incident, ticket=answer.ticket, passed_over=list(answer.ignored))
        await self.outbox.mark_arrived(row, answer.ticket, answer.state, self.ask_every)

    async def _poll_state(self, row: OutboxRow) -> None:
        answer = await self.link.fetch_states({row.ticket: count_heard_messages(row.notes)})
        state = answer.states.get(row.ticket, "")
        if not state:
            log.warning("provider.ticket_gone", incident=row.incident, ticket=row.ticket)
            await self.outbox.record_state(row, row.state, None)
            return
        messages = answer.told.get(row.ticket, ())
        heard_count = await self._post_messages(row, messages)
        interval = {"closed": None, "proved": max(SLOW_POLL_INTERVAL, self.ask_every)}.get(state, self.ask_every)
        if messages:  # there may be more messages, or posting failed
            interval = self.ask_every
        causes_json = PROVIDER_CAUSES_ADAPTER.dump_json(answer.found.get(row.ticket, ())).decode()
        await self.outbox.record_state(row, state, interval, found=causes_json, heard=str(heard_count))

    async def _post_messages(self, row: OutboxRow, told: Sequence[ProviderMessage]) -> int:
        """Return the number of the last posted message."""
        heard_count = count_heard_messages(row.notes)
        for words in told:
            if words.n <= heard_count:
                continue
            if not await self.say(row.incident, row.ticket, words):
                break
            heard_count = words.n
        return heard_count

    async def _handle_refusal(self, row: OutboxRow, why: str) -> None:
        """End an unsent ticket; retry a poll later."""
        if row.pending:
            await self.outbox.mark_refused(row, why)
        else:
            await self.outbox.postpone_row(row, why, MAX_RETRY_DELAY)
