"""Invariants of the inbound and outbound interfaces, one story each, run on the imported product. Each raises
AssertionError on a broken promise. Only the story's own servers and clocks are used.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from fakeredis import FakeAsyncRedis
from slack_sdk.signature import SignatureVerifier

from bot.alerts.alert import Alert, count_alerts
from bot.alerts.alert_store import AlertStore, RoutedAlert, RoutingSnapshot
from bot.alerts.config import AlertConfig
from bot.alerts.intake import is_authorized
from bot.alerts.routing import AlertRouting
from bot.app.http.guard import InboundLimits
from bot.app.http.server import serve_routes
from bot.inbound import InboundRequest, InboundResponse, InboundRoute
from bot.signed_messages import UnsignedMessage, build_signed_headers, verify_message
from bot.slack.http.delivery import SIGNATURE_HEADER, TIMESTAMP_HEADER, NotSlack, verify_signature
from bot.store.external_outbox import ClickResult, Outbox, build_tracker_outbox_keys
from bot.store.replay_guard import ReplayGuard, ReplayState
from graph.engine.assessment import Assessment
from graph.incident.answers.item_answers import HANDLERS_BY_KIND
from graph.incident.context import IncidentContext, TurnState
from graph.state import ALERTS_RESOLVED, ALERTS_USER, IncidentState, Remediation
from tests.support.clock import SetClock

STORIES = ("i23_signed", "i24_once", "i25_by_itself", "i26_confirmed", "i29_routed", "i31_besieged")
NOW, BODY, SECRET, KEY = datetime(2026, 5, 20, 3, 10, tzinfo=UTC), b'{"alerts": []}', "8f742231b10e8888", b"k" * 32
OFF = (-301, 301)  # seconds of clock difference that are too much, in either direction


def tell(story: str) -> str:
    """Return the story's complaint, or ""."""
    try:
        asyncio.run(globals()[story]())
    except Exception as error:  # any exception is a complaint
        return f"{type(error).__name__}: {error}"
    return ""


async def i23_signed() -> None:
    """A request counts if its signature covers its exact bytes and time; a token, if it is the site's."""

    def slack(at: datetime, secret: str = SECRET, body: bytes = BODY) -> bool:
        timestamp = str(int(at.timestamp()))
        signed = str(SignatureVerifier(secret).generate_signature(timestamp=timestamp, body=BODY))
        try:
            verify_signature(SECRET, {TIMESTAMP_HEADER: timestamp, SIGNATURE_HEADER: signed}, body, NOW)
        except NotSlack:
            return False
        return True

    def hook(at: datetime, key: bytes = KEY, body: bytes = BODY) -> bool:
        try:
            verify_message((KEY,), build_signed_headers(key, "msg_0123456789", at, body), BODY, NOW)
        except UnsignedMessage:
            return False
        return True

    assert slack(NOW)
    assert hook(NOW)
    for off in OFF:
        assert not slack(NOW + timedelta(seconds=off)), f"I23: Slack's request {off} seconds off counts"
        assert not hook(NOW + timedelta(seconds=off)), f"I23: a message {off} seconds off counts"
    assert not slack(NOW, secret="another"), "I23: another secret signs"
    assert not slack(NOW, body=BODY + b" "), "I23: other bytes are signed"
    assert not hook(NOW, key=b"x" * 32), "I23: another key signs"
    assert not hook(NOW, body=BODY + b" "), "I23: other bytes are signed"
    site = AlertConfig.model_validate({"channel": "C1", "token": SECRET})
    assert is_authorized(site, f"Bearer {SECRET}")
    assert not any(is_authorized(site, header) for header in ("", "Bearer", f"Bearer {SECRET}x", f"Basic {SECRET}")), (
        "I23: another token admits"
    )


