"""Empties the outbox, and asks how far the provider is: they never call us. Any number of processes may do so; the intake makes one of it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog
from redis.exceptions import RedisError

from bot.provider.link import LinkAway, LinkRefused, ProviderLink
from bot.provider.messages import ticket_message
from bot.provider.outbox import Outbox, Sending

log = structlog.get_logger()
EVERY = 2.0
ASK_EVERY, ASK_SELDOM = timedelta(seconds=30), timedelta(minutes=10)
"""How often a state is asked for; seldom once the repair is proved."""
FIRST_AGAIN, LAST_AGAIN = timedelta(seconds=5), timedelta(hours=1)
"""Before it is tried again, twice as long each time."""


def backoff(tries: int) -> timedelta:
    """How long to wait after so many tries."""
    return min(FIRST_AGAIN * (1 << min(tries, 16)), LAST_AGAIN)


@dataclass(frozen=True, slots=True)
class Sender:
    """`paint` shows where it stands. `every` and `ask_every` as a site has them."""

    outbox: Outbox
    link: ProviderLink
    paint: Callable[[str], Awaitable[None]]
    every: float = EVERY
    ask_every: timedelta = ASK_EVERY
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def sweep(self) -> int:
        """Send and ask what is due; how many."""
        due = await self.outbox.take()
        for incident in due:
            try:
                await self._step(await self.outbox.row(incident))
            except RedisError:
                raise
            except Exception:
                log.exception("provider.step_failed", incident=incident)  # one bad row must not hide the others
        return len(due)

    async def run(self) -> None:
        """Until cancelled. The first look is at once: a restart finds what was clicked before the crash."""
        while True:
            try:
                await self.sweep()
            except RedisError as why:
                log.warning("provider.redis_away", error=str(why))
            await self.pause(self.every)

    async def _step(self, row: Sending) -> None:
        if not row.document:
            await self.outbox.forget(row.incident)
            return
        try:
            await (self._send(row) if row.pending else self._ask(row))
        except LinkAway as away:
            log.warning("provider.away", incident=row.incident, tries=row.tries + 1, why=str(away))
            await self.outbox.put_off(row, str(away), max(backoff(row.tries), timedelta(seconds=away.after)))
        except LinkRefused as no:
            log.warning("provider.refused", incident=row.incident, why=str(no))
            await self._refused(row, str(no))
        await self.paint(row.incident)

    async def _send(self, row: Sending) -> None:
        assert row.at is not None
        answer = await self.link.tell(row.id, ticket_message(row.document, row.at))
        log.info("provider.sent", incident=row.incident, ticket=answer.ticket, passed_over=list(answer.ignored))
        await self.outbox.arrived(row, answer.ticket, answer.state, self.ask_every)

    async def _ask(self, row: Sending) -> None:
        state = (await self.link.states((row.ticket,))).get(row.ticket, "")
        if not state:
            log.warning("provider.ticket_gone", incident=row.incident, ticket=row.ticket)
            await self.outbox.moved(row, row.state, None)
            return
        again = {"closed": None, "proved": max(ASK_SELDOM, self.ask_every)}.get(state, self.ask_every)
        await self.outbox.moved(row, state, again)

    async def _refused(self, row: Sending, why: str) -> None:
        """A ticket that was not sent is over; how far one is may be asked again later."""
        if row.pending:
            await self.outbox.refuse(row, why)
        else:
            await self.outbox.put_off(row, why, LAST_AGAIN)
