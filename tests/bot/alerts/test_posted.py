"""Alerts that another bot posts in Slack: known formats are parsed, and a group is one incident in any order of
delivery.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from bot.alerts.alert_store import AlertStore
from bot.alerts.config import AlertConfig
from bot.alerts.intake import AlertIntake
from bot.alerts.posted_alerts import PostedAlertBatcher, PostedAlerts, parse_posted_alerts
from bot.incidents.handlers.messages import handle_message
from bot.slack.payloads import parse_message
from bot.store.replay_guard import ReplayGuard
from bot.store.unreachable import StoreUnreachable
from graph.state import ALERTS_RESOLVED
from tests.support.fakes_bot import BOUND, HOSTS, OPS, TEAM, Behind, Parts, slack_side

pytestmark = pytest.mark.slow


BOT, LINK = "B0ALERT", "http://am.example.com/#/alerts?receiver=slack"
DELIVERIES = 4  # Slack delivers again what is not acknowledged in time, three times


def block(name: str, host: str, summary: str = "", **labels: str) -> str:
    """Return one alert as Alertmanager's and Grafana's templates list it."""
    rows = {"alertname": name, "instance": f"{host}:9400", **labels}
    listed = "".join(f" - {label} = {value}\n" for label, value in rows.items())
    return f"Labels:\n{listed}Annotations:\n - summary = {summary}\nSource: http://prometheus/graph\n"


GRAFANA = f"**Firing**\n\nValue: A=1\n{block('FanSlow', 'gpu-017')}Silence: http://g\n\n\n**Resolved**\n\nValue: A=0\n{block('FanSlow', 'gpu-018')}"


def read(title: str, text: str = "", source: str = "here") -> PostedAlerts | None:
    return parse_posted_alerts(f"{title}\n{text}", source)


def test_the_template_of_alertmanager_tells_a_group_and_that_it_is_over() -> None:
    fires = read("[FIRING:2] GPUFellOffTheBus gpu-017 (dcgm critical)")
    over = read("[RESOLVED] GPUFellOffTheBus gpu-017 (critical)")
    assert fires
    assert over
    assert (fires.name, fires.over, fires.firing, fires.listed, over.over) == ("GPUFellOffTheBus", False, 2, [], True)
    assert fires.group == over.group
    other = read("[FIRING:2] GPUFellOffTheBus gpu-017 (dcgm critical)", source="another Alertmanager")
    assert other
    assert other.group != fires.group
    whole = read("[FIRING:1]  (FanSlow gpu-017 warning)")
    assert whole
    assert whole.name == "FanSlow"


def test_what_grafana_lists_are_alerts_with_their_labels_and_states() -> None:
    said = read("[FIRING:1, RESOLVED:1] FanSlow GPUs (dcgm)", GRAFANA)
    assert said
    assert [(row.firing, row.labels["instance"]) for row in said.listed] == [(True, "gpu-017:9400"), (False, "gpu-018:9400")]
    later = read("[RESOLVED] FanSlow GPUs (dcgm)", f"**Resolved**\n\n{block('FanSlow', 'gpu-017', 'another summary')}")
    assert later
    assert (later.listed[0].id, later.listed[0].firing, said.left) == (said.listed[0].id, False, 0)
    more = read("[FIRING:9] FanSlow GPUs", GRAFANA)
    assert more
    assert more.left == 8


@pytest.mark.parametrize(
    "text",
    [
        "",
        "FIRING",
        "[FIRING] gpu-017 is hot",
        "[FIRING:x] hot",
        "GPUFellOffTheBus (2 firing)",
        "it says [FIRING:1] hot",
        "[FIRING:1] a\n[RESOLVED] b",
        "[FIRING:1] fan (left) (critical)",
        "[FIRING:1] fan (critical",
        "Triggered #12: fan",
    ],
)
def test_of_any_other_form_nothing_is_read(text: str) -> None:
    assert parse_posted_alerts(text, "here") is None


def parts_of(context: Any, redis: Any) -> Parts:
    site = AlertConfig.model_validate({"channel": ""})
    routing = site.build_routing({OPS: frozenset(HOSTS)}, frozenset(HOSTS))

    async def nobody_else(channel: str) -> bool:
        return False

    book, heard = AlertStore(redis), ReplayGuard(redis, timedelta(minutes=15))
    intake = AlertIntake(site, book, context.inbox, heard, context.clock, routing, BOUND, context.wake, nobody_else)
    return Parts(submit_alert_batch=PostedAlertBatcher(intake.handle_posted_alerts).submit_post)


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(parts_of=parts_of) as behind:
        yield behind


async def post(bot: Behind, n: int, title: str, text: str = "", *, by: str = BOT, link: str = LINK) -> None:
    """Deliver the bot's n-th message as Slack does."""
    attachment = {"title": title, "title_link": link, "text": text, "fallback": f"{title} | {link}"}
    event = {
        "type": "message",
        "subtype": "bot_message",
        "bot_id": by,
        "channel": OPS,
        "ts": f"17{n:08}.000100",
        "attachments": [attachment],
    }
    arrival = parse_message({"team_id": TEAM, "event": event}, "U0RACKMED", {BOT})
    if arrival is None:
        return
    for _ in range(DELIVERIES):
        with contextlib.suppress(StoreUnreachable):
            await handle_message(bot.messages, arrival)
            return
    raise AssertionError("no delivery was stored")


