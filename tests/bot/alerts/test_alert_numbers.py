"""Numbers in alerts and stored episodes are bounded before they are added, and a damaged row does not hide the others."""

import json
from collections.abc import AsyncIterator

import pytest
from fakeredis import FakeAsyncRedis

from bot.alerts.alert import AlertLabels, render_alert_summary
from bot.alerts.webhook_messages import MAX_UNLISTED_ALERTS, UnreadableAlerts, parse_alertmanager_webhook, parse_own_webhook
from bot.inbound import InboundRequest
from tests.bot.alerts.test_alerts import BEARER, Bell, alert, message

pytestmark = pytest.mark.slow


@pytest.fixture
async def bell() -> AsyncIterator[Bell]:
    async with FakeAsyncRedis() as redis:
        yield Bell(redis)


def raw(truncated: str, group: str = "g") -> bytes:
    whole = json.loads(message([alert(1)], groupKey=group))
    return json.dumps({**whole, "truncatedAlerts": "COUNT"}).replace('"COUNT"', truncated).encode()


@pytest.mark.parametrize(
    ("truncated", "left"),
    [
        *[
            ("7", 7),
            ("0", 0),
            ("-5", 0),
            ("9" * 4300, MAX_UNLISTED_ALERTS),
            ("-" + "9" * 4300, 0),
            ("9" * 18, MAX_UNLISTED_ALERTS),
            ("true", 0),
            ("null", 0),
        ],
        *[
            ("1e999", 0),
            ("NaN", 0),
            ("1.5", 0),
            ('"7"', 7),
            ('"' + "9" * 4300 + '"', MAX_UNLISTED_ALERTS),
            ("[7]", 0),
            ('{"a":1}', 0),
            ('"²"', 0),
        ],
    ],
)
def test_a_count_is_bounded_before_it_is_added(truncated: str, left: int) -> None:
    assert parse_alertmanager_webhook(raw(truncated), AlertLabels()).left == left


def test_a_number_that_python_does_not_read_is_no_message() -> None:
    for read in (lambda body: parse_alertmanager_webhook(body, AlertLabels()), parse_own_webhook):
        with pytest.raises(UnreadableAlerts):
            read(raw("9" * 5000))
    with pytest.raises(UnreadableAlerts):
        parse_own_webhook(json.dumps({"alerts": [{"id": "a", "name": "b", "xid": 10**4000}]}).encode())


async def test_two_messages_with_endless_counts_leave_a_cause_as_it_is(bell: Bell) -> None:
    for group in ("one", "two"):
        assert (await bell.intake.handle_alertmanager(InboundRequest(BEARER, raw("9" * 4300, group)))).status == 200
    assert (await bell.send(alert(2))).status == 200
    [incident] = await bell.inbox.list_open_incidents()
    episode = (await bell.items())[0].data["alerts"]
    counted = await bell.book.load_tally(episode)
    assert (counted.firing, counted.left, counted.is_resolved) == (2, MAX_UNLISTED_ALERTS, False)
    assert str(MAX_UNLISTED_ALERTS) in render_alert_summary(counted)
    assert incident


@pytest.mark.parametrize("row", [b"", b"{", b"[]", b"7", b'{"id":"x"}', b'{"id":"x","name":"n","firing":[]}', b"\xff", b"9" * 5000])
async def test_a_damaged_alert_keeps_none_of_the_others_from_being_counted(bell: Bell, row: bytes) -> None:
    await bell.send(alert(1), alert(2))
    episode = (await bell.items())[0].data["alerts"]
    key = bell.book._build_key("of", episode)
    [first, _] = sorted(await bell.redis.hkeys(key))
    await bell.redis.hset(key, first, row)
    counted = await bell.book.load_tally(episode)
    assert (counted.firing, counted.more, counted.is_resolved) == (1, 1, False), "it counts as one of which nobody knows"
    assert (await bell.send(alert(3))).status == 200
    assert (await bell.send(alert(1), alert(2))).status == 200
    assert (await bell.book.load_tally(episode)).firing == 3, "and is whole with the next message of it"


@pytest.mark.parametrize("value", ["", "abc", "9" * 5000, "-3", "nan", "1e9", "²"])
async def test_a_damaged_number_of_an_episode_is_read_as_far_as_it_can_be(bell: Bell, value: str) -> None:
    await bell.send(alert(1))
    episode = (await bell.items())[0].data["alerts"]
    await bell.redis.hset(bell.book._build_key("left", episode), "g", value)
    for field in ("more", "batch", "owed", "told"):
        await bell.redis.hset(bell.book._build_key("about", episode), field, value)
    counted = await bell.book.load_tally(episode)
    assert 0 <= counted.left <= MAX_UNLISTED_ALERTS
    assert 0 <= counted.more <= MAX_UNLISTED_ALERTS
    assert await bell.book.get_batch(episode) >= -3
