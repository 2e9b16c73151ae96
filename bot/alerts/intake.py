"""Receive alerts: `POST /alerts/alertmanager` with token or password, `POST /alerts/webhook` signed.

One cause is one incident. The response is sent after the inbox item is stored. An episode has at most one waiting item;
its turn reads the alerts.
"""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from bot.alerts.alert import Alert, AlertTally, hash_cause, parse_alert, render_alert_summary
from bot.alerts.alert_store import AlertStore, RoutedAlert, RoutingSnapshot
from bot.alerts.config import AlertConfig
from bot.alerts.posted_alerts import PostedAlerts, build_group_alert
from bot.alerts.routing import AlertRouting
from bot.alerts.webhook_messages import AlertMessage, UnreadableAlerts, parse_alertmanager_webhook, parse_own_webhook
from bot.inbound import InboundRequest, InboundResponse, InboundRoute
from bot.incidents.dispatch.fingerprint import MAX_HOSTS, IncidentFingerprint
from bot.incidents.dispatch.inbox import Inbox
from bot.policy.channels import can_read_channel
from bot.refusal import Refusal
from bot.signed_messages import UnsignedMessage, check_headers, verify_message
from bot.store.replay_guard import ReplayGuard, ReplayState
from graph.state import ALERTS_RESOLVED, ALERTS_USER, InboxItem, InboxItemKind, Origin
from tools.clock import Clock
from tools.inventory.inventory import ChannelRow

log = structlog.get_logger()
MAX_BODY_BYTES = 2 << 20
SHARING_TIMEOUT_SECONDS = 2.0  # For Slack to say whether a channel is shared; the sender waits meanwhile.
UNAUTHORIZED_ANSWER = InboundResponse(401, {"error": "not from a known sender"})
IN_PROGRESS_ANSWER = InboundResponse(503, {"error": "this message is already being processed"}, after=5)


