"""The alert webhook: authentication, grouping of alerts into incidents, and bounds on an alert storm."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from fakeredis import FakeAsyncRedis, FakeServer
from redis.asyncio import Redis

from bot.alerts.alert import Alert, AlertLabels, RawAlert, parse_alert, render_alert_summary
from bot.alerts.alert_store import MAX_GROUPS, MAX_NEW_EPISODES, AlertStore, RoutedAlert, RoutingSnapshot
from bot.alerts.config import AlertConfig, BadAlerts, load_alert_config
from bot.alerts.intake import AlertIntake
from bot.alerts.threads import AlertThreads, render_alert_card
from bot.alerts.webhook_messages import UnreadableAlerts, parse_alertmanager_webhook
from bot.app.alerts import load_alert_site
from bot.app.http.guard import InboundLimits
from bot.app.http.server import serve_routes
from bot.cli.doctor.integrations import check_alerts
from bot.inbound import InboundRequest, InboundResponse, build_signed_headers
from bot.incidents.dispatch.fingerprint import IncidentFingerprint
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.thread_activity import ThreadActivity
from bot.policy.channels import build_channel_bindings
from bot.settings import BadSettings, load_settings
from bot.slack.client import build_slack_client
from bot.slack.people import People
from bot.slack.posted_messages import PostedCards
from bot.store.replay_guard import ReplayGuard
from graph.state import ALERTS_REFIRED, ALERTS_RESOLVED, InboxItem, InboxItemKind, Origin
from tests.support.clock import SetClock
from tests.support.fakes_bot import ACME, OPS
from tests.support.inventories import inventory
from tools.inventory.inventory import ChannelRow

pytestmark = pytest.mark.slow


HOSTS = tuple(f"gpu-{n:03}" for n in range(1, 129))
TOKEN, KEY = "a-token-of-some-length", "whsec_" + "QUJD" * 12
BEARER = {"Authorization": f"Bearer {TOKEN}"}
BOUND = build_channel_bindings((ChannelRow(channel=OPS), ChannelRow(channel=ACME, kind="tenant", tenant="acme", internal=OPS)))
INVENTORY = inventory(groups={"train": {"hosts": "gpu-[001-128]"}}, channels=[{"channel": OPS, "kind": "operators"}])


@dataclass
class Bell:
    """An alert intake with its own Redis."""

    redis: Redis
    clock: SetClock = field(default_factory=SetClock)
    woken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        site = AlertConfig.model_validate({"channel": OPS, "token": TOKEN, "user": "am", "password": "p" * 16, "keys": (KEY,)})
        self.inbox, self.book = Inbox(self.redis, self.clock), AlertStore(self.redis)
        heard = ReplayGuard(self.redis, timedelta(minutes=15))
        routing = site.build_routing({OPS: frozenset(HOSTS)}, frozenset(HOSTS))
        self.intake = AlertIntake(site, self.book, self.inbox, heard, self.clock, routing, BOUND, self._wake, nobody_else)

    async def _wake(self, incident: str) -> None:
        self.woken.append(incident)

    async def send(self, *alerts: dict[str, Any], headers: dict[str, str] = BEARER) -> InboundResponse:
        return await self.intake.handle_alertmanager(InboundRequest(headers, message(alerts)))

    async def items(self) -> list[InboxItem]:
        return [item for incident in await self.inbox.list_open_incidents() for item in await self.inbox.list_waiting(incident)]


async def nobody_else(channel: str) -> bool:
    return False


@pytest.fixture
async def bell() -> AsyncIterator[Bell]:
    async with FakeAsyncRedis() as redis:
        yield Bell(redis)


def message(alerts: Sequence[dict[str, Any]], **more: Any) -> bytes:
    return json.dumps({"version": "4", "groupKey": "{}", "status": "firing", "alerts": list(alerts), **more}).encode()


def alert(n: int, name: str = "GPUFellOffTheBus", *, status: str = "firing", summary: str = "", **labels: str) -> dict[str, Any]:
    """Return an Alertmanager alert of the n-th host."""
    where = {"alertname": name, "instance": f"{HOSTS[n]}:9400", "job": "dcgm", **labels}
    return {"status": status, "labels": where, "annotations": {"summary": summary}, "fingerprint": f"{name.lower()}{n:04}"}


async def episodes_of(bell: Bell, rows: Sequence[Alert]) -> dict[str, list[Alert]]:
    places = RoutingSnapshot(bell.intake.routing.table_hash, bell.intake.routing.channels)
    return await bell.book.assign_episodes([RoutedAlert(*bell.intake.routing.route_alert(row)) for row in rows], places)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN} ", "Basic YW06cHBwcHBwcHBwcHBwcHBwcHA=", "Bearer \udcff"]
)
async def test_who_has_not_the_token_or_the_password_has_no_effect(bell: Bell, header: str) -> None:
    assert (await bell.send(alert(1), headers={"Authorization": header})).status == 401
    assert await bell.items() == []


async def test_a_token_or_a_password_admits(bell: Bell) -> None:
    assert (await bell.send(alert(1))).status == 200
    assert (await bell.send(alert(2), headers={"Authorization": "Basic YW06cHBwcHBwcHBwcHBwcHBwcA=="})).status == 200


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"no json", b"{}", b'{"version": "3", "alerts": []}', b"[" * 100_000, b'{"version":"4","alerts":7}']
)
async def test_what_is_no_message_is_refused_in_words(bell: Bell, body: bytes) -> None:
    answer = await bell.intake.handle_alertmanager(InboundRequest(BEARER, body))
    assert (answer.status, bool(answer.body)) == (400, True)


def test_labels_tell_host_device_and_xid_by_the_names_of_the_exporters() -> None:
    labels = {"alertname": "XidError", "Hostname": "gpu-017", "instance": "10.0.0.7:9400", "gpu": "3", "err_code": "79", "severity": "page"}
    read = parse_alert(RawAlert("f", firing=True, labels=labels), AlertLabels())
    assert (read.host, read.device, read.xid, read.cause) == ("gpu-017", "3", "79", "Xid 79")
    told = parse_alert(RawAlert("f", firing=True, labels={"alertname": "Gpu"}, notes={"summary": "Xid 48 seen"}), AlertLabels())
    assert told.xid == "48"
    assert parse_alert(RawAlert("f", firing=True, labels={**labels, "leaf": "sw-3"}), AlertLabels()).cause == "leaf sw-3"


def test_secrets_and_long_words_of_a_monitoring_system_are_not_kept() -> None:
    row = {"labels": {"alertname": "x" * 5000, "instance": "gpu-001"}, "annotations": {"summary": "password=hunter2hunter2 " + "y" * 9000}}
    [read] = parse_alertmanager_webhook(message([row]), AlertLabels()).alerts
    assert ("hunter2" in read.summary, len(read.summary) <= 300, len(read.name) <= 80) == (False, True, True)


DASHES = "-" * 5


@pytest.mark.parametrize(
    "summary",
    [
        f"failed with {DASHES}BEGIN PRIVATE KEY{DASHES}\n{'hunter2Z' * 8}\n{'hunter2Z' * 8}\n{DASHES}END PRIVATE KEY{DASHES}",
        "the password is:\n\nhunter2hunter2",
        "password:\n  hunter2hunter2",
        "env:\n- name: DB_PASSWORD\n  value: hunter2hunter2",
        "kind: Secret\ndata:\n  a: hunter2hunter2",
        "password=" + " " * 20 + "hunter2hunter2",
        "token=" + "x" * 580 + " hunter2 hf_hunter2",
        'sent {"a": "{\\"password\\": \\"hunter2hunter2\\"}"}',
        "password=a1b2c3d4 " * 40 + "HF hf_hunter2hunter2hunter2hunter2",
    ],
    ids=lambda text: text[:24],
)
def test_a_secret_over_lines_is_gone_before_its_lines_are_joined(summary: str) -> None:
    [read] = parse_alertmanager_webhook(
        message([{"labels": {"alertname": "A", "instance": "gpu-001"}, "annotations": {"summary": summary}}]), AlertLabels()
    ).alerts
    assert "hunter2hunter2" not in read.summary
    assert "\n" not in read.summary
    assert len(read.summary) <= 300


def test_what_a_message_counts_and_does_not_hold_is_counted() -> None:
    assert parse_alertmanager_webhook(message([alert(1)], truncatedAlerts=7), AlertLabels()).left == 7
    with pytest.raises(UnreadableAlerts):
        parse_alertmanager_webhook(b"{}", AlertLabels())


async def test_half_a_letter_or_a_hidden_one_in_one_alert_keeps_none_of_the_others_from_being_heard(bell: Bell) -> None:
    hidden = [alert(4, "Hot\ud800"), alert(5, "Hot", summary="gone \udfff"), alert(6, "Hot\u202etoh", summary="\x1b[2Jat \x00")]
    assert (await bell.send(*hidden, alert(7, "Cold"))).status == 200
    texts = "\n".join(item.text for item in await bell.items())
    assert [host for host in ("gpu-005", "gpu-006", "gpu-007", "gpu-008") if host not in texts] == []
    assert [char for char in "\ud800\udfff\u202e\x1b\x00" if char in texts] == []


async def test_an_alert_opens_one_incident_however_often_it_is_sent(bell: Bell) -> None:
    for _ in range(3):
        assert (await bell.send(alert(16, summary="Xid 79: a GPU fell off the bus"))).status == 200
    [item] = await bell.items()
    assert (item.kind, item.user) == ("mention", "alerts")
    assert item.text == "Alerts of Xid 79: 1 firing on gpu-017.\nGPUFellOffTheBus on gpu-017 (Xid 79: Xid 79: a GPU fell off the bus)"
    assert len(bell.woken) == 1


async def test_many_alerts_of_one_switch_are_one_incident_with_one_item_that_waits(bell: Bell) -> None:
    for n in range(160):
        await bell.send(alert(n % 128, f"LinkDown{n // 128}", leaf="sw-3"))
    [item] = await bell.items()
    counted = await bell.book.load_tally(item.data["alerts"])
    assert (counted.firing, len(counted.hosts), len(bell.woken)) == (160, 128, 1)
    assert render_alert_summary(counted).startswith("Alerts of leaf sw-3: 160 firing on gpu-[001-128].")


async def test_five_hundred_alerts_in_one_message_are_one_incident(bell: Bell) -> None:
    await bell.send(*(alert(n % 128, f"LinkDown{n // 128}", leaf="sw-3") for n in range(500)))
    assert (len(await bell.items()), len(bell.woken)) == (1, 1)


async def test_what_comes_while_a_turn_runs_is_one_more_item(bell: Bell) -> None:
    await bell.send(alert(1, leaf="sw-3"))
    [first] = await bell.items()
    await bell.book.close_batch(first.data["alerts"], first.data["batch"])
    for n in range(2, 40):
        await bell.send(alert(n, leaf="sw-3"))
    assert [item.kind for item in await bell.items()] == ["mention", "reply"]


async def test_a_storm_of_causes_opens_a_bounded_number_of_incidents(bell: Bell) -> None:
    for n in range(128):
        await bell.send(alert(n, f"Strange{n}"))
    assert len(await bell.inbox.list_open_incidents()) == MAX_NEW_EPISODES + 1
    assert len(await bell.items()) == MAX_NEW_EPISODES + 1


async def test_an_alert_of_a_host_that_people_reported_joins_their_incident(bell: Bell) -> None:
    theirs = await bell.inbox.open_or_join(
        Origin(kind="slack", team="T", channel=OPS, thread_ts="1.0"),
        "k",
        lambda incident: InboxItem(id="k", kind="mention", incident=incident, at=bell.clock.now()),
        fingerprint=IncidentFingerprint(("gpu-017",)),
    )
    await bell.send(alert(16))
    assert [(item.incident, item.kind) for item in await bell.items()] == [(theirs.incident, "mention"), (theirs.incident, "reply")]
    await bell.send(alert(16, status="resolved"))
    assert (await bell.items())[-1].data["why"] == ALERTS_RESOLVED


async def test_a_new_alert_after_the_window_is_told_to_the_incident_of_its_cause_that_is_still_open(bell: Bell) -> None:
    await bell.send(alert(1, "FanSlow"))
    [first] = await bell.items()
    await bell.book.close_batch(first.data["alerts"], first.data["batch"])
    await bell.redis.delete(*[key async for key in bell.redis.scan_iter("rm:alerts:now:*")])  # the window has passed
    for _ in range(2):
        await bell.send(alert(9, "FanSlow"))
    [_, second] = await bell.items()
    assert (second.kind, second.incident, second.text) == (
        "reply",
        first.incident,
        "Alerts of FanSlow: 1 firing on gpu-010.\nFanSlow on gpu-010",
    )
    assert bell.woken == [first.incident] * 2


async def test_an_incident_ends_with_the_last_of_the_episodes_that_it_heard_of(bell: Bell) -> None:
    await bell.send(alert(1, "FanSlow"))
    await bell.send(alert(1, "Hot"))
    await bell.send(alert(1, "FanSlow", status="resolved"))
    over = (await bell.items())[-1]
    assert len(await bell.inbox.list_open_incidents()) == 1
    assert (await threads_of(bell).fetch_item(over)).data["why"] == ALERTS_REFIRED
    await bell.send(alert(1, "Hot", status="resolved"))
    assert (await threads_of(bell).fetch_item((await bell.items())[-1])).data["why"] == ALERTS_RESOLVED


async def test_when_all_of_them_are_over_the_incident_hears_it_once(bell: Bell) -> None:
    await bell.send(alert(1, leaf="sw-3"), alert(2, leaf="sw-3"))
    await bell.send(alert(1, leaf="sw-3", status="resolved"))
    assert [item.kind for item in await bell.items()] == ["mention", "reply"][:1]
    for _ in range(2):
        await bell.send(alert(2, leaf="sw-3", status="resolved"))
    assert [item.data.get("why") for item in await bell.items()] == [None, ALERTS_RESOLVED]


async def test_what_is_over_and_was_never_heard_is_nothing(bell: Bell) -> None:
    assert (await bell.send(alert(1, status="resolved"))).status == 200
    assert await bell.items() == []


async def test_what_could_not_be_stored_is_stored_when_it_comes_again(bell: Bell) -> None:
    rows = parse_alertmanager_webhook(message([alert(1)]), AlertLabels()).alerts
    [episode] = await episodes_of(bell, rows)
    assert await bell.book.store_alerts(episode, rows)  # then the process dies
    await bell.send(alert(1))
    assert len(await bell.items()) == 1


async def test_a_signed_message_is_heard_once_and_a_forged_one_never(bell: Bell) -> None:
    body = json.dumps({"alerts": [{"id": "a-1", "name": "fan", "host": "gpu-003", "xid": 79}]}).encode()
    headers = build_signed_headers(bell.intake.site.get_signing_keys()[0], "msg_0123456789", bell.clock.now(), body)
    assert (await bell.intake.handle_webhook(InboundRequest(headers, body + b" "))).status == 401
    assert (await bell.intake.handle_webhook(InboundRequest(headers, body))).body != {"incidents": []}
    assert (await bell.intake.handle_webhook(InboundRequest(headers, body))).body == {"incidents": []}
    bell.clock.go(seconds=600)
    assert (await bell.intake.handle_webhook(InboundRequest(headers, body))).status == 401
    assert len(await bell.items()) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("channel: C0OTHER\ntoken: " + TOKEN, "not bound to the operators"),
        (f"channel: {OPS}", "no sender can authenticate"),
        (f"channel: {OPS}\ntoken: short", "at least 16"),
        (f"channel: {OPS}\nuser: am", "set both"),
        (f"channel: {OPS}\nkeys: [hello]", "openssl rand"),
        ("", "empty"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(text)
    with pytest.raises(BadAlerts, match=says) as no:
        load_alert_config(file, INVENTORY)
    assert "short" not in str(no.value)


async def test_the_doctor_says_who_may_send_and_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(f"channel: {OPS}\ntoken: {TOKEN}\nlabels: {{host: [machine]}}\n")
    settings = load_settings(None, {"RACKMEDIC_ALERTS": str(file), "RACKMEDIC_HTTP_PORT": "8443"})
    site = load_alert_site(settings, INVENTORY)
    assert site
    assert site.labels.host == ("machine",)
    [finding] = await check_alerts(settings, INVENTORY)
    assert (finding.state, TOKEN in finding.says) == ("ok", False)
    file.write_text("channel: C0OTHER\n")
    assert {row.state for row in await check_alerts(settings, INVENTORY)} == {"fail"}
    with pytest.raises(BadSettings, match="HTTP_PORT"):
        load_settings(None, {"RACKMEDIC_ALERTS": str(file)})
    assert await check_alerts(load_settings(None, {}), INVENTORY) == []


async def test_what_a_sender_counts_and_does_not_list_is_told_and_keeps_the_incident_from_ending(bell: Bell) -> None:
    await bell.intake.handle_alertmanager(InboundRequest(BEARER, message([alert(1, leaf="sw-3")], truncatedAlerts=7)))
    [item] = await bell.items()
    counted = await bell.book.load_tally(item.data["alerts"])
    assert (counted.left, render_alert_summary(counted).splitlines()[0].endswith("Not listed by the sender: 7 more.")) == (7, True)
    assert "7 more alerts" in str(render_alert_card(counted).blocks)
    over = [alert(1, leaf="sw-3", status="resolved")]
    await bell.intake.handle_alertmanager(InboundRequest(BEARER, message(over, truncatedAlerts=5)))
    assert not (await bell.book.load_tally(item.data["alerts"])).is_resolved
    await bell.intake.handle_alertmanager(InboundRequest(BEARER, message(over)))
    assert (await bell.book.load_tally(item.data["alerts"])).is_resolved
    assert (await bell.items())[-1].data["why"] == ALERTS_RESOLVED


async def test_a_sender_with_ever_new_groups_makes_no_ever_longer_list(bell: Bell) -> None:
    [episode] = await episodes_of(bell, parse_alertmanager_webhook(message([alert(1)]), AlertLabels()).alerts)
    for n in range(3 * MAX_GROUPS):
        await bell.book.store_unlisted_count(episode, f"group-{n}", 1)
    assert (await bell.book.load_tally(episode)).left == MAX_GROUPS + 1


async def test_news_that_comes_while_older_news_is_told_is_still_owed(bell: Bell) -> None:
    rows = parse_alertmanager_webhook(message([alert(1, leaf="sw-3"), alert(2, leaf="sw-3")]), AlertLabels()).alerts
    [episode] = await episodes_of(bell, rows)
    first = await bell.book.store_alerts(episode, rows[:1])
    second = await bell.book.store_alerts(episode, rows[1:])
    await bell.book.mark_delivered(episode, first)
    assert await bell.book.store_alerts(episode, rows) == second
    await bell.book.mark_delivered(episode, second)
    await bell.book.mark_delivered(episode, first)
    assert await bell.book.store_alerts(episode, rows) == 0


async def test_every_stored_episode_has_its_cause(bell: Bell) -> None:
    rows = parse_alertmanager_webhook(message([alert(1, leaf="sw-3")]), AlertLabels()).alerts
    found = await asyncio.gather(*(episodes_of(bell, rows) for _ in range(3 * MAX_NEW_EPISODES)))
    [episode] = {one for row in found for one in row}
    assert (await bell.book.load_tally(episode)).cause == "leaf sw-3"
    assert len([key async for key in bell.redis.scan_iter("rm:alerts:about:*")]) == 1


async def test_many_alerts_of_one_cause_at_the_same_moment_are_not_many_causes(bell: Bell) -> None:
    await asyncio.gather(*(bell.send(alert(n, leaf=f"sw-{n % 4}")) for n in range(100)))
    told = [await bell.book.load_tally(item.data["alerts"]) for item in await bell.items()]
    assert sorted((row.cause, row.firing) for row in told) == [(f"leaf sw-{n}", 25) for n in range(4)]


@pytest.mark.parametrize("kind", ["timer", "reply"])
async def test_a_turn_is_told_how_it_stands_when_it_begins(bell: Bell, kind: InboxItemKind) -> None:
    await bell.send(alert(1))
    [item] = await bell.items()
    waits = item.model_copy(update={"kind": kind, "data": {**item.data, "why": ALERTS_RESOLVED}})
    assert (await threads_of(bell).fetch_item(waits)).data["why"] == (ALERTS_REFIRED if kind == "timer" else ALERTS_RESOLVED)
    await bell.send(alert(1, status="resolved"))
    told = await threads_of(bell).fetch_item(waits)
    assert (told.kind, told.data["why"], told.text) == ("timer", ALERTS_RESOLVED, "")
    assert (await threads_of(bell).fetch_item(item)).kind == "mention", "the first turn looks, whatever fires by then"


async def test_that_people_spoke_in_the_thread_is_told_though_not_what_they_said(bell: Bell) -> None:
    await bell.send(alert(1))
    await bell.send(alert(1, status="resolved"))
    [_, over] = await bell.items()
    assert (await threads_of(bell).fetch_item(over)).data["people"] is False
    await ThreadActivity(bell.redis, bell.clock).record_message(over.incident, "1.000", "U0PRIYA")
    assert (await threads_of(bell).fetch_item(over)).data["people"] is True


async def test_a_storm_through_the_port_is_stored_or_refused_and_taken_when_it_comes_again() -> None:
    server = FakeServer()
    async with FakeAsyncRedis(server=server) as redis:
        bell, statuses = Bell(redis), Counter[int]()
        bodies = [message([alert(n % 128, f"LinkDown{n // 128}", leaf=f"sw-{n % 5}")]) for n in range(120)]
        async with serve_routes("127.0.0.1", 0, bell.intake.routes, InboundLimits(in_hand=8)) as port, ClientSession() as session:

            async def post(body: bytes) -> int:
                async with session.post(f"http://127.0.0.1:{port}/alerts/alertmanager", data=body, headers=BEARER) as answer:
                    statuses[answer.status] += 1
                    return answer.status

            async def until_taken(n: int, body: bytes) -> None:
                while await post(body) != 200:
                    if statuses[503] > 40:
                        server.connected = True

            server.connected = False
            await asyncio.gather(*map(until_taken, range(120), bodies))
        items = await bell.items()
        tallies = [await bell.book.load_tally(item.data["alerts"]) for item in items]
        assert (len(items), len(bell.woken), sum(row.firing for row in tallies)) == (5, 5, 120)
        assert (statuses[200], statuses[503] > 40, set(statuses)) == (120, True, {200, 503})


def threads_of(bell: Bell) -> AlertThreads:
    """Return alert threads as a worker builds them; these tests make no Slack calls."""
    client = build_slack_client("xoxb-none", "http://127.0.0.1:9/")
    spoke = ThreadActivity(bell.redis, bell.clock).has_human_messages

    async def home(item: InboxItem) -> Origin | None:
        return await bell.inbox.get_origin(item.incident)

    return AlertThreads(client, PostedCards(bell.redis), bell.inbox, People(client), bell.book, spoke, home)
