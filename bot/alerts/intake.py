"""Alerts over HTTP → one incident a cause: `POST /alerts/alertmanager` with a token or a password, `POST /alerts/webhook` signed.

It fills the inbox and answers once that is done. However many alerts come, an incident has one item of them that waits; what they are is read when
its turn begins.
"""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from bot.alerts.alert import Alert, AlertTally, digest, read_alert, words_of
from bot.alerts.book import AlertBook, OpenPlaces, Routed
from bot.alerts.posted import PostedAlerts, group_row
from bot.alerts.read import AlertMessage, UnreadableAlerts, read_alertmanager, read_told
from bot.alerts.routing import AlertRouting
from bot.alerts.site import AlertSite
from bot.desk.concern import MOST_HOSTS, Concern
from bot.desk.inbox import Inbox
from bot.inbound.routes import InboundAnswer, InboundRequest, InboundRoute
from bot.inbound.webhook import Unsigned, judge_head, verified
from bot.policy.channels import may_read
from bot.refusal import Refusal
from bot.store.heard import HeardOnce, Hearing
from graph.state import ALERTED, ALERTS_OVER, Item, ItemKind, Origin
from tools.clock import Clock
from tools.inventory.hosts import ChannelRow

log = structlog.get_logger()
MOST_BODY = 2 << 20
LONGEST_ASKED = 2.0
"""Seconds in which Slack may tell whether a channel is shared; whoever sends alerts waits meanwhile."""
NOBODY = InboundAnswer(401, {"error": "not from somebody who is known here"})
AGAIN = InboundAnswer(503, {"error": "this very message is being heard"}, after=5)


