"""Empties the outbox, and asks how far the provider is: they never call us. Any number of processes may do so; the intake makes one of it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from redis.exceptions import RedisError

from bot.provider.link import LinkAway, LinkRefused, ProviderLink
from bot.provider.messages import ticket_message
from bot.provider.news import FOUND, ProviderWords, heard_of
from bot.store.outbox import LAST_AGAIN, Outbox, Sending, backoff
from bot.tasks import run_periodically

log = structlog.get_logger()
EVERY = 2.0
ASK_EVERY, ASK_SELDOM = timedelta(seconds=30), timedelta(minutes=10)
"""How often a state is asked for, the default of the setting `provider_poll_seconds`; seldom once the repair is proved."""


async def nobody_listens(incident: str, ticket: str, words: ProviderWords) -> bool:
    """What was said is left with the provider."""
    return False


@dataclass(frozen=True, slots=True)
class Sender:
    """`paint` shows where it stands; `say` has what their people said (incident, ticket, words) stand in the thread, once, and tells whether it does.
    `every` and `ask_every` as a site has them."""

    outbox: Outbox
    link: ProviderLink
    paint: Callable[[str], Awaitable[None]]
    say: Callable[[str, str, ProviderWords], Awaitable[bool]] = nobody_listens
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
        await run_periodically("provider", self.sweep, self.every, pause=self.pause)

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
        answer = await self.link.states({row.ticket: heard_of(row.notes)})
        state = answer.states.get(row.ticket, "")
        if not state:
            log.warning("provider.ticket_gone", incident=row.incident, ticket=row.ticket)
            await self.outbox.moved(row, row.state, None)
            return
        told = answer.told.get(row.ticket, ())
        heard = await self._heard(row, told)
        again = {"closed": None, "proved": max(ASK_SELDOM, self.ask_every)}.get(state, self.ask_every)
        if told:  # there may be more, or they could not be shown
            again = self.ask_every
        found = FOUND.dump_json(answer.found.get(row.ticket, ())).decode()
        await self.outbox.moved(row, state, again, found=found, heard=str(heard))

    async def _heard(self, row: Sending, told: Sequence[ProviderWords]) -> int:
        """Which of their words is the last that stands in the thread."""
        heard = heard_of(row.notes)
        for words in told:
            if words.n <= heard:
                continue
            if not await self.say(row.incident, row.ticket, words):
                break
            heard = words.n
        return heard

    async def _refused(self, row: Sending, why: str) -> None:
        """A ticket that was not sent is over; how far one is may be asked again later."""
        if row.pending:
            await self.outbox.refuse(row, why)
        else:
            await self.outbox.put_off(row, why, LAST_AGAIN)
