"""The living message of each incident in Slack: posted once, edited by whichever process is at it, posted anew where somebody deleted it.

Painting is done under a lock of the incident's, and what is shown is read inside it, so that a late painter never shows an older state.
A message that says "looking" is noted until its turn is over: whoever sweeps settles those whose process died.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

import structlog
from redis.exceptions import RedisError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.cards.incidents import living as card
from bot.cards.incidents import notes
from bot.cards.incidents.living import Living
from bot.cards.incidents.progress import ProgressCard
from bot.cards.incidents.standing import standing
from bot.policy import channels as policy
from bot.refusal import Refusal
from bot.slack.client import SLACK_TROUBLE, post, said
from bot.slack.outgoing.posts import POSTING, Once, OriginOf, PostedCards, Unsettled
from bot.slack.people import People
from graph.rows import IncidentRows
from graph.state import Incident, Origin, Report
from tools.ledger.record import Record, Refused

log = structlog.get_logger()
LIVING, REPORT = "rackmedic_living", "rackmedic_report"
GONE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
"""The message cannot be edited any more, so another takes its place."""
EVERY = 15.0
QUIET = timedelta(seconds=30)
"""Without news for so long, and without a process that holds its incident, a message is settled."""
PATIENCE = timedelta(seconds=12)
"""How long one painter waits for another."""


class BeingPainted(Exception):
    """Another process paints this message at this moment. Whoever asked asks again later."""


async def no_state(incident: str) -> Incident:
    """Nothing is stored."""
    return Incident()


async def no_records(incident: str) -> Sequence[Record]:
    """Nothing was put up for decision."""
    return ()


@dataclass
class LivingMessages:
    """`show` while a turn runs, `settle` when it is over, `refresh` when an action moved. Incidents that do not live in Slack are passed over.

    What is read beside Redis arrives later than the messages are needed, and is told by `reads`."""

    client: AsyncWebClient
    cards: PostedCards
    people: People
    origin_of: OriginOf
    unsettled: Unsettled
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    _state_of: Callable[[str], Awaitable[Incident]] = field(default=no_state)
    _records_of: Callable[[str], Awaitable[Sequence[Record]]] = field(default=no_records)

    def reads(
        self,
        *,
        state_of: Callable[[str], Awaitable[Incident]] | None = None,
        records_of: Callable[[str], Awaitable[Sequence[Record]]] | None = None,
    ) -> None:
        """From where stored incidents and the ledger's records come."""
        self._state_of, self._records_of = state_of or self._state_of, records_of or self._records_of

    async def turn(self, incident: str) -> str:
        """The number of the turn that is under way, or comes next: news of an earlier one are not shown any more."""
        return await self.cards.get(incident, "living_turn")

    async def show(self, busy: ProgressCard, turn: str) -> bool:
        """Show how far a turn is; False where that turn is over. A first sign of life (`queued`) is only ever posted."""
        incident = busy.incident
        origin = await self._origin(incident)
        if origin is None:
            return True
        first = busy.stage == "queued"
        async with self._alone(incident, timedelta() if first else PATIENCE) as alone:
            if not alone or (first and await self.cards.get(incident, "living")):
                return True
            if await self.turn(incident) != turn:
                return False
            told = Living(incident, busy=busy)
            if await self.cards.get(incident, "living_item"):
                told = await self._told(incident, await self._state_of(incident), busy)
            await self.unsettled.note(incident)
            await self._put(origin, incident, await self._for(origin, card.render(told)))
        return True

    async def settle(self, incident: str, state: Incident, report: Report) -> bool:
        """A turn is over: show where the incident stands. True where its report is on the message, and nowhere else."""
        origin = IncidentRows(state).origin or await self._origin(incident)
        if origin is None or origin.kind != "slack":
            return False
        async with self._alone(incident) as alone:
            if not alone:
                raise BeingPainted(BeingPainted.__doc__)
            await self.cards.next(incident, "living_turn")
            shown = await self.cards.get(incident, "living_item")
            here = shown == report.item or (not shown and _opens(state, report))
            if here:
                await self.cards.set(incident, "living_item", report.item)
            if here or shown:
                made = await self._told(incident, state)
                await self._put(origin, incident, await self._for(origin, card.render(made)))
            elif await self.cards.get(incident, "living"):
                await self._put(origin, incident, card.render(Living(incident)))
            await self.unsettled.drop(incident)
        return here

    async def refresh(self, incident: str) -> None:
        """Bring it up to date after something moved between turns."""
        origin = await self._origin(incident)
        if origin is None or not await self.cards.get(incident, "living_item"):
            return
        async with self._alone(incident) as alone:
            if not alone:
                raise BeingPainted(BeingPainted.__doc__)
            made = await self._told(incident, await self._state_of(incident))
            await self._put(origin, incident, await self._for(origin, card.render(made)))

    @cached_property
    def _once(self) -> Once:
        return Once(self.client, self.cards)

    async def sweep(self) -> int:
        """Settle what says "looking" though nobody is: its process died. Whoever goes on with the turn says so again; how many."""
        gone = await self.unsettled.quiet(QUIET)
        for incident in gone:
            try:
                await self._let_go(incident)
            except (*SLACK_TROUBLE, BeingPainted, Refusal) as trouble:
                log.warning("living.not_settled", incident=incident, error=str(trouble)[:200])
        return len(gone)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self.sweep()
            except RedisError as why:
                log.warning("living.store_away", error=str(why))
            except Exception:
                log.exception("living.sweep_failed")  # the next look is the net under this one
            await self.pause(EVERY)

    async def _let_go(self, incident: str) -> None:
        origin = await self._origin(incident)
        if origin is not None and await self.cards.get(incident, "living"):
            async with self._alone(incident) as alone:
                if not alone:
                    raise BeingPainted(BeingPainted.__doc__)
                await self.cards.next(incident, "living_turn")
                state = await self._state_of(incident)
                made = await self._told(incident, state) if await self.cards.get(incident, "living_item") else Living(incident)
                await self._put(origin, incident, await self._for(origin, card.render(made)))
        await self.unsettled.drop(incident)

    # -- what it shows ----------------------------------------------------------------------------------------------

    async def _told(self, incident: str, state: Incident, busy: ProgressCard | None = None) -> Living:
        rows = IncidentRows(state)
        taken = await self.people.name(rows.ticket.taken_by) if rows.ticket and rows.ticket.state == "taken" else ""
        stands = standing(rows, await self._records(incident), taken)
        return Living(incident, _found(rows.report), rows.stats if state.get("stats") else None, stands, busy)

    async def _records(self, incident: str) -> Sequence[Record]:
        try:
            return await self._records_of(incident)
        except Refused as why:
            log.warning("living.records_unreadable", incident=incident, why=str(why)[:200])
            return ()

    async def _origin(self, incident: str) -> Origin | None:
        origin = await self.origin_of(incident)
        return origin if origin is not None and origin.kind == "slack" else None

    async def _for(self, origin: Origin, made: Card) -> Card:
        """The card, unless others can read the channel by now: then the thread is told that, and nothing of the inside."""
        return notes.refused(policy.WHY_NOT["shared"]) if await self.people.shared(origin.channel) else made

    # -- Slack ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _alone(self, incident: str, wait: timedelta = PATIENCE) -> AsyncIterator[bool]:
        async with self.cards.alone(incident, "living", wait=wait) as alone:
            yield alone

    async def _put(self, origin: Origin, incident: str, made: Card) -> None:
        """Edit the message, or post it where there is none any more. Under the lock."""
        looks = hashlib.sha256(json.dumps(made.blocks).encode()).hexdigest()
        item = await self.cards.get(incident, "living_item")
        marked = {"event_type": REPORT, "event_payload": {"item": item}} if item else _first(incident)
        ts = await self.cards.get(incident, "living")
        if ts == POSTING:  # whoever was at it died over it: we hold the lock
            ts = await self._once.find(origin, _first(incident), marked)
        same = bool(ts) and looks == await self.cards.get(incident, "living_looks")
        if not same and (not ts or not await self._edited(origin, ts, made, marked)):
            ts = await self._posted(origin, incident, made, marked)
        await self.cards.set(incident, "living", ts)
        await self.cards.set(incident, "living_looks", looks)

    async def _edited(self, origin: Origin, ts: str, made: Card, marked: dict[str, Any]) -> bool:
        try:
            await self.client.chat_update(channel=origin.channel, ts=ts, metadata=marked, **said(made))
        except SlackApiError as trouble:
            if trouble.response["error"] not in GONE:
                raise
            log.info("living.posted_anew", ts=ts, error=trouble.response["error"])
            return False
        return True

    async def _posted(self, origin: Origin, incident: str, made: Card, marked: dict[str, Any]) -> str:
        await self.cards.set(incident, "living", POSTING)
        try:
            return await post(self.client, origin.channel, origin.thread_ts, made, marked)
        except SlackApiError:
            await self.cards.drop(incident, "living")  # refused, so it is not there; an answer that was lost leaves it to be looked for
            raise


def _first(incident: str) -> dict[str, Any]:
    """By which a message that has no report yet is found again after a crash."""
    return {"event_type": LIVING, "event_payload": {"incident": incident}}


def _opens(state: Incident, report: Report) -> bool:
    """Whether this is the report that the incident was opened for: it stands on the living message, every other one is an answer below."""
    item: Mapping[str, Any] = state.get("item") or {}
    return item.get("kind") == "mention" and item.get("id") == report.item


def _found(report: Report | None) -> Report | None:
    """What was found so far; a direct answer was given where it was asked for, unless it is all there is."""
    return report.model_copy(update={"reply": ""}) if report and (report.headline or report.root_causes) else report
