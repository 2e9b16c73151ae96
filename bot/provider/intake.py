"""The provider's intake: `POST /intake/TENANT`, signed. It opens incidents and tells how far they are; it decides nothing and calls nobody.

Whoever is not known, signs wrongly or comes late gets the same answer. A message is heard once; the same ticket sent again is one ticket.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog
from redis.asyncio import Redis

from bot.inbound.routes import InboundAnswer, InboundRequest, InboundRoute
from bot.inbound.webhook import FRESH, SignedMessage, Unsigned, judge_head, verified
from bot.provider.arrivals import Arrivals, NoPlace
from bot.provider.messages import STATES_ASKED, TICKET_SENT, BadMessage, read_asked, read_message
from bot.provider.standing import TicketStates
from bot.store.keys import Names
from graph.exchange.document import MOST_BYTES
from graph.exchange.read import BadTicket, ReadTicket, read_ticket

log = structlog.get_logger()
MOST_BODY = MOST_BYTES + 4096
HEARD_FOR = 3 * FRESH
TICKETS_PER_HOUR = 60
HOUR = timedelta(hours=1)


NOBODY = InboundAnswer(401, {"error": "not signed by a key that is known here, or not now"})


@dataclass(frozen=True, slots=True)
class Intake:
    """`keys`: of each tenant, all that count now. `wake` has an incident looked at."""

    keys: Mapping[str, Sequence[bytes]]
    arrivals: Arrivals
    states: TicketStates
    redis: Redis
    wake: Callable[[str], Awaitable[None]]
    names: Names

    @property
    def routes(self) -> Sequence[InboundRoute]:
        return (InboundRoute("/intake/{tenant}", self.hear, MOST_BODY, self.judge),)

    def judge(self, headers: Mapping[str, str]) -> InboundAnswer | None:
        """Refuse what no tenant can have signed, by its headers alone; which tenants there are it does not tell."""
        try:
            judge_head(headers, self.arrivals.clock.now())
        except Unsigned as why:
            return replace(NOBODY, why=str(why))
        return None

    async def hear(self, request: InboundRequest) -> InboundAnswer:
        """One message, whole."""
        tenant, body = request.parts["tenant"], request.body
        try:
            message = verified(self.keys.get(tenant, ()), request.headers, body, self.arrivals.clock.now())
        except Unsigned as why:
            return replace(NOBODY, why=f"{tenant[:80]}: {why}")
        if not await self._first(tenant, message):
            return InboundAnswer(409, {"error": "this very message was heard before; sign it anew to send it again"})
        try:
            kind, data = read_message(body)
            return await self._answer(tenant, kind, data)
        except BadMessage as why:
            return InboundAnswer(400, {"error": str(why)})
        except BadTicket as why:
            return InboundAnswer(422, {"error": "; ".join(why.problems)[:1000]})
        except NoPlace as why:
            log.warning("intake.no_place", tenant=tenant, why=str(why))
            return InboundAnswer(503, {"error": "the provider's inventory has no place for this ticket yet"}, after=600)

    async def _answer(self, tenant: str, kind: str, data: dict[str, Any]) -> InboundAnswer:
        if kind == STATES_ASKED:
            return InboundAnswer(200, (await self.states.answer(tenant, read_asked(data))).model_dump(mode="json", exclude_defaults=True))
        if kind != TICKET_SENT:
            raise BadMessage(f"type: none of {TICKET_SENT}, {STATES_ASKED}")
        if await self._over(tenant):
            return InboundAnswer(429, {"error": f"more than {TICKETS_PER_HOUR} tickets in an hour"}, after=int(HOUR.total_seconds()))
        return await self._take_in(tenant, await asyncio.to_thread(read_ticket, json.dumps(data).encode()))

    async def _take_in(self, tenant: str, read: ReadTicket) -> InboundAnswer:
        came = await self.arrivals.take_in(tenant, read.document)
        log.info("intake.ticket", tenant=tenant, incident=came.incident, opened=came.opened, again=came.again)
        if not came.again:
            await self.wake(came.incident)
        state = (await self.states.of(tenant, (came.incident,))).get(came.incident, "received")
        return InboundAnswer(200, {"ticket": came.incident, "state": state, "ignored": list(read.ignored)})

    async def _first(self, tenant: str, message: SignedMessage) -> bool:
        key = self.names.intake("heard", f"{tenant}:{message.nonce}")
        return bool(await self.redis.set(key, "1", nx=True, ex=HEARD_FOR))

    async def _over(self, tenant: str) -> bool:
        key = self.names.intake("count", tenant)
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.expire(key, HOUR, nx=True)
            count, _ = await pipe.execute()
        return int(count) > TICKETS_PER_HOUR