@dataclass(frozen=True, slots=True)
class AlertIntake:
    """`shared`: whether another organisation reads a channel. `wake`: schedule an incident's turn."""

    site: AlertConfig
    book: AlertStore
    inbox: Inbox
    heard: ReplayGuard
    clock: Clock
    routing: AlertRouting
    bound: Mapping[str, ChannelRow]
    wake: Callable[[str], Awaitable[None]]
    shared: Callable[[str], Awaitable[bool]]

    @property
    def routes(self) -> Sequence[InboundRoute]:
        """The routes whose credentials are configured."""
        has_credentials = bool(self.site.token.get_secret_value() or self.site.user)
        plain = (
            [InboundRoute("/alerts/alertmanager", self.handle_alertmanager, MAX_BODY_BYTES, self.check_token)] if has_credentials else []
        )
        return [
            *plain,
            *(
                [InboundRoute("/alerts/webhook", self.handle_webhook, MAX_BODY_BYTES, self.check_signature_headers)]
                if self.site.keys
                else []
            ),
        ]

    def check_token(self, headers: Mapping[str, str]) -> InboundResponse | None:
        return (
            None
            if is_authorized(self.site, headers.get("Authorization", ""))
            else replace(UNAUTHORIZED_ANSWER, reason="another token or password, or none")
        )

    def check_signature_headers(self, headers: Mapping[str, str]) -> InboundResponse | None:
        try:
            check_headers(headers, self.clock.now())
        except UnsignedMessage as error:
            return replace(UNAUTHORIZED_ANSWER, reason=str(error))
        return None

    async def handle_alertmanager(self, request: InboundRequest) -> InboundResponse:
        if (refusal := self.check_token(request.headers)) is not None:
            return refusal
        return await self._handle_message(partial(parse_alertmanager_webhook, request.body, self.site.labels))

    async def handle_webhook(self, request: InboundRequest) -> InboundResponse:
        try:
            message = verify_message(self.site.get_signing_keys(), request.headers, request.body, self.clock.now())
        except UnsignedMessage as error:
            return replace(UNAUTHORIZED_ANSWER, reason=str(error))
        async with self.heard.guard_message("alerts", message.nonce) as outcome:
            if outcome is ReplayState.IN_PROGRESS:
                return IN_PROGRESS_ANSWER
            if outcome is ReplayState.DONE:
                return InboundResponse(200, {"incidents": []})
            return await self._handle_message(partial(parse_own_webhook, request.body))

    async def _handle_message(self, read: Callable[[], AlertMessage]) -> InboundResponse:
        try:
            message = await asyncio.to_thread(read)
        except UnreadableAlerts as error:
            return InboundResponse(400, {"error": str(error)[:300]})
        return InboundResponse(200, {"incidents": await self.store_message(message)})

    async def store_message(self, message: AlertMessage) -> list[str]:
        """Store the alerts and return the incidents with news."""
        shut = await self._list_shared_channels()
        rows = await asyncio.to_thread(lambda: [RoutedAlert(*self.routing.route_alert(alert, shut)) for alert in message.alerts])
        return await self._store_alerts(rows, RoutingSnapshot(self.routing.table_hash, self.routing.channels - shut), [message])

    async def handle_posted_alerts(self, channel: str, said: Sequence[tuple[str, PostedAlerts]]) -> list[str]:
        """Store alerts that bots posted in a channel, in time order. Skip a message older than one seen of its group."""
        rows, messages = dict[str, Alert](), list[AlertMessage]()
        for ts, message in sorted(said, key=lambda row: float(row[0])):
            if not await self.book.is_newest_message(message.group, ts):
                continue
            ended_alerts = await self._list_ended_alerts(message, rows, messages) if message.over else []
            ended_alerts = ended_alerts or await asyncio.to_thread(self._build_alerts, channel, message)
            if not message.over:
                await self.book.add_to_group(message.group, [ended_alert.id for ended_alert in ended_alerts])
            rows |= {ended_alert.id: ended_alert for ended_alert in ended_alerts}
            messages.append(AlertMessage(ended_alerts, message.left, message.group))
        placed = [RoutedAlert(*self.routing.place_in_channel(row, channel)) for row in rows.values()]
        return await self._store_alerts(placed, RoutingSnapshot(self.routing.table_hash, {channel}), messages)

    async def _list_ended_alerts(self, posted: PostedAlerts, alerts: Mapping[str, Alert], messages: Sequence[AlertMessage]) -> list[Alert]:
        """Return the group's alerts, known or just received, as resolved."""
        just = {
            alert.id: replace(alerts[alert.id], firing=False)
            for message in messages
            if message.group == posted.group
            for alert in message.alerts
        }
        return list({**{row.id: row for row in await self.book.list_group_as_resolved(posted.group)}, **just}.values())

    def _build_alerts(self, channel: str, posted: PostedAlerts) -> list[Alert]:
        """CPU-bound: runs in a thread."""
        names = self.site.labels
        hosts = () if posted.listed else self.routing.find_hosts(posted.text, channel)[:MAX_HOSTS]
        raw = posted.listed or [build_group_alert(posted, host, names.host[0]) for host in hosts or ("",)]
        return [parse_alert(row, names) for row in raw]

    async def _store_alerts(self, alerts: Sequence[RoutedAlert], places: RoutingSnapshot, messages: Sequence[AlertMessage]) -> list[str]:
        episodes = await self.book.assign_episodes(alerts, places)
        stored_counts = [await self._store_episode(episode, rows, messages) for episode, rows in episodes.items()]
        incidents = [incident for incident in stored_counts if incident]
        unlisted_count = sum(message.left for message in messages)
        log.info("alerts.heard", alerts=len(alerts), left=unlisted_count, causes=len(episodes), told=incidents)
        return incidents

    async def _list_shared_channels(self) -> frozenset[str]:
        """Return the route channels that another organisation reads. If Slack is late, the first turn checks again."""
        channels = sorted(self.routing.channels - {self.routing.default}) if self.routing.routes else []
        is_shared = await asyncio.gather(*map(self._is_shared, channels))
        return frozenset(channel for channel, shut in zip(channels, is_shared, strict=True) if shut)

    async def _is_shared(self, channel: str) -> bool:
        try:
            async with asyncio.timeout(SHARING_TIMEOUT_SECONDS):
                return await self.shared(channel)
        except (Refusal, TimeoutError):
            return False

    async def _store_episode(self, episode: str, alerts: Sequence[Alert], messages: Sequence[AlertMessage]) -> str:
        ids = {alert.id for alert in alerts}
        for message in messages:
            if any(alert.id in ids for alert in message.alerts):
                await self.book.store_unlisted_count(episode, message.group, message.left)
        if not (new_alerts := await self.book.store_alerts(episode, alerts)):
            return ""
        tally = await self.book.load_tally(episode)
        incident = await (self._enqueue_resolved(episode) if tally.is_resolved else self._enqueue_firing(episode, tally))
        await self.book.mark_delivered(episode, new_alerts)
        return incident

    async def _enqueue_firing(self, episode: str, counted: AlertTally) -> str:
        """Add one waiting item to the episode's incident, or to one with the same hosts or cause."""
        batch, channel = await self.book.get_batch(episode), await self.book.get_channel(episode)
        origin = Origin(kind="slack", channel=channel, alert=episode)
        kind: InboxItemKind = "reply" if await self.inbox.find_incident(*origin.source_key) else "mention"
        speaks_of = self.routing.hosts.get(channel, ())
        known_hosts = tuple(host for host in counted.hosts if host in speaks_of)
        fingerprint = IncidentFingerprint(known_hosts[:MAX_HOSTS], alert=hash_cause(counted.cause, channel))
        make = partial(
            self._build_item, f"alerts:{episode}:{batch}", kind, render_alert_summary(counted), {"alerts": episode, "batch": batch}
        )
        joins = partial(self._can_join, channel)
        received = await self.inbox.open_or_join(
            origin, f"alerts:{episode}:{batch}", make, fingerprint=fingerprint, may_join=joins, drop_repeats=False
        )
        if received.joined:
            await self.inbox.bind_thread(received.incident, *origin.source_key)
        await self.book.link_incident(episode, received.incident)
        if not received.duplicate:
            await self.wake(received.incident)
        return received.incident

    async def _enqueue_resolved(self, episode: str) -> str:
        """Tell the incident that all its alerts resolved; it decides. At most one such item waits."""
        incident = await self.inbox.find_incident(*Origin(channel=await self.book.get_channel(episode), alert=episode).source_key)
        if incident is None:
            return ""
        batch = await self.book.get_batch(episode)
        key = f"alerts:{episode}:over:{batch}"
        data = {"why": ALERTS_RESOLVED, "alerts": episode, "batch": batch}
        if await self.inbox.enqueue(self._build_item(key, "timer", "", data, incident), key):
            await self.wake(incident)
        return incident

    async def _can_join(self, channel: str, incident: str) -> bool:
        """Return whether the alerts may join an open incident.

        Routed alerts stay in their channel. Alerts in the default channel may join people's incidents in channels that
        may read the default channel.
        """
        other = await self.inbox.get_origin(incident)
        if other is None or other.tenant or other.channel not in self.bound:
            return False
        if other.channel == channel:
            return True
        own_binding, other_binding = self.bound.get(channel), self.bound[other.channel]
        return (
            own_binding is not None and channel == self.routing.default and not other.alert and can_read_channel(other_binding, own_binding)
        )

    def _build_item(self, key: str, kind: InboxItemKind, text: str, data: Mapping[str, object], incident: str) -> InboxItem:
        return InboxItem(id=key, kind=kind, incident=incident, at=self.clock.now(), user=ALERTS_USER, text=text, data=dict(data))


def is_authorized(site: AlertConfig, header: str) -> bool:
    """Return whether the Authorization header holds the site's token or user and password. Constant time."""
    token, password = site.token.get_secret_value(), site.password.get_secret_value()
    basic = base64.b64encode(f"{site.user}:{password}".encode()).decode()
    credentials = [f"Bearer {token}"] * bool(token) + [f"Basic {basic}"] * bool(site.user)
    given_digest = hashlib.sha256(header[:4096].encode("utf-8", "surrogateescape")).digest()
    right = [hmac.compare_digest(given_digest, hashlib.sha256(credential.encode()).digest()) for credential in credentials]
    return any(right)