async def over_in(bot: Behind) -> list[bool]:
    """Return for each incident whether it received the item that its alerts are resolved."""
    rows = {incident: await bot.inbox.list_waiting(incident) for incident in await bot.inbox.list_open_incidents()}
    return [any(item.data.get("why") == ALERTS_RESOLVED for item in items) for items in rows.values()]


async def test_a_group_opens_one_incident_and_ends_it_when_it_is_over(bot: Behind) -> None:
    for n in range(3):
        await post(bot, n, f"[FIRING:{n + 1}] GPUFellOffTheBus (critical)", f"Xid 79 on {HOSTS[0]} and {HOSTS[1]}")
    [item] = await bot.items()
    assert item.text.splitlines()[0] == f"Alerts of Xid 79: 2 firing on gpu-[{HOSTS[0][4:]}-{HOSTS[1][4:]}]."
    await post(bot, 3, "[RESOLVED] GPUFellOffTheBus (critical)")
    assert await over_in(bot) == [True]
    assert len(bot.woken) == 2


async def test_alerts_that_are_listed_are_each_over_by_itself(bot: Behind) -> None:
    await post(bot, 1, "[FIRING:2] FanSlow", block("FanSlow", HOSTS[0]) + block("FanSlow", HOSTS[1]))
    await post(
        bot, 2, "[FIRING:1, RESOLVED:1] FanSlow", f"**Firing**\n{block('FanSlow', HOSTS[1])}\n**Resolved**\n{block('FanSlow', HOSTS[0])}"
    )
    counted = await AlertStore(bot.redis).load_tally((await bot.items())[0].data["alerts"])
    assert (counted.firing, counted.resolved, counted.hosts) == (1, 1, (HOSTS[1],))
    assert await over_in(bot) == [False]
    await post(bot, 3, "[RESOLVED] FanSlow", block("FanSlow", HOSTS[1]))
    assert await over_in(bot) == [True]


async def test_what_comes_late_or_twice_changes_nothing(bot: Behind) -> None:
    await post(bot, 1, "[FIRING:1] FanSlow gpu-017 (warning)")
    for n in (5, 5, 3, 1):
        await post(bot, n, f"[{'RESOLVED' if n == 5 else 'FIRING:1'}] FanSlow gpu-017 (warning)")
    assert await over_in(bot) == [True]
    assert len(await bot.items()) == 2
    await post(bot, 7, "[RESOLVED] Never heard of (warning)")
    assert len(await bot.inbox.list_open_incidents()) == 1


