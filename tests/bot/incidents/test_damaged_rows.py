"""A damaged Redis row is set aside; the rows beside it are processed."""

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.publishing.abandoned_messages import AbandonedMessageSweeper
from bot.policy.quotas import ExceededLimit, QuotaLimit
from bot.remediation.action_index import ActionIndex
from bot.slack.client import _get_retry_after
from bot.slack.payloads import parse_files, parse_message
from bot.store.keys import RedisKeys
from bot.store.quotas import QuotaWaitingList
from bot.tasks import to_coroutine
from tests.bot.incidents.dispatch.test_dispatcher import Office, turn_of
from tests.support.clock import SetClock
from tests.support.fakes_desk import item
from tools.ssh.batch import _parse_answer

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow
HUGE = "9" * 5000
DAMAGED = (b"a\n{}", b"a\nnot json", b"a", b"", b"\xff\xfe", f'a\n{{"id":{HUGE}}}'.encode())


@pytest.mark.parametrize("row", DAMAGED)
async def test_a_damaged_item_is_set_aside_and_the_next_has_its_turn(redis: Redis, row: bytes) -> None:
    office = Office(redis)
    incident = await office.mention("a")
    inbox = RedisKeys().incident_key(incident, "inbox")
    await to_coroutine(redis.lpush(inbox, row))
    await office.inbox.enqueue(item(incident, "b", "reply"), "b")
    await office.desk.process_incident(incident)
    assert await office.visits(incident) == turn_of("a") + turn_of("b")
    assert [b"cannot be read" in letter for letter in await office.inbox.list_dead_letters()] == [True]
    assert await redis.llen(inbox) == 0


async def test_only_the_lease_holder_takes_a_damaged_item(redis: Redis) -> None:
    office = Office(redis)
    incident = await office.mention("a")
    await to_coroutine(redis.lpush(RedisKeys().incident_key(incident, "inbox"), b"a\nnot json"))
    assert not await office.inbox.drop_damaged_item(incident, "somebody else's token")
    assert await redis.llen(RedisKeys().incident_key(incident, "inbox")) == 2


class Messages:
    """Living messages of three incidents, one of which cannot be cleared."""

    def __init__(self) -> None:
        self.gone: list[str] = []
        self.unsettled = self

    async def list_abandoned(self, _: timedelta) -> Sequence[str]:
        return ["inc-1", "inc-2", "inc-3"]

    async def clear_abandoned(self, incident: str) -> None:
        if incident == "inc-2":
            raise ValueError(HUGE[:40])
        self.gone.append(incident)


async def test_one_message_that_cannot_be_let_go_of_hides_no_other() -> None:
    messages = Messages()

    async def catch_up(incident: str) -> None:
        assert incident

    assert await AbandonedMessageSweeper(cast(Any, messages), catch_up).sweep() == 3
    assert messages.gone == ["inc-1", "inc-3"]


@pytest.mark.parametrize(
    "row", [b"", b"incidents", b"nonsense 5", f"mentions {HUGE}".encode(), b"mentions nan", b"\xff inf", b"incidents -1"]
)
async def test_a_damaged_reason_of_one_customer_keeps_no_other_from_being_listed(redis: Redis, row: bytes) -> None:
    clock = SetClock()
    waits, inbox = QuotaWaitingList(redis, clock), Inbox(redis, clock)
    office = Office(redis)
    for tenant, thread in (("acme", "1.0"), ("globex", "2.0")):
        incident = await office.mention(tenant, thread)
        await waits.add_incident(tenant, incident, ExceededLimit(QuotaLimit.MENTIONS, clock.now()))
    await to_coroutine(redis.hset(RedisKeys().waits_why, "acme", row))
    assert [one.tenant for one in await waits.prune_waiting_tenants()] == ["acme", "globex"]
    assert inbox is not None


async def test_a_damaged_moment_of_one_remedy_keeps_no_other_from_being_read(redis: Redis) -> None:
    index, clock = ActionIndex(redis, SetClock()), SetClock()
    await to_coroutine(redis.hset(RedisKeys().treatments_key("gpu-001"), mapping={"gpu1": "yesterday", "gpu2": clock.now().isoformat()}))
    assert [row.names for row in await index.list_treatments(("gpu-001", "gpu-002"))] == [("gpu2",)]


@pytest.mark.parametrize("ts", ["", "nan", "inf", HUGE, "1e999", "²", "-1", "1.0.0", "99999999999.0"])
def test_a_message_at_no_time_is_none(ts: str) -> None:
    said = {"team_id": "T1", "event": {"type": "message", "user": "U1", "channel": "C1", "ts": ts, "text": "<@U0> hello"}}
    assert parse_message(said, "U0") is None
    said["event"]["ts"] = "1716174600.000100"  # type: ignore[index]
    assert parse_message(said, "U0") is not None


@pytest.mark.parametrize("size", [None, "many", HUGE, -1, 10**4000, float("inf"), [], "²"])
def test_a_file_of_any_size_is_a_file(size: object) -> None:
    [file] = parse_files({"files": [{"id": "F1", "size": size}]})
    assert 0 <= file.size <= 1 << 40


@pytest.mark.parametrize(
    ("after", "rests"), [("7", 7.0), ("²", 1.0), (HUGE, 1.0), ("9" * 12, 3600.0), ("nan", 1.0), ("-3", 1.0), (None, 1.0)]
)
def test_slack_is_given_a_bounded_rest(after: object, rests: float) -> None:
    answer = SimpleNamespace(status_code=429, headers={"Retry-After": after})
    assert _get_retry_after(cast(Any, SimpleNamespace(response=answer))) == rests


@pytest.mark.parametrize("status", [b"", HUGE.encode(), b"-1", b"x"])
def test_an_exit_status_that_is_none_is_none(status: bytes) -> None:
    assert _parse_answer(b"out\n7\nerr\n7 " + status, "7").exit_status is None
