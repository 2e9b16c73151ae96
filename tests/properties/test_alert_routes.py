"""Alerts, routing files and shared channels in any order: each firing alert is in one episode, a cause is open once per
channel, an episode stays in its channel while allowed, and nothing opens in a shared channel.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fakeredis import FakeAsyncRedis
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bot.alerts.test_alerts import alert
from tests.bot.alerts.test_routing import ACME, FABRIC, NOWHERE, OPS, STORE, Desk
from tools.ledger.redis_replies import decode_text

CHANNELS, TEAMS, CAUSES = (OPS, FABRIC, STORE), ("a", "b", ""), ("Hot", "Cold")
ROUTE = st.builds(
    lambda channel, team, name: {"channel": channel, "matchers": [f'team="{team}"', f'alertname=~"{name}"']},
    st.sampled_from((*CHANNELS, ACME, NOWHERE)),
    st.sampled_from(TEAMS),
    st.sampled_from(("Hot", "Co.*", ".*")),
)
FILE = st.tuples(st.just("file"), st.lists(ROUTE, max_size=3), st.sampled_from((OPS, FABRIC)))
SHARED = st.tuples(st.just("shared"), st.sets(st.sampled_from((FABRIC, STORE))))
SENT = st.tuples(
    st.just("sent"), st.integers(0, 3), st.sampled_from(CAUSES), st.sampled_from(TEAMS), st.sampled_from(("firing", "firing", "resolved"))
)


async def played(steps: Sequence[tuple[Any, ...]]) -> None:
    async with FakeAsyncRedis() as redis:
        desk, default = Desk(redis), OPS
        desk.serves()
        firing: dict[str, str] = {}
        for step in steps:
            match step:
                case ("file", routes, channel):
                    default = channel
                    desk.serves(*routes, channel=channel)
                case ("shared", channels):
                    desk.shared = channels - {default}
                case (_, n, cause, team, status):
                    before = {*await desk.redis.keys("rm:alerts:about:*")}
                    await desk.send(alert(n, cause, status=status, team=team))
                    sign = f"{cause.lower()}{n:04}"
                    was = firing.pop(sign, "")
                    if status == "firing":
                        firing[sign] = decode_text(await desk.redis.get(f"rm:alerts:by:{sign}"))
                        await holds(desk, firing[sign], sign, was, {*await desk.redis.keys("rm:alerts:about:*")} - before, default)
        await once(desk, firing)


async def holds(desk: Desk, episode: str, sign: str, was: str, begun: set[bytes | str], default: str) -> None:
    """Check the alert that was just received."""
    channel = await desk.book.get_channel(episode)
    assert channel in CHANNELS
    if begun:
        assert channel not in desk.shared or channel == default
    if desk.intake.routing.routes:
        assert channel not in desk.shared or channel == default
    if was and (stays := await desk.book.get_channel(was)) and (stays not in desk.shared or not desk.intake.routing.routes):
        assert episode == was, f"{sign} fires in {was} ({stays}) and went to {episode} ({channel})"


async def once(desk: Desk, firing: dict[str, str]) -> None:
    """Check that no alert is lost and no cause is open twice."""
    told = Counter[str]()
    for incident in await desk.inbox.list_open_incidents():
        told.update({str(item.data["alerts"]) for item in await desk.inbox.list_waiting(incident)})
    assert {*firing.values()} <= set(told)
    for sign, episode in firing.items():
        assert [1 for row in await desk.redis.hkeys(f"rm:alerts:of:{episode}") if row == sign.encode()] == [1]
    causes = Counter[tuple[str, str]]()
    for key in await desk.redis.keys("rm:alerts:now:*"):
        episode = decode_text(await desk.redis.get(key))
        causes[(await desk.book.load_tally(episode)).cause, await desk.book.get_channel(episode)] += 1
    assert [row for row, count in causes.items() if count > 1] == []


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(SENT, SENT, SENT, FILE, SHARED), min_size=2, max_size=14))
def test_in_any_order_no_alert_is_lost_or_told_twice(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(played(steps))