async def i24_once() -> None:
    """A handled message has no second effect, a failed one may be retried, and only one process handles it."""
    async with FakeAsyncRedis() as redis:
        heard = ReplayGuard(redis, timedelta(minutes=15))
        with contextlib.suppress(ConnectionError):
            async with heard.guard_message("room", "sign") as first:
                assert first is ReplayState.FIRST
                async with heard.guard_message("room", "sign") as beside:
                    assert beside is not ReplayState.FIRST, "I24: two hear one message at once"
                raise ConnectionError
        async with heard.guard_message("room", "sign") as again:
            assert again is ReplayState.FIRST, "I24: what could not be stored is never heard again"
        async with heard.guard_message("room", "sign") as replayed:
            assert replayed is ReplayState.DONE, "I24: a replay counts"


async def i25_by_itself() -> None:
    """An incident closes by its alerts only if no person touched it and no alert may still fire."""
    fires, over = Alert("a", "FanSlow", firing=True), Alert("a", "FanSlow", firing=False)
    assert count_alerts("FanSlow", [over]).is_resolved
    assert not count_alerts("FanSlow", [fires]).is_resolved, "I25: it ends while an alert fires"
    assert not replace(count_alerts("FanSlow", [over]), more=1).is_resolved, "I25: it ends while what is not kept may fire"
    assert not replace(count_alerts("FanSlow", [over]), left=1).is_resolved, "I25: it ends while what is not listed may fire"
    assert _ended() == "closed"
    touched: tuple[Mapping[str, Any], ...] = (
        {"ladders": [Remediation(id="lad-1", label="GPU.BUS.Lost", target="gpu-001").model_dump(mode="json")]},
        {"owner": "U1"},
        {"said": [{"user": "U1", "text": "me too", "at": "", "attachments": []}]},
        {"item": {**_ITEM, "data": {"why": ALERTS_RESOLVED, "people": True}}},
    )
    for state in touched:
        assert _ended(**state) is None, f"I25: it ends by itself in spite of {state}"


_ITEM = {"id": "alerts:e:over:0", "kind": "timer", "incident": "inc-1", "at": NOW.isoformat(), "data": {"why": ALERTS_RESOLVED}}


def _ended(**more: Any) -> str | None:
    state = {
        "id": "inc-1",
        "item": _ITEM,
        "origin": {"kind": "slack", "channel": "C", "alert": "e"},
        "said": [{"user": ALERTS_USER, "text": "x", "at": "", "attachments": []}],
        **more,
    }
    return HANDLERS_BY_KIND["timer"](
        IncidentContext(cast(IncidentState, state), TurnState(), ("gpu-001",)), cast(Assessment, None)
    ).lifecycle


async def i26_confirmed() -> None:
    """Only a shown and confirmed document goes to a tracker, and only once."""
    async with FakeAsyncRedis() as redis:
        outbox, name = Outbox(redis, SetClock(NOW), build_tracker_outbox_keys()), "inc-1 jira"
        old = await outbox.save_draft(name, b'{"title": "old"}')
        assert await outbox.claim_due() == [], "I26: what was only shown leaves"
        new = await outbox.save_draft(name, b'{"title": "new"}')
        assert await outbox.queue_draft(name, old, "U1", once=True) is ClickResult.OLD, "I26: what is not shown any more leaves"
        assert await outbox.claim_due() == [], "I26: what is not shown any more leaves"
        assert await outbox.queue_draft(name, new, "U1", once=True) is ClickResult.SENT
        assert (await outbox.load_row(name)).document == b'{"title": "new"}', "I26: something else leaves than was shown"
        assert len(await outbox.claim_due()) == 1
        assert await outbox.claim_due() == [], "I26: two have it in hand at once"
        assert await outbox.begin_sending(name) is not None
        assert await outbox.begin_sending(name) is None, "I26: two have it in hand at once"
        later = await outbox.save_draft(name, b'{"title": "later"}')
        assert await outbox.queue_draft(name, later, "U2", once=True) is ClickResult.BEFORE, "I26: it leaves twice"


