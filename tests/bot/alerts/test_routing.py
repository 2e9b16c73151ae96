"""Alert routes: matchers, the channel where each alert opens an incident, and that an open episode keeps its channel."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.alerts.alert import Alert
from bot.alerts.alert_store import MAX_NEW_EPISODES, AlertStore
from bot.alerts.config import AlertConfig, AlertRouting, BadAlerts, load_alert_config, parse_matcher
from bot.alerts.intake import AlertIntake
from bot.alerts.webhook_messages import parse_own_webhook
from bot.app.alerts import build_alert_routing, build_alert_threads
from bot.cli.doctor.integrations import check_alerts
from bot.inbound import InboundRequest
from bot.incidents.dispatch.fingerprint import IncidentFingerprint
from bot.incidents.dispatch.inbox import Inbox
from bot.policy.channels import build_channel_bindings
from bot.settings import load_settings
from bot.slack.client import build_slack_client
from bot.slack.people import People, SlackAnswerMissing
from bot.slack.posted_messages import PostedCards
from bot.store.replay_guard import ReplayGuard
from bot.store.store import open_store
from graph.extraction.reports import parse_report
from graph.state import ALERTS_RESOLVED, InboxItem, Origin
from tests.bot.alerts.test_alerts import BEARER, TOKEN, alert, message
from tests.support.clock import SetClock
from tests.support.inventories import inventory

pytestmark = pytest.mark.slow


OPS, FABRIC, STORE, ACME, NOWHERE = "C0OPS", "C0FABRIC", "C0STORE", "C0ACME", "C0NOWHERE"
SITE = inventory(
    groups={"train": {"hosts": "gpu-[001-120]"}, "store": {"hosts": "nas-[1-4]"}, "acme": {"hosts": "gpu-[121-128]", "tenant": "acme"}},
    channels=[
        {"channel": OPS, "kind": "operators"},
        {"channel": FABRIC, "kind": "operators"},
        {"channel": STORE, "kind": "operators", "groups": ["store"]},
        {"channel": ACME, "kind": "tenant", "tenant": "acme", "internal": OPS},
    ],
)
FABRIC_ROUTE = {"channel": FABRIC, "matchers": ['team="fabric"']}
ROUTES: tuple[dict[str, Any], ...] = (
    FABRIC_ROUTE,
    {"channel": STORE, "matchers": ['alertname=~"Disk.*|Nfs.*"', 'severity!="info"']},
    {"channel": NOWHERE, "matchers": ["team=nowhere"]},
    {"channel": ACME, "matchers": ["team=acme"]},
)


def site_of(*routes: Mapping[str, Any], channel: str = OPS) -> AlertConfig:
    return AlertConfig.model_validate({"channel": channel, "token": TOKEN, "routes": list(routes)})


def routing(*routes: Mapping[str, Any], channel: str = OPS) -> AlertRouting:
    return build_alert_routing(site_of(*routes, channel=channel), SITE)


class Desk:
    """An alert intake on a Redis, with a configuration that may change and channels that may become shared."""

    def __init__(self, redis: Redis) -> None:
        self.redis, self.clock, self.shared = redis, SetClock(), set[str]()
        self.inbox = Inbox(redis, self.clock)
        self.serves(*ROUTES)

    def serves(self, *routes: Mapping[str, Any], channel: str = OPS) -> None:
        """Restart the intake with these routes."""
        site = site_of(*routes, channel=channel)
        self.book = AlertStore(self.redis, window=timedelta(minutes=site.minutes))
        heard = ReplayGuard(self.redis, timedelta(minutes=15))
        bound = build_channel_bindings(SITE.channels)
        parts = site, self.book, self.inbox, heard, self.clock, build_alert_routing(site, SITE), bound, self._wake, self._shared
        self.intake = AlertIntake(*parts)

    async def send(self, *alerts: dict[str, Any]) -> None:
        assert (await self.intake.handle_alertmanager(InboundRequest(BEARER, message(alerts)))).status == 200

    async def opened(self) -> list[tuple[str, str]]:
        """Return (channel, first words) of each open incident, sorted."""
        found = []
        for incident in await self.inbox.list_open_incidents():
            origin, [first, *_] = await self.inbox.get_origin(incident), await self.inbox.list_waiting(incident)
            found.append((origin.channel if origin else "", first.text.partition(":")[0]))
        return sorted(found)

    async def _wake(self, incident: str) -> None:
        pass

    async def _shared(self, channel: str) -> bool:
        if "nobody knows" in self.shared:
            raise SlackAnswerMissing
        return channel in self.shared


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with FakeAsyncRedis() as redis:
        yield Desk(redis)


# fmt: off
MATCHERS: tuple[tuple[str, Mapping[str, str], bool], ...] = (
    ('team="fabric"',            {"team": "fabric"},             True),
    ('team="fabric"',            {"team": "fabrics"},            False),
    ('team="fabric"',            {"team": "Fabric"},             False),
    ('team="fabric"',            {},                             False),
    ("team=fabric",              {"team": "fabric"},             True),
    ("  team  =  fabric  ",      {"team": "fabric"},             True),
    ('team=""',                  {},                             True),
    ("team=",                    {"team": "x"},                  False),
    ('team!="fabric"',           {"team": "store"},              True),
    ('team!="fabric"',           {},                             True),
    ('team!="fabric"',           {"team": "fabric"},             False),
    ('name=~"Disk.*|Nfs.*"',     {"name": "DiskSlow"},           True),
    ('name=~"Disk.*|Nfs.*"',     {"name": "NfsDown"},            True),
    ('name=~"Disk.*|Nfs.*"',     {"name": "MyDisk"},             False),
    ('name=~"Disk"',             {"name": "DiskSlow"},           False),
    ('name=~"(?i)disk"',         {"name": "DISK"},               True),
    ('name!~"Disk.*"',           {"name": "DiskSlow"},           False),
    ('name!~"Disk.*"',           {},                             True),
    (r'rack=~"r\d+"',            {"rack": "r7"},                 True),
    (r'rack=~"r\\d+"',           {"rack": "r7"},                 True),
    (r'says="a \"word\" \\ x"',  {"says": 'a "word" \\ x'},      True),
    ('says="two\\nlines"',       {"says": "two\nlines"},         True),
    ('says="a = b, {c}"',        {"says": "a = b, {c}"},         True),
    ("alert.name/x=1",           {"alert.name/x": "1"},          True),
    ('long=~".*end"',            {"long": "x" * 197 + "end"},    True),
    ('long=~".*end"',            {"long": "x" * 198 + "end"},    False),
)
REFUSED: tuple[tuple[str, str], ...] = (
    ("",                         "is no matcher"),
    ("team",                     "is no matcher"),
    ('="x"',                     "is no matcher"),
    ('team=="x"',                "is no matcher"),
    ('team="x',                  "is no matcher"),
    ('team="x" y',               "is no matcher"),
    ('{team="x"}',               "is no matcher"),
    ("team=" + "x" * 600,        "is no matcher"),
    ("team=" + "x" * 201,        "is longer"),
    ('team=~"("',                "is no regular expression"),
    ('team=~"(a+)+"',            "can take for ever"),
    ('team=~".*.*.*x"',          "can take for ever"),
    ('team=~"(a|aa){0,60}x"',    "can take for ever"),
    (r'team=~"(a)\\1"',          "can take for ever"),
)
# fmt: on


@pytest.mark.parametrize(("text", "labels", "holds"), MATCHERS)
def test_a_matcher_holds_as_alertmanagers_do(text: str, labels: Mapping[str, str], holds: bool) -> None:
    assert parse_matcher(text).matches(labels) is holds


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_what_is_no_matcher_is_refused_in_words(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_matcher(text)


def test_a_hostile_value_keeps_no_pattern_that_is_taken_busy() -> None:
    worst = [parse_matcher(f'x=~"{text}"') for text in (".*a.*b", "(a|b|c).*(d|e).*", "a{0,60}a{0,60}a{0,60}b", "(a|a){0,18}b")]
    assert [row.matches({"x": "a" * 100_000}) for row in worst] == [False] * len(worst)


@pytest.mark.parametrize(
    ("routes", "says"),
    [
        ("[{channel: C0FABRIC}]", "alerts.yaml:3: routes.0: matchers is missing"),
        ("[{channel: C0FABRIC, matchers: []}]", "alerts.yaml:3: routes.0.matchers: .*1 to 16 texts"),
        ("[{channel: C0FABRIC, matchers: 'team=x'}]", "1 to 16 texts"),
        ("[{channel: C0FABRIC, matchers: [7]}]", "1 to 16 texts"),
        ("[{channel: C0FABRIC, matchers: ['team', 'x=~(']}]", "is no matcher(.|\n)*is no regular expression"),
        ("[{channel: C0FABRIC, match: {team: x}}]", "unknown field match"),
        ("{channel: C0FABRIC}", "routes must be a list"),
        ("[" + "{channel: C0FABRIC, matchers: [a=b]}, " * 65 + "]", "routes .*64"),
    ],
)
def test_a_file_whose_routes_cannot_be_used_says_where_and_why(tmp_path: Path, routes: str, says: str) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(f"channel: {OPS}\ntoken: {TOKEN}\nroutes: {routes}\n")
    with pytest.raises(BadAlerts, match=says) as no:
        load_alert_config(file, SITE)
    assert TOKEN not in str(no.value)


# fmt: off
TABLE: tuple[tuple[Mapping[str, str], str, str], ...] = (
    # labels                                                             where      why
    ({"alertname": "LinkDown", "team": "fabric"},                        FABRIC,    "the first route"),
    ({"alertname": "DiskFull", "team": "fabric"},                        FABRIC,    "the first of two that match"),
    ({"alertname": "DiskFull", "Hostname": "nas-1"},                     STORE,     "the second"),
    ({"alertname": "DiskFull", "severity": "info"},                      OPS,       "one matcher of two does not hold"),
    ({"alertname": "DiskFull"},                                          STORE,     "no host: none is told"),
    ({"alertname": "DiskFull", "Hostname": "unheard-of-7"},              STORE,     "a host that nobody knows"),
    ({"alertname": "DiskFull", "Hostname": "gpu-001"},                   OPS,       "a host of which that channel may not speak"),
    ({"alertname": "DiskFull", "instance": "gpu-121:9400"},              OPS,       "a customer's host of which it may not speak"),
    ({"alertname": "LinkDown", "team": "fabric", "Hostname": "gpu-121"}, FABRIC,    "a customer's host in the operators' channel"),
    ({"alertname": "FanSlow", "team": "nowhere"},                        OPS,       "a channel that nobody bound"),
    ({"alertname": "FanSlow", "team": "acme", "Hostname": "gpu-121"},    OPS,       "a customer's own host in the customer's own channel"),
    ({"alertname": "FanSlow"},                                           OPS,       "no route"),
)
# fmt: on


@pytest.mark.parametrize(("labels", "where", "why"), TABLE, ids=[row[2] for row in TABLE])
async def test_where_an_alert_opens(desk: Desk, labels: Mapping[str, str], where: str, why: str) -> None:
    await desk.send({"status": "firing", "labels": dict(labels), "annotations": {}, "fingerprint": "f1"})
    assert [channel for channel, _ in await desk.opened()] == [where], why


async def test_the_same_cause_in_two_channels_is_two_incidents_also_of_the_same_hosts(desk: Desk) -> None:
    await desk.send(alert(1, "FanSlow"), alert(2, "FanSlow", team="fabric"))
    await desk.send(alert(2, "FanSlow", team="other"), alert(1, "FanSlow2", team="fabric"))
    assert await desk.opened() == [(FABRIC, "Alerts of FanSlow"), (FABRIC, "Alerts of FanSlow2"), (OPS, "Alerts of FanSlow")]


async def test_a_storm_is_one_incident_a_cause_a_channel(desk: Desk) -> None:
    for n in range(500):
        await desk.send(alert(n % 100, f"Link{n // 100}", leaf=f"sw-{n % 3}", **({"team": "fabric"} if n % 2 else {})))
    assert await desk.opened() == [(channel, f"Alerts of leaf sw-{n}") for channel in (FABRIC, OPS) for n in range(3)]


async def test_a_storm_of_causes_is_bounded_over_all_channels_and_the_rest_is_one_a_channel(desk: Desk) -> None:
    for n in range(60):
        await desk.send(alert(n, f"Strange{n}", **({"team": "fabric"} if n % 2 else {})))
    opened = await desk.opened()
    assert (len(opened), [row for row in opened if "many" in row[1]]) == (
        MAX_NEW_EPISODES + 2,
        [(FABRIC, "Alerts of many causes at once"), (OPS, "Alerts of many causes at once")],
    )


async def test_a_channel_that_others_read_gets_nothing_and_when_it_is_ours_again_it_does(desk: Desk) -> None:
    desk.shared.add(FABRIC)
    await desk.send(alert(1, "Hot", team="fabric"))
    desk.shared.clear()
    await desk.send(alert(2, "Cold", team="fabric"))
    assert await desk.opened() == [(FABRIC, "Alerts of Cold"), (OPS, "Alerts of Hot")]


async def test_an_open_episode_whose_channel_others_read_goes_on_in_the_default_one(desk: Desk) -> None:
    await desk.send(alert(1, "Hot", team="fabric"))
    desk.shared.add(FABRIC)
    await desk.send(alert(1, "Hot", team="fabric"), alert(2, "Hot", team="fabric"))
    assert await desk.opened() == [(FABRIC, "Alerts of Hot"), (OPS, "Alerts of Hot")]
    [item] = [
        item for one in await desk.inbox.list_open_incidents() for item in await desk.inbox.list_waiting(one) if "2 firing" in item.text
    ]
    assert await desk.book.get_channel(item.data["alerts"]) == OPS


async def test_where_slack_does_not_tell_who_reads_a_channel_the_route_stands(desk: Desk) -> None:
    desk.shared.add("nobody knows")
    await desk.send(alert(1, "Hot", team="fabric"))
    assert await desk.opened() == [(FABRIC, "Alerts of Hot")]


CHANGES: tuple[tuple[str, Sequence[Mapping[str, Any]], str], ...] = (
    ("the route names another channel", [{**FABRIC_ROUTE, "channel": STORE}], OPS),
    ("the route is gone", [], OPS),
    ("the default is another", [FABRIC_ROUTE], FABRIC),
    ("a route before it", [{"channel": OPS, "matchers": ["alertname=~Hot.*"]}, FABRIC_ROUTE], OPS),
)


@pytest.mark.parametrize(("why", "routes", "default"), CHANGES, ids=[row[0] for row in CHANGES])
async def test_an_open_episode_stays_where_it_is_when_the_file_changes(
    desk: Desk, why: str, routes: Sequence[Mapping[str, Any]], default: str
) -> None:
    await desk.send(alert(1, "Hot", team="fabric"), alert(5, "Hot"))
    desk.serves(*routes, channel=default)
    await desk.send(alert(1, "Hot", team="fabric"), alert(2, "Hot", team="fabric"), alert(6, "Hot"))
    assert await desk.opened() == [(FABRIC, "Alerts of Hot"), (OPS, "Alerts of Hot")]
    told = [
        await desk.book.load_tally(item.data["alerts"])
        for one in await desk.inbox.list_open_incidents()
        for item in await desk.inbox.list_waiting(one)
    ]
    assert sum(row.firing for row in told) == 4
    await desk.send(*(alert(n, "Hot", status="resolved", **team) for n, team in ((1, {"team": "fabric"}), (2, {"team": "fabric"}))))
    ends = [
        item
        for one in await desk.inbox.list_open_incidents()
        for item in await desk.inbox.list_waiting(one)
        if item.data.get("why") == ALERTS_RESOLVED
    ]
    assert len(ends) <= 1


async def test_an_episode_continues_with_its_routes_alerts_in_any_channel(desk: Desk) -> None:
    await desk.send(alert(1, "Hot"), alert(2, "Hot", team="fabric"))
    desk.serves({**FABRIC_ROUTE, "channel": STORE}, channel=STORE)
    await desk.send(alert(3, "Hot", team="fabric"))
    [item] = [
        item for one in await desk.inbox.list_open_incidents() for item in await desk.inbox.list_waiting(one) if "gpu-003" in item.text
    ]
    assert await desk.book.get_channel(item.data["alerts"]) == FABRIC
    tallies = {await desk.book.get_channel(item.data["alerts"]): await desk.book.load_tally(item.data["alerts"]) for item in [item]}
    assert tallies[FABRIC].hosts == ("gpu-003", "gpu-004")


async def test_after_its_time_the_changed_file_holds(desk: Desk) -> None:
    await desk.send(alert(1, "Hot", team="fabric"))
    desk.serves()
    for key in [key async for key in desk.redis.scan_iter("rm:alerts:now:*")]:
        await desk.redis.delete(key)
    await desk.send(alert(2, "Hot", team="fabric"))
    assert await desk.opened() == [(FABRIC, "Alerts of Hot"), (OPS, "Alerts of Hot")]


async def test_what_people_reported_elsewhere_is_joined_by_alerts_of_the_default_channel_alone(desk: Desk) -> None:
    def first(incident: str) -> InboxItem:
        return InboxItem(id="k", kind="mention", incident=incident, at=desk.clock.now(), text="people: slow")

    theirs = Origin(kind="slack", team="T", channel=FABRIC, thread_ts="1.0")
    await desk.inbox.open_or_join(theirs, "k", first, fingerprint=IncidentFingerprint(("gpu-017", "gpu-018")))
    await desk.send(alert(16, "Cold"))
    assert await desk.opened() == [(FABRIC, "people")]
    desk.serves({"channel": OPS, "matchers": ["team=fabric"]}, channel=FABRIC)
    await desk.send(alert(17, "Warm", team="fabric"))
    assert await desk.opened() == [(FABRIC, "people"), (OPS, "Alerts of Warm")]


def test_the_signed_message_is_routed_by_its_fields_and_by_labels_of_its_own() -> None:
    placed = routing(
        {"channel": FABRIC, "matchers": ["severity=page", "host=~gpu-.*"]}, {"channel": STORE, "matchers": ["team=store", "xid=79"]}
    )
    body = b'{"alerts": [{"id": "1", "name": "a", "severity": "page", "host": "gpu-001"}, '
    body += b'{"id": "2", "name": "a", "xid": 79, "labels": {"team": "store", "xid": "80"}}]}'
    assert [placed.find_place(row.labels).channel for row in parse_own_webhook(body).alerts] == [FABRIC, STORE]


def test_labels_are_for_routes_alone() -> None:
    row = Alert("f", "Hot", firing=True, labels={"team": "secret"})
    assert "labels" not in row.to_stored_row()


async def test_a_thread_whose_channel_is_lost_before_it_begins_begins_in_the_default_one(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(f"channel: {OPS}\ntoken: {TOKEN}\n")
    settings = load_settings(None, {"RACKMEDIC_ALERTS": str(file), "RACKMEDIC_HTTP_PORT": "8443"})
    shared = {FABRIC}

    class Told(People):
        async def is_shared(self, channel: str) -> bool:
            return channel in shared

    async def otherwise(item: InboxItem) -> Origin | None:
        return None

    async def nobody(incident: str) -> bool:
        return False

    async with contextlib.aclosing(await open_store(None, None)) as store:
        client = build_slack_client("xoxb-none", "http://127.0.0.1:9/")
        posted = client, PostedCards(store.redis), Told(client)
        threads = build_alert_threads(settings, store, SITE, posted, Inbox(store.redis, SetClock()), nobody, otherwise)
        assert [await threads.choose_channel(channel) for channel in (OPS, STORE, FABRIC, ACME, NOWHERE)] == [OPS, STORE, OPS, OPS, OPS]
        shared.add(OPS)
        assert await threads.choose_channel(FABRIC) == FABRIC, "nowhere to go: it says so there"


async def test_the_doctor_warns_of_routes_that_lead_to_the_default_channel(tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    rows = "".join(f"  - {{channel: {row['channel']}, matchers: {[str(one) for one in row['matchers']]!r}}}\n" for row in ROUTES)
    file.write_text(f"channel: {OPS}\ntoken: {TOKEN}\nroutes:\n{rows}")
    settings = load_settings(None, {"RACKMEDIC_ALERTS": str(file), "RACKMEDIC_HTTP_PORT": "8443"})

    async def shared(channel: str) -> bool:
        if channel == STORE:
            raise SlackAnswerMissing
        return channel == FABRIC

    found = await check_alerts(settings, SITE, shared)
    assert [(row.state, row.says.partition(";")[0]) for row in found] == [
        ("ok", "Alertmanager on port 8443"),
        ("warn", f"route 1: {FABRIC} is read by another organisation, or one is invited to it"),
        ("warn", f"route 3: {NOWHERE} is not bound to the operators by the inventory"),
        ("warn", f"route 4: {ACME} is not bound to the operators by the inventory"),
    ]
    assert f"4 routes to {ACME}, {FABRIC}, {NOWHERE}, {STORE}, all else opens in {OPS}" in found[0].says
    assert [row.state for row in await check_alerts(settings, SITE)] == ["ok", "warn", "warn"]


@pytest.mark.parametrize(
    "name",
    ["gpu-012", "gpu-012:9400", "gpu-012.dc1.example.com:9400", "GPU-012.dc1.example.com", "http://gpu-012.dc1.example.com:9400/metrics"],
)
def test_a_host_of_an_alert_and_of_a_mention_is_the_same(name: str) -> None:
    told = parse_report(
        f"GpuLost instance={name}", SITE.list_group_hosts(("train",)), SetClock().now(), SITE.list_domains(SITE.hosts), lenient=True
    )
    assert told.hosts == routing().find_hosts(f"instance={name}", OPS) == ("gpu-012",)
