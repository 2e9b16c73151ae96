"""A hundred incidents propose three hundred actions at once and most end at once: within Slack's rate limits every card
is posted, shows the ledger's state within a minute, and no superseded action can be approved.

Time is virtual. The ledger, cards, retries and call pacing are real; Slack is a table of messages with limits. Living
messages are left out, since cards with buttons have priority over them.
"""

import asyncio
import itertools
import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis, FakeServer
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.remediation.action_cards import ActionCards
from bot.remediation.approval_buttons import update_card_with_retries
from bot.remediation.approval_card_data import ApprovalCardSources
from bot.remediation.cards.approval_card import APPROVE_ACTION_ID
from bot.slack.client import PacedClient
from bot.slack.people import People
from bot.slack.posted_messages import PostedCards
from bot.slack.rate_limits import DEFAULT_CALLS_PER_MINUTE, TIERS
from bot.tasks import BackgroundTasks
from graph.state import IncidentState, Origin
from tests.support.clock import T0, SetClock
from tests.support.fakes_bot import TEAM, living_messages
from tests.support.fakes_ledger import KEY, PEOPLE, action
from tests.support.virtual_loop import Tier, virtually
from tools.evidence import MemoryEvidence
from tools.inventory.inventory import ChannelRow
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord, ApprovalTerms
from tools.ledger.states import State, Transition

pytestmark = pytest.mark.slow


INCIDENTS, EACH, CHANNELS = 100, 3, 1
MINUTE = 60.0


class Clock:
    """The event loop's time as a clock."""

    def now(self) -> Any:
        return T0 + timedelta(seconds=asyncio.get_running_loop().time())


class Refusal:
    """Slack's answer to a call too many."""

    status_code = 429

    def __init__(self, after: float) -> None:
        self.headers, self.data = {"Retry-After": str(int(after))}, {"ok": False, "error": "ratelimited"}

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __str__(self) -> str:
        return str(self.data)


