"""A provider's intake over real local HTTP and its caller, on one clock."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import aiohttp
from redis.asyncio import Redis

from bot.app.http.server import serve_routes
from bot.inbound import KEY_PREFIX
from bot.incidents.dispatch.inbox import Inbox
from bot.provider.intake import ProviderIntake
from bot.provider.link import HttpProviderLink
from bot.provider.provider_updates import ProviderMessageStore
from bot.provider.ticket_documents import TicketStore
from bot.provider.ticket_importer import TicketImporter
from bot.provider.ticket_states import TicketStates
from bot.store.keys import RedisKeys
from graph.state import IncidentState
from kb.customers.cause_words import load_customer_words
from kb.taxonomy.loader import load_taxonomy
from tests.support.fakes_bot import OPS
from tests.support.inventories import inventory
from tools.clock import Clock

OURS, THEIRS = b"k" * 32, b"g" * 32
SITE = inventory(
    groups={"acme": {"hosts": "gpu-[017-018]", "tenant": "acme"}, "globex": {"hosts": "gpu-[019-020]", "tenant": "globex"}},
    channels=[{"channel": OPS, "kind": "operators"}],
)


@dataclass
class Provider:
    """The provider's side: inbox, incident states, and wake-ups."""

    redis: Redis
    clock: Clock
    inbox: Inbox
    intake: ProviderIntake
    states: dict[str, IncidentState]
    told: ProviderMessageStore
    url: str = ""
    woken: list[str] = field(default_factory=list)

    @property
    def written_key(self) -> str:
        """Return our key as settings hold it."""
        return f"{KEY_PREFIX}{base64.b64encode(OURS).decode()}"

    def link(self, tenant: str = "acme", key: bytes = OURS) -> HttpProviderLink:
        return HttpProviderLink(f"{self.url}/intake/{tenant}", key, self.clock)

    async def post(self, body: bytes, headers: dict[str, str], tenant: str = "acme") -> int:
        """Post a hand-made message and return the HTTP status."""
        async with aiohttp.ClientSession() as session, session.post(f"{self.url}/intake/{tenant}", data=body, headers=headers) as answer:
            await answer.read()
            return answer.status


WORDS = load_customer_words(load_taxonomy())


@asynccontextmanager
async def provider(redis: Redis, clock: Clock, inbox: Inbox | None = None) -> AsyncIterator[Provider]:
    """Run a real intake on a free port, optionally on an existing `inbox`."""
    inbox, states = inbox or Inbox(redis, clock), dict[str, IncidentState]()
    made: list[Provider] = []

    async def state_of(incident: str) -> IncidentState:
        return states.get(incident, cast(IncidentState, {}))

    async def nothing_begun(_: str) -> frozenset[str]:
        return frozenset()

    async def wake(incident: str) -> None:
        made[0].woken.append(incident)

    told = ProviderMessageStore(redis, clock)
    standing = TicketStates(inbox, SITE, WORDS, state_of, nothing_begun, told)
    intake = ProviderIntake(
        {"acme": (THEIRS, OURS)}, TicketImporter(inbox, TicketStore(redis), SITE, clock), standing, redis, wake, RedisKeys()
    )
    made.append(Provider(redis, clock, inbox, intake, states, told))
    async with serve_routes("127.0.0.1", 0, intake.routes) as port:
        made[0].url = f"http://127.0.0.1:{port}"
        yield made[0]