async def i31_besieged() -> None:
    """Held connections and slow bodies do not block other clients; a bad header is refused before the body arrives."""

    async def hear(request: InboundRequest) -> InboundResponse:
        return InboundResponse(200, "heard")

    def judge(headers: Mapping[str, str]) -> InboundResponse | None:
        return None if headers.get("X-Key") == SECRET else InboundResponse(401)

    long = 1e4
    limits = InboundLimits(2, 8, long, long, long, long)
    begun = f"POST /told HTTP/1.1\r\nHost: x\r\nX-Key: {SECRET}\r\nContent-Length: 4\r\n\r\n".encode()
    async with serve_routes("127.0.0.1", 0, [InboundRoute("/told", hear, 100, judge)], limits) as port:
        for attack in (b"", begun):
            held = [await _said(port, attack) for _ in range(12)]
            ours = await _said(port, b"")
            held += [await _said(port, attack)]
            ours[1].write(begun + b"BODY")
            line = await _line(ours[0])
            for _, writer in (*held, ours):
                writer.close()
            assert b" 200 " in line, "I31: strangers keep others out"
        reader, writer = await _said(port, begun.replace(SECRET.encode(), b"another"))
        line = await _line(reader)
        writer.close()
        assert b" 401 " in line, "I31: a body is awaited that its head rules out"


async def _said(port: int, what: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(what)
    return reader, writer


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Return the answer's first line, or b""."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(1.5):
            return await reader.readline()
    return b""


async def i29_routed() -> None:
    """The first route with all matchers wins, never in a channel that others read, never beyond a channel's hosts; an
    open episode stays.
    """
    routes = [{"channel": "C2", "matchers": ["team=a", 'name=~"Di.k"']}, {"channel": "C1", "matchers": ["team=a"]}]
    hosts = {"C1": ("gpu-001", "gpu-002"), "C2": ("gpu-001",)}
    site = AlertConfig.model_validate({"channel": "C1", "token": SECRET, "routes": routes})
    now, disk = site.build_routing(hosts, ("gpu-001", "gpu-002")), {"team": "a", "name": "Disk"}
    assert now.find_place(disk).channel == "C2", "I29: the first route does not win"
    assert now.find_place({"team": "a", "name": "MyDisk"}).channel == "C1", "I29: a part of a value is the whole"
    assert now.find_place({"team": "b", "name": "Disk"}).channel == "C1", "I29: one matcher of two is enough"
    assert now.find_place(disk, shut=("C2",)).channel == "C1", "I29: it opens where others read"
    assert site.build_routing({"C1": hosts["C1"]}).find_place(disk).channel == "C1", "I29: it opens where the operators are not"
    assert now.route_alert(Alert("f", "Hot", firing=True, host="gpu-001", labels=disk))[1].channel == "C2"
    assert now.route_alert(Alert("f", "Hot", firing=True, host="gpu-002", labels=disk))[1].channel == "C1", (
        "I29: a channel is told of others' hosts"
    )
    then = AlertConfig.model_validate({"channel": "C1", "token": SECRET}).build_routing(hosts)
    async with FakeAsyncRedis() as redis:
        book = AlertStore(redis)

        async def episode(sign: str, labels: Mapping[str, str], table: AlertRouting, shut: str = "") -> str:
            alert = Alert(sign, "Hot", firing=True, labels=labels)
            places = RoutingSnapshot(table.table_hash, table.channels - {shut})
            [found] = await book.assign_episodes([RoutedAlert(*table.route_alert(alert, (shut,)))], places)
            await book.store_alerts(found, [alert])
            return found

        first = await episode("a", disk, now)
        assert await book.get_channel(first) == "C2", "I29: one cause in two channels is one episode"
        assert await episode("c", disk, then) == first, "I29: an episode that is open is doubled by another file"
        assert await episode("a", disk, then) == first, "I29: what fires moves with the file"
        assert await episode("b", {}, now) != first, "I29: one cause in two channels is one episode"
        assert await book.get_channel(await episode("a", disk, then, shut="C2")) == "C1", "I29: it goes on where others read"