class Wire(AsyncWebClient):
    """Slack behind the client: messages by ts, and a limit per method."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.tiers: dict[tuple[str, str], Tier] = {}
        self.taken: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.moved: dict[str, float] = {}
        self._numbers = itertools.count(1)

    async def api_call(self, api_method: str, **how: Any) -> Any:
        said = how.get("params") or how.get("json") or how.get("data") or {}
        key = (api_method, str(said.get("channel", "")) if api_method == "chat.postMessage" else "")
        tier = self.tiers.setdefault(key, Tier(TIERS.get(api_method, DEFAULT_CALLS_PER_MINUTE)))
        await asyncio.sleep(0.02)
        if after := tier.wait():
            self.refused[api_method] += 1
            raise SlackApiError("ratelimited", Refusal(after))  # type: ignore[no-untyped-call]  # slack_sdk's
        self.taken[api_method] += 1
        return self._answer(api_method, said)

    def _answer(self, method: str, said: dict[str, Any]) -> dict[str, Any]:
        if method in ("chat.postMessage", "chat.update"):
            ts = said.get("ts") or f"{next(self._numbers)}.000100"
            blocks = said["blocks"]
            self.messages[ts] = json.loads(blocks) if isinstance(blocks, str) else list(blocks)
            self.moved[ts] = asyncio.get_running_loop().time()
            return {"ok": True, "ts": ts}
        return {"ok": True, "channel": {"id": said.get("channel"), "is_ext_shared": False}, "users": [], "messages": []}

    def live(self, approval: str) -> set[str]:
        """Return messages with a button that approves this action."""
        return {
            ts
            for ts, blocks in self.messages.items()
            for block in blocks
            for element in [*block.get("elements", []), block.get("accessory") or {}]
            if str(element.get("action_id", "")).startswith(APPROVE_ACTION_ID) and approval in str(element.get("value", ""))
        }


class Slack(PacedClient, Wire):
    """The paced client over `Wire`."""


class Storm:
    """One process's services and the actions to propose."""

    def __init__(self) -> None:
        redis, clock = FakeAsyncRedis(server=FakeServer(), max_connections=2000), Clock()
        self.slack = Slack("xoxb-storm", "https://slack.test/api/", tries=3)
        self.ledger = Ledger(redis, KEY, clock)
        people, posted = People(self.slack), PostedCards(redis)
        bound = {f"C{n}": ChannelRow(channel=f"C{n}", approvers="S0GPUAPPR") for n in range(CHANNELS)}
        sources = ApprovalCardSources(
            self.ledger.get_record,
            self.ledger.list_incident_records,
            self.origin_of,
            bound,
            lambda _at, _sets: "S0GPUAPPR",
            MemoryEvidence(),
            clock,
            dry_run=nothing,
        )
        living = living_messages(self.slack, redis, people, nowhere, SetClock(), BackgroundTasks())
        self.cards = ActionCards(self.slack, posted, people, sources, living)
        self.records: list[ActionRecord] = []
        self.shown: list[float] = []

    async def origin_of(self, incident: str) -> Origin:
        return Origin(
            kind="slack", team=TEAM, channel=f"C{int(incident.rpartition('-')[2]) % CHANNELS}", thread_ts=f"{incident}.1", user="U1"
        )

    async def put_up(self) -> None:
        """Propose all actions at once; retry each card after any error, as the driver does."""
        for number in range(INCIDENTS):
            for host in range(EACH):
                name = f"gpu-{number:03}-{host}"
                wanted = action(target=name, via=name, devices=(f"{name}/gpu5",), incident=f"inc-{number}")
                self.records.append(await self.ledger.propose(wanted, ApprovalTerms(PEOPLE, 1, group="h100", group_size=4000)))
        await asyncio.gather(*map(self._first, self.records))

    async def _first(self, record: ActionRecord) -> None:
        while True:
            try:
                await self.cards.post_approval_card(record, IncidentState())
            except Exception:
                await asyncio.sleep(5)
            else:
                self.shown.append(asyncio.get_running_loop().time())
                return

    async def end_all(self, records: list[ActionRecord]) -> list[float]:
        """Supersede these actions at once; return the seconds until each card was updated."""
        began = asyncio.get_running_loop().time()
        for record in records:
            await self.ledger.end_action(record.approval, Transition.SUPERSEDE, "rackmedic", "the cause is no longer believed")

        async def seen(record: ActionRecord) -> float:
            assert await update_card_with_retries(self.cards, record), "a card that was never painted"
            return asyncio.get_running_loop().time() - began

        return list(await asyncio.gather(*map(seen, records)))


async def nothing(_: Any) -> Any:
    return ()


async def nowhere(_: str) -> None:
    return None


@pytest.mark.tier3  # ten CPU seconds at its full size
def test_three_hundred_cards_within_slacks_limits() -> None:
    async def story() -> None:
        storm = Storm()
        await storm.put_up()
        assert len(storm.shown) == INCIDENTS * EACH, "nothing starves"
        assert max(storm.shown) <= MINUTE, "put up in one moment, shown within a minute"
        assert all(len(storm.slack.live(row.approval)) == 1 for row in storm.records), "each can be decided on one card"
        posts = storm.slack.taken["chat.postMessage"]
        assert posts <= INCIDENTS * EACH
        over = [row for row in storm.records if int(row.action.incident.rpartition("-")[2]) % 5 != 0]
        took = await storm.end_all(over)
        assert max(took) <= MINUTE, "every card true within a minute"
        assert not [row.approval for row in over if storm.slack.live(row.approval)], "what is superseded cannot be pressed"
        for row in storm.records:
            if row not in over:
                assert (await storm.ledger.get_record(row.approval)).state is State.PENDING
                assert len(storm.slack.live(row.approval)) == 1, "what waits still can be"
        assert {"chat.update", "chat.postMessage"} <= storm.slack.refused.keys(), "Slack's limits were met"

    virtually(story())