@dataclass(frozen=True, slots=True)
class AlertIntake:
    """`shared`: whether somebody else reads a channel. `wake` has an incident looked at."""

    site: AlertSite
    book: AlertBook
    inbox: Inbox
    heard: HeardOnce
    clock: Clock
    routing: AlertRouting
    bound: Mapping[str, ChannelRow]
    wake: Callable[[str], Awaitable[None]]
    shared: Callable[[str], Awaitable[bool]]

    @property
    def routes(self) -> Sequence[InboundRoute]:
        """Those whose senders the site names."""
        known = bool(self.site.token.get_secret_value() or self.site.user)
        plain = [InboundRoute("/alerts/alertmanager", self.alertmanager, MOST_BODY, self.judge_token)] if known else []
        return [*plain, *([InboundRoute("/alerts/webhook", self.webhook, MOST_BODY, self.judge_head)] if self.site.keys else [])]

    def judge_token(self, headers: Mapping[str, str]) -> InboundAnswer | None:
        """Refuse who does not have the site's token or password."""
        return None if admitted(self.site, headers.get("Authorization", "")) else replace(NOBODY, why="another token or password, or none")

    def judge_head(self, headers: Mapping[str, str]) -> InboundAnswer | None:
        """Refuse what none of the site's keys can have signed, by its headers alone."""
        try:
            judge_head(headers, self.clock.now())
        except Unsigned as why:
            return replace(NOBODY, why=str(why))
        return None

    async def alertmanager(self, request: InboundRequest) -> InboundAnswer:
        if (no := self.judge_token(request.headers)) is not None:
            return no
        return await self._read(partial(read_alertmanager, request.body, self.site.labels))

    async def webhook(self, request: InboundRequest) -> InboundAnswer:
        try:
            message = verified(self.site.signing(), request.headers, request.body, self.clock.now())
        except Unsigned as why:
            return replace(NOBODY, why=str(why))
        async with self.heard.hearing("alerts", message.nonce) as what:
            if what is Hearing.GOES_ON:
                return AGAIN
            if what is Hearing.BEFORE:
                return InboundAnswer(200, {"incidents": []})
            return await self._read(partial(read_told, request.body))

    async def _read(self, read: Callable[[], AlertMessage]) -> InboundAnswer:
        try:
            message = await asyncio.to_thread(read)
        except UnreadableAlerts as why:
            return InboundAnswer(400, {"error": str(why)[:300]})
        return InboundAnswer(200, {"incidents": await self.take_in(message)})

    async def take_in(self, message: AlertMessage) -> list[str]:
        """Store them; the incidents that are told of news."""
        shut = await self._shut()
        rows = await asyncio.to_thread(lambda: [Routed(*self.routing.placed(row, shut)) for row in message.alerts])
        return await self._take(rows, OpenPlaces(self.routing.sign, self.routing.channels - shut), [message])

    async def posted(self, channel: str, said: Sequence[tuple[str, PostedAlerts]]) -> list[str]:
        """What other bots posted in a channel, each at its time, belongs there. Who comes after a newer message of the same group is no news."""
        rows, messages = dict[str, Alert](), list[AlertMessage]()
        for ts, one in sorted(said, key=lambda row: float(row[0])):
            if not await self.book.newest(one.group, ts):
                continue
            found = await self._ended(one, rows, messages) if one.over else []
            found = found or await asyncio.to_thread(self._rows_of, channel, one)
            if not one.over:
                await self.book.in_group(one.group, [row.id for row in found])
            rows |= {row.id: row for row in found}
            messages.append(AlertMessage(found, one.left, one.group))
        placed = [Routed(*self.routing.here(row, channel)) for row in rows.values()]
        return await self._take(placed, OpenPlaces(self.routing.sign, {channel}), messages)

    async def _ended(self, one: PostedAlerts, rows: Mapping[str, Alert], before: Sequence[AlertMessage]) -> list[Alert]:
        """All of a group that are known, or that came just before."""
        just = {row.id: replace(rows[row.id], firing=False) for message in before if message.group == one.group for row in message.alerts}
        return list({**{row.id: row for row in await self.book.ended(one.group)}, **just}.values())

    def _rows_of(self, channel: str, said: PostedAlerts) -> list[Alert]:
        """Long work."""
        names = self.site.labels
        hosts = () if said.listed else self.routing.hosts_named(said.text, channel)[:MOST_HOSTS]
        raw = said.listed or [group_row(said, host, names.host[0]) for host in hosts or ("",)]
        return [read_alert(row, names) for row in raw]

    async def _take(self, rows: Sequence[Routed], places: OpenPlaces, messages: Sequence[AlertMessage]) -> list[str]:
        episodes = await self.book.episodes_of(rows, places)
        told = [await self._episode(episode, rows, messages) for episode, rows in episodes.items()]
        incidents = [incident for incident in told if incident]
        left = sum(row.left for row in messages)
        log.info("alerts.heard", alerts=len(rows), left=left, causes=len(episodes), told=incidents)
        return incidents

    async def _shut(self) -> frozenset[str]:
        """Channels beside the default one that somebody else reads by now. Of what Slack does not tell in time the first turn's message decides."""
        channels = sorted(self.routing.channels - {self.routing.default}) if self.routing.routes else []
        told = await asyncio.gather(*map(self._is_shut, channels))
        return frozenset(channel for channel, shut in zip(channels, told, strict=True) if shut)

    async def _is_shut(self, channel: str) -> bool:
        try:
            async with asyncio.timeout(LONGEST_ASKED):
                return await self.shared(channel)
        except (Refusal, TimeoutError):
            return False

    async def _episode(self, episode: str, rows: Sequence[Alert], messages: Sequence[AlertMessage]) -> str:
        ids = {row.id for row in rows}
        for message in messages:
            if any(row.id in ids for row in message.alerts):
                await self.book.lists_not(episode, message.group, message.left)
        if not (news := await self.book.note(episode, rows)):
            return ""
        counted = await self.book.tally(episode)
        incident = await (self._over(episode) if counted.over else self._fires(episode, counted))
        await self.book.told(episode, news)
        return incident

    async def _fires(self, episode: str, counted: AlertTally) -> str:
        """An item of what fires, in the episode's incident or in one that concerns the same; at most one waits."""
        batch, channel = await self.book.batch(episode), await self.book.channel(episode)
        origin = Origin(kind="slack", channel=channel, alert=episode)
        kind: ItemKind = "reply" if await self.inbox.find(*origin.door) else "mention"
        speaks_of = self.routing.hosts.get(channel, ())
        known = tuple(host for host in counted.hosts if host in speaks_of)
        about = Concern(known[:MOST_HOSTS], alert=digest(counted.cause, channel))
        make = partial(self._item, f"alerts:{episode}:{batch}", kind, words_of(counted), {"alerts": episode, "batch": batch})
        joins = partial(self._joins, channel)
        received = await self.inbox.open(origin, f"alerts:{episode}:{batch}", make, about=about, joins=joins, repeats=False)
        if received.joined:
            await self.inbox.bind(received.incident, *origin.door)
        await self.book.belongs(episode, received.incident)
        if not received.duplicate:
            await self.wake(received.incident)
        return received.incident

    async def _over(self, episode: str) -> str:
        """All of them are over: the incident hears it, and decides what that means; at most one such item waits."""
        incident = await self.inbox.find(*Origin(channel=await self.book.channel(episode), alert=episode).door)
        if incident is None:
            return ""
        batch = await self.book.batch(episode)
        key = f"alerts:{episode}:over:{batch}"
        data = {"why": ALERTS_OVER, "alerts": episode, "batch": batch}
        if await self.inbox.enqueue(self._item(key, "timer", "", data, incident), key):
            await self.wake(incident)
        return incident

    async def _joins(self, channel: str, incident: str) -> bool:
        """Whether an open incident may be told. What a route leads to a channel is told there; what none leads anywhere is told of where people
        reported it, if the default channel may be spoken to of that place."""
        other = await self.inbox.origin(incident)
        if other is None or other.tenant or other.channel not in self.bound:
            return False
        if other.channel == channel:
            return True
        here, there = self.bound.get(channel), self.bound[other.channel]
        return here is not None and channel == self.routing.default and not other.alert and may_read(there, here)

    def _item(self, key: str, kind: ItemKind, text: str, data: Mapping[str, object], incident: str) -> Item:
        return Item(id=key, kind=kind, incident=incident, at=self.clock.now(), user=ALERTED, text=text, data=dict(data))


def admitted(site: AlertSite, header: str) -> bool:
    """Whether the Authorization header is that of the site's token, or of its user and password; in constant time."""
    token, password = site.token.get_secret_value(), site.password.get_secret_value()
    basic = base64.b64encode(f"{site.user}:{password}".encode()).decode()
    known = [f"Bearer {token}"] * bool(token) + [f"Basic {basic}"] * bool(site.user)
    given = hashlib.sha256(header[:4096].encode("utf-8", "surrogateescape")).digest()
    right = [hmac.compare_digest(given, hashlib.sha256(one.encode()).digest()) for one in known]
    return any(right)
