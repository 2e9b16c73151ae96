"""The provider's intake: signed `POST /intake/TENANT`. Calls no one.

Unknown tenant, wrong signature and expired timestamp get the same answer. A repeated ticket stays one.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog
from redis.asyncio import Redis

from bot.inbound import (
    MAX_CLOCK_SKEW,
    InboundRequest,
    InboundResponse,
    InboundRoute,
    SignedMessage,
    Unsigned,
    check_headers,
    verify_message,
)
from bot.provider.ticket_importer import NoOperatorChannel, TicketImporter
from bot.provider.ticket_states import TicketStates
from bot.provider.wire_messages import STATES_ASKED, TICKET_SENT, BadMessage, parse_message, parse_states_request
from bot.store.keys import RedisKeys
from graph.ticket_export.document import MAX_DOCUMENT_BYTES
from graph.ticket_export.received_ticket import BadTicket, ParsedTicket, parse_ticket

log = structlog.get_logger()
MAX_BODY_BYTES = MAX_DOCUMENT_BYTES + 4096
REPLAY_WINDOW = 3 * MAX_CLOCK_SKEW
MAX_TICKETS_PER_HOUR = 60
HOUR = timedelta(hours=1)


UNAUTHORIZED_ANSWER = InboundResponse(401, {"error": "not signed by a key that is known here, or not now"})


@dataclass(frozen=True, slots=True)
class ProviderIntake:
    """`keys`: all valid keys per tenant. `wake` schedules an incident."""

    keys: Mapping[str, Sequence[bytes]]
    arrivals: TicketImporter
    states: TicketStates
    redis: Redis
    wake: Callable[[str], Awaitable[None]]
    names: RedisKeys

    @property
    def routes(self) -> Sequence[InboundRoute]:
        return (InboundRoute("/intake/{tenant}", self.handle_message, MAX_BODY_BYTES, self.check_signature_headers),)

    def check_signature_headers(self, headers: Mapping[str, str]) -> InboundResponse | None:
        """Refuse by headers alone, without revealing which tenants exist."""
        try:
            check_headers(headers, self.arrivals.clock.now())
        except Unsigned as error:
            return replace(UNAUTHORIZED_ANSWER, why=str(error))
        return None

    async def handle_message(self, request: InboundRequest) -> InboundResponse:
        """Verify, deduplicate and dispatch a message."""
        tenant, body = request.parts["tenant"], request.body
        try:
            message = verify_message(self.keys.get(tenant, ()), request.headers, body, self.arrivals.clock.now())
        except Unsigned as error:
            return replace(UNAUTHORIZED_ANSWER, why=f"{tenant[:80]}: {error}")
        if not await self._record_delivery(tenant, message):
            return InboundResponse(409, {"error": "this message was received before; sign it again to send it again"})
        try:
            kind, data = parse_message(body)
            return await self._dispatch_message(tenant, kind, data)
        except BadMessage as error:
            return InboundResponse(400, {"error": str(error)})
        except BadTicket as error:
            return InboundResponse(422, {"error": "; ".join(error.problems)[:1000]})
        except NoOperatorChannel as error:
            log.warning("intake.no_place", tenant=tenant, why=str(error))
            return InboundResponse(503, {"error": "the provider's inventory has no place for this ticket yet"}, after=600)

    async def _dispatch_message(self, tenant: str, kind: str, data: dict[str, Any]) -> InboundResponse:
        if kind == STATES_ASKED:
            return InboundResponse(
                200,
                (await self.states.answer_states_request(tenant, parse_states_request(data))).model_dump(
                    mode="json", exclude_defaults=True
                ),
            )
        if kind != TICKET_SENT:
            raise BadMessage(f"type: none of {TICKET_SENT}, {STATES_ASKED}")
        if await self._is_over_limit(tenant):
            return InboundResponse(429, {"error": f"more than {MAX_TICKETS_PER_HOUR} tickets in an hour"}, after=int(HOUR.total_seconds()))
        return await self._import_ticket(tenant, await asyncio.to_thread(parse_ticket, json.dumps(data).encode()))

    async def _import_ticket(self, tenant: str, read: ParsedTicket) -> InboundResponse:
        arrival = await self.arrivals.import_ticket(tenant, read.document)
        log.info("intake.ticket", tenant=tenant, incident=arrival.incident, opened=arrival.opened, again=arrival.again)
        if not arrival.again:
            await self.wake(arrival.incident)
        state = (await self.states.get_states(tenant, (arrival.incident,))).get(arrival.incident, "received")
        return InboundResponse(200, {"ticket": arrival.incident, "state": state, "ignored": list(read.ignored)})

    async def _record_delivery(self, tenant: str, message: SignedMessage) -> bool:
        key = self.names.intake_key("heard", f"{tenant}:{message.nonce}")
        return bool(await self.redis.set(key, "1", nx=True, ex=REPLAY_WINDOW))

    async def _is_over_limit(self, tenant: str) -> bool:
        key = self.names.intake_key("count", tenant)
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.expire(key, HOUR, nx=True)
            count, _ = await pipe.execute()
        return int(count) > MAX_TICKETS_PER_HOUR