async def test_what_waits_is_taken_together_also_for_a_listener_that_gave_up() -> None:
    said = PostedAlerts("g", "n", over=False, firing=1, text="")
    taken, gate = list[list[str]](), asyncio.Event()

    async def take_in(channel: str, rows: Sequence[tuple[str, PostedAlerts]]) -> list[str]:
        taken.append([ts for ts, _ in rows])
        await gate.wait()
        if "12" in taken[-1]:
            raise OSError("away")
        return ["inc-1"]

    together = PostedAlertBatcher(take_in)

    async def begun(ts: str) -> "asyncio.Task[list[str]]":
        task = asyncio.create_task(together.submit_post("C1", ts, said))
        for _ in range(3):  # queued, then processing begins, then it waits at the gate
            await asyncio.sleep(0)
        return task

    first = await begun("9")
    given_up = await begun("10")
    given_up.cancel()
    await asyncio.wait([given_up])
    again = await begun("10")
    gate.set()
    assert (await first, await again) == (["inc-1"], ["inc-1"])
    assert taken == [["9"], ["10"]], "what is delivered again while it waits is one row"
    failing = await asyncio.gather(*(together.submit_post("C1", ts, said) for ts in ("11", "12")), return_exceptions=True)
    assert [type(row) for row in failing] == [OSError, OSError]
    assert await together.submit_post("C1", "13", said) == ["inc-1"]
    assert taken[2:] == [["11", "12"], ["13"]]


async def test_only_the_bot_that_the_settings_name_and_only_its_own_groups(bot: Behind) -> None:
    await post(bot, 1, "[FIRING:1] FanSlow gpu-017 (warning)", by="B0OTHER")
    assert await bot.items() == []
    await post(bot, 2, "[FIRING:1] FanSlow gpu-017 (warning)")
    await post(bot, 3, "[RESOLVED] FanSlow gpu-017 (warning)", by="B0OTHER")
    await post(bot, 4, "[RESOLVED] FanSlow gpu-017 (warning)", link="http://another.example.com")
    assert await over_in(bot) == [False]


async def test_an_unknown_format_opens_one_report(bot: Behind) -> None:
    await post(bot, 1, "Triggered #12: fan slow", f"on {HOSTS[0]}")
    [item] = await bot.items()
    assert (item.kind, item.text) == ("mention", f"Triggered #12: fan slow\non {HOSTS[0]}")


@pytest.mark.parametrize("seed", range(3))
async def test_five_hundred_in_any_order_are_one_incident_a_cause_and_each_ends(bot: Behind, seed: int) -> None:
    groups = [(f"LinkDown node-{n}", block("LinkDown", HOSTS[n % len(HOSTS)], port=str(n), leaf=f"sw-{n % 2}")) for n in range(100)]
    said = [(10 * n + step, "RESOLVED" if step == 3 else "FIRING:1", *group) for n, group in enumerate(groups) for step in range(5)]
    random.Random(seed).shuffle(said)
    await asyncio.gather(*(post(bot, ts, f"[{state}] {name} (critical)", text) for ts, state, name, text in said))
    assert len(await bot.inbox.list_open_incidents()) == 2
    counted = [await AlertStore(bot.redis).load_tally(item.data["alerts"]) for item in await bot.items() if item.kind == "mention"]
    assert sorted((row.cause, row.firing, row.resolved) for row in counted) == [("leaf sw-0", 50, 0), ("leaf sw-1", 50, 0)], (
        "by their last word"
    )
    await asyncio.gather(*(post(bot, 10_000 + n, f"[RESOLVED] {name} (critical)") for n, (name, _) in enumerate(groups)))
    assert await over_in(bot) == [True, True]
    assert bot.texts(OPS) == []
