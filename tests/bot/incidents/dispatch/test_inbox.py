"""The inbox: stored once, in order, no expiry while open; leases with fencing tokens; timers that fire once."""

import asyncio
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.incidents.dispatch.fingerprint import IncidentFingerprint, compute_fingerprint, compute_fingerprint_after_turn
from bot.incidents.dispatch.inbox import DueEntry, EnqueueResult, Inbox
from bot.incidents.dispatch.lease import Leases
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from graph.checkpoints.fence import LostLease
from graph.state import InboxItem, IncidentState
from tests.support.clock import T0, SetClock
from tests.support.fakes_desk import item, origin, with_work

pytest_plugins = ("tests.support.fixtures_redis",)
KEEP = timedelta(days=30)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def inbox(redis: Redis, clock: SetClock) -> Inbox:
    return Inbox(redis, clock)


@pytest.fixture
def leases(redis: Redis, clock: SetClock) -> Leases:
    return Leases(redis, clock, owner="me")


async def test_the_first_mention_opens_an_incident_and_the_next_joins_it(inbox: Inbox) -> None:
    first = await inbox.open_or_join(origin(), "T.C.1", lambda i: item(i, "T.C.1"))
    second = await inbox.open_or_join(origin(), "T.C.2", lambda i: item(i, "T.C.2", "reply"))
    assert first.opened
    assert first.incident.startswith("inc-")
    assert not second.opened
    assert second.incident == first.incident
    assert [waiting.id for waiting in await inbox.list_waiting(first.incident)] == ["T.C.1", "T.C.2"]
    assert await inbox.find_incident("T", "C", "1.0") == first.incident
    assert await inbox.get_origin(first.incident) == origin()
    assert await inbox.get_lifecycle(first.incident) == "open"
    assert await inbox.list_open_incidents() == [first.incident]


async def test_what_slack_delivers_twice_is_stored_once(inbox: Inbox) -> None:
    first = await inbox.open_or_join(origin(), "T.C.1", lambda i: item(i))
    again = await inbox.open_or_join(origin(), "T.C.1", lambda i: item(i))
    assert again.duplicate
    assert again.incident == first.incident
    assert not await inbox.enqueue(item(first.incident), "T.C.1")
    assert len(await inbox.list_waiting(first.incident)) == 1


async def test_no_secret_gets_into_redis_with_what_people_write(inbox: Inbox, redis: Redis) -> None:
    token = "xoxb-123456789012-abcdefghijklmnop"
    written = {"text": f"it said token={token} on gpu-003", "data": {"root_cause": f"leaked {token}", "hosts": "gpu-003"}}
    first = await inbox.open_or_join(origin(), "T.C.1", lambda i: item(i).model_copy(update=written))
    await inbox.enqueue(item(first.incident, "T.C.2").model_copy(update=written), "T.C.2")
    kept = b"".join(await to_coroutine(redis.lrange(RedisKeys().incident_key(first.incident, "inbox"), 0, -1)))
    assert token.encode() not in kept
    assert [(one.data["hosts"], "gpu-003" in one.text) for one in await inbox.list_waiting(first.incident)] == [("gpu-003", True)] * 2


async def test_a_delivery_is_remembered_for_more_than_a_week(inbox: Inbox, redis: Redis) -> None:
    await inbox.open_or_join(origin(), "T.C.1", lambda i: item(i))
    assert await redis.ttl(RedisKeys().seen_item_key("T.C.1")) > 7 * 86400


async def test_many_first_mentions_at_once_open_one_incident(inbox: Inbox) -> None:
    got = await asyncio.gather(*(inbox.open_or_join(origin(), f"T.C.{n}", lambda i, n=n: item(i, f"T.C.{n}")) for n in range(8)))  # type: ignore[misc]
    assert len({one.incident for one in got}) == 1
    assert sum(one.opened for one in got) == 1
    waiting = await inbox.list_waiting(got[0].incident)
    assert {one.incident for one in waiting} == {got[0].incident}
    assert len(waiting) == 8


async def test_an_id_that_is_taken_is_drawn_again(redis: Redis, clock: SetClock) -> None:
    ids = iter(["inc-aaaaaa", "inc-aaaaaa", "inc-bbbbbb"])
    inbox = Inbox(redis, clock, new_id=lambda: next(ids))
    assert (await inbox.open_or_join(origin("1.0"), "k1", lambda i: item(i, "k1"))).incident == "inc-aaaaaa"
    assert (await inbox.open_or_join(origin("2.0"), "k2", lambda i: item(i, "k2"))).incident == "inc-bbbbbb"


async def test_nothing_of_an_open_incident_expires(inbox: Inbox, redis: Redis) -> None:
    await inbox.open_or_join(origin(), "T.C.1", lambda i: item(i))
    kept = [key for key in await redis.keys("*") if b":seen:" not in key]
    assert {await redis.ttl(key) for key in kept} == {-1}


async def test_an_item_leaves_only_for_the_holder_of_the_lease(inbox: Inbox, leases: Leases, redis: Redis) -> None:
    incident = (await inbox.open_or_join(origin(), "T.C.1", lambda i: item(i))).incident
    lease = await leases.acquire(incident)
    assert lease
    await redis.set(RedisKeys().lease_key(incident), "99:somebody")
    with pytest.raises(LostLease):
        await inbox.finish_item(incident, lease.token, "T.C.1", "open", {}, keep=KEEP)
    with pytest.raises(LostLease):
        await inbox.begin_observing(incident, lease.token, "T.C.1")
    assert len(await inbox.list_waiting(incident)) == 1


async def test_finishing_twice_takes_one_item(inbox: Inbox, leases: Leases, redis: Redis) -> None:
    incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
    await inbox.enqueue(item(incident, "b"), "b")
    lease = await leases.acquire(incident)
    assert lease
    await inbox.finish_item(incident, lease.token, "a", "open", {}, keep=KEEP)
    await inbox.finish_item(incident, lease.token, "a", "open", {}, keep=KEEP)
    assert [one.id for one in await inbox.list_waiting(incident)] == ["b"]
    assert await with_work(redis) == [incident]


async def test_a_closed_incident_gets_a_lifetime_and_a_new_item_takes_it_away(inbox: Inbox, leases: Leases, redis: Redis) -> None:
    incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
    lease = await leases.acquire(incident)
    assert lease
    await inbox.begin_observing(incident, lease.token, "a")
    await inbox.finish_observing(incident, lease.token, "a")
    await inbox.finish_item(incident, lease.token, "a", "closed", {}, keep=KEEP)
    names = RedisKeys()
    kept = [
        names.incident_key(incident),
        names.incident_key(incident, "threads"),
        names.incident_key(incident, "posted"),
        names.thread_key("T", "C", "1.0"),
    ]
    assert all([0 < await redis.ttl(key) <= KEEP.total_seconds() for key in kept])
    assert await inbox.list_open_incidents() == []
    await inbox.enqueue(item(incident, "b", "reply"), "b")
    assert {await redis.ttl(key) for key in kept} == {-1}
    assert await inbox.list_open_incidents() == [incident]
    assert await inbox.begin_observing(incident, lease.token, "a") is None


async def test_a_closed_incident_whose_nodes_we_hold_stays_until_they_are_back(inbox: Inbox, leases: Leases, redis: Redis) -> None:
    incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
    await inbox.enqueue(item(incident, "b", "reply"), "b")
    lease = await leases.acquire(incident)
    assert lease
    await inbox.finish_item(incident, lease.token, "a", "closed", {}, keep=None)
    await inbox.finish_item(incident, lease.token, "b", "closed", {}, keep=None)
    names = RedisKeys()
    assert await redis.ttl(names.incident_key(incident)) == -1
    assert (await inbox.list_open_incidents(), await inbox.list_drained_incidents()) == ([], [incident])
    await inbox.enqueue(item(incident, "c", "reply"), "c")
    await inbox.finish_item(incident, lease.token, "c", "closed", {}, keep=KEEP)
    assert (await redis.ttl(names.incident_key(incident)) > 0, await inbox.list_drained_incidents()) == (True, [])


async def test_a_second_thread_is_bound_to_the_incident_once(inbox: Inbox) -> None:
    incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
    other = (await inbox.open_or_join(origin("9.0"), "b", lambda i: item(i, "b"))).incident
    assert await inbox.bind_thread(incident, "T", "CUSTOMER", "5.0")
    assert await inbox.find_incident("T", "CUSTOMER", "5.0") == incident
    assert not await inbox.bind_thread(other, "T", "CUSTOMER", "5.0")


async def test_one_worker_has_the_lease_and_each_taking_has_a_higher_token(leases: Leases, redis: Redis, clock: SetClock) -> None:
    other = Leases(redis, clock, owner="other")
    mine = await leases.acquire("inc-1")
    assert mine
    assert await other.acquire("inc-1") is None
    assert await mine.release()
    theirs = await other.acquire("inc-1")
    assert theirs
    assert int(theirs.token.split(":")[0]) > int(mine.token.split(":")[0])


async def test_a_lease_is_not_given_back_while_items_wait(inbox: Inbox, leases: Leases) -> None:
    incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
    lease = await leases.acquire(incident)
    assert lease
    assert not await lease.release()
    assert lease.held
    assert await lease.release(again_at=T0)
    assert not lease.held


async def test_work_under_a_lost_lease_is_cancelled(redis: Redis, clock: SetClock) -> None:
    leases = Leases(redis, clock, owner="me", seconds=0.2)
    lease = await leases.acquire("inc-1")
    assert lease
    await redis.set(RedisKeys().lease_key("inc-1"), "99:somebody")
    cut = asyncio.Event()

    async def long_turn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    with pytest.raises(LostLease):
        await lease.guard(long_turn())
    assert cut.is_set()


async def test_a_lease_is_renewed_for_as_long_as_the_work_takes(redis: Redis, clock: SetClock) -> None:
    leases = Leases(redis, clock, owner="me", seconds=2)
    lease = await leases.acquire("inc-1")
    assert lease
    renewals, enough = 0, asyncio.Event()

    async def at_once(seconds: float) -> None:
        nonlocal renewals
        renewals += 1
        if renewals > 20:
            enough.set()
        await asyncio.sleep(0)

    leases.pause = at_once

    async def turn() -> str:
        await enough.wait()
        return "done"

    assert await lease.guard(turn()) == "done"
    assert await redis.pttl(RedisKeys().lease_key("inc-1")) > 1000


async def test_waiting_work_comes_due_and_is_then_put_off(inbox: Inbox, clock: SetClock) -> None:
    incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
    assert [(due.incident, due.why) for due in await inbox.collect_due(timedelta(seconds=60))] == [(incident, "work")]
    assert await inbox.collect_due(timedelta(seconds=60)) == []
    clock.go(seconds=61)
    assert len(await inbox.collect_due(timedelta(seconds=60))) == 1


async def test_a_timer_fires_once_for_any_number_of_callers(inbox: Inbox, leases: Leases, clock: SetClock) -> None:
    incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
    lease = await leases.acquire(incident)
    assert lease
    await inbox.finish_item(incident, lease.token, "a", "waiting", {"remind": T0 + timedelta(hours=4)}, keep=KEEP)
    assert await inbox.collect_due(timedelta(seconds=60)) == []
    clock.go(hours=4, seconds=1)
    [due] = await inbox.collect_due(timedelta(seconds=60))
    assert due.why == "remind"
    assert sorted(await asyncio.gather(inbox.fire_timer(due), inbox.fire_timer(due), inbox.fire_timer(due))) == [False, False, True]
    [waiting] = await inbox.list_waiting(incident)
    assert (waiting.kind, waiting.data) == ("timer", {"why": "remind"})


async def test_a_turn_replaces_all_timers_of_its_incident(inbox: Inbox, leases: Leases, clock: SetClock) -> None:
    incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
    await inbox.enqueue(item(incident, "b"), "b")
    lease = await leases.acquire(incident)
    assert lease
    await inbox.finish_item(incident, lease.token, "a", "waiting", {"remind": T0 + timedelta(hours=4)}, keep=KEEP)
    await inbox.finish_item(incident, lease.token, "b", "open", {"auto_close": T0 + timedelta(days=3)}, keep=KEEP)
    clock.go(days=4)
    [due] = await inbox.collect_due(timedelta(seconds=60))
    assert due.why == "auto_close"
    assert not await inbox.fire_timer(DueEntry(incident, "remind", due.score))


async def anything(incident: str) -> bool:
    return True


async def test_a_second_report_of_the_same_host_or_job_joins_the_open_incident(inbox: Inbox) -> None:
    first = await inbox.open_or_join(
        origin("1.0"), "a", lambda i: item(i, "a"), fingerprint=IncidentFingerprint(("n1", "n2"), "4711"), may_join=anything
    )
    assert first.opened
    for n, about in enumerate((IncidentFingerprint(("n1",)), IncidentFingerprint(("n2", "n1")), IncidentFingerprint(("n9",), "4711"))):
        again = await inbox.open_or_join(origin(f"2.{n}"), f"b{n}", lambda i, n=n: item(i, f"b{n}"), fingerprint=about, may_join=anything)  # type: ignore[misc]
        assert (again.incident, again.joined, again.opened, again.duplicate) == (first.incident, True, False, False)
    assert [(waiting.id, waiting.kind) for waiting in await inbox.list_waiting(first.incident)] == [
        ("a", "mention"),
        ("b0", "reply"),
        ("b1", "reply"),
        ("b2", "reply"),
    ]
    twin = await inbox.open_or_join(
        origin("2.0"), "b0", lambda i: item(i, "b0"), fingerprint=IncidentFingerprint(("n1",)), may_join=anything
    )
    assert (twin.incident, twin.duplicate) == (first.incident, True)
    for n, about in enumerate(
        (IncidentFingerprint(("n1", "n3")), IncidentFingerprint(("n4",)), IncidentFingerprint((), "4712"), IncidentFingerprint())
    ):
        other = await inbox.open_or_join(origin(f"3.{n}"), f"c{n}", lambda i, n=n: item(i, f"c{n}"), fingerprint=about, may_join=anything)  # type: ignore[misc]
        assert other.opened


async def test_a_report_does_not_join_a_closed_incident_with_late_items(inbox: Inbox, leases: Leases) -> None:
    """Found by a soak: a late action result followed the close, and a new report of the host became a reply to the
    closed incident.
    """
    about = IncidentFingerprint(("n1",), "4711", "f00d")
    first = (await inbox.open_or_join(origin("1.0"), "a", lambda i: item(i, "a"), fingerprint=about, may_join=anything)).incident
    await inbox.enqueue(item(first, "late"), "late")
    lease = await leases.acquire(first)
    assert lease
    await inbox.finish_item(first, lease.token, "a", "closed", {}, keep=KEEP, fingerprint=IncidentFingerprint(("n1",), "4711"))
    assert first in await inbox.list_open_incidents(), "somebody has to look after what waits"
    for n, same in enumerate((IncidentFingerprint(("n1",)), IncidentFingerprint((), "4711"), IncidentFingerprint((), "", "f00d"))):
        got = await inbox.open_or_join(origin(f"2.{n}"), f"b{n}", lambda i, n=n: item(i, f"b{n}"), fingerprint=same, may_join=anything)  # type: ignore[misc]
        assert got.opened, same
    await inbox.finish_item(first, lease.token, "late", "closed", {}, keep=KEEP, fingerprint=IncidentFingerprint(("n1",), "4711"))
    assert first not in await inbox.list_open_incidents()


async def test_who_may_not_join_gets_an_incident_of_their_own(inbox: Inbox) -> None:
    first = await inbox.open_or_join(origin("1.0"), "a", lambda i: item(i, "a"), fingerprint=IncidentFingerprint(("n1",)))
    second = await inbox.open_or_join(origin("2.0"), "b", lambda i: item(i, "b"), fingerprint=IncidentFingerprint(("n1",)))
    assert (first.opened, second.opened) == (True, True)
    asked: list[str] = []

    async def second_only(incident: str) -> bool:
        asked.append(incident)
        return incident == second.incident

    third = await inbox.open_or_join(
        origin("3.0"), "c", lambda i: item(i, "c"), fingerprint=IncidentFingerprint(("n1",)), may_join=second_only
    )
    assert (third.incident, third.joined) == (second.incident, True)
    assert asked[-1:] == [second.incident]
    assert set(asked) <= {first.incident, second.incident}


async def test_of_many_reports_of_one_host_at_once_one_opens_and_the_others_join(inbox: Inbox) -> None:
    async def report(n: int) -> EnqueueResult:
        return await inbox.open_or_join(
            origin(f"{n}.0"), f"k{n}", lambda i: item(i, f"k{n}"), fingerprint=IncidentFingerprint(("n1",)), may_join=anything
        )

    got = await asyncio.gather(*(report(n) for n in range(8)))
    assert sum(one.opened for one in got) == 1
    assert len({one.incident for one in got}) == 1
    assert len(await inbox.list_waiting(got[0].incident)) == 8


async def test_what_an_incident_concerns_follows_its_turns_and_ends_with_it(inbox: Inbox, leases: Leases, redis: Redis) -> None:
    incident = (
        await inbox.open_or_join(
            origin("1.0"), "a", lambda i: item(i, "a"), fingerprint=IncidentFingerprint(("n1",), "", "f00d"), may_join=anything
        )
    ).incident
    lease = await leases.acquire(incident)
    assert lease
    await inbox.finish_item(incident, lease.token, "a", "open", {}, keep=KEEP, fingerprint=IncidentFingerprint(("n2",), "4711"))
    for n, (about, joined) in enumerate(
        ((IncidentFingerprint(("n2",)), True), (IncidentFingerprint((), "4711"), True), (IncidentFingerprint((), "", "f00d"), True))
    ):
        got = await inbox.open_or_join(origin(f"2.{n}"), f"b{n}", lambda i, n=n: item(i, f"b{n}"), fingerprint=about, may_join=anything)  # type: ignore[misc]
        assert got.joined == joined
    for n in range(3):
        await inbox.finish_item(incident, lease.token, f"b{n}", "closed", {}, keep=KEEP, fingerprint=IncidentFingerprint(("n2",), "4711"))
    assert await inbox.get_lifecycle(incident) == "closed"
    assert [key async for key in redis.scan_iter(match="rm:concern:*")] == []
    anew = await inbox.open_or_join(origin("3.0"), "c", lambda i: item(i, "c"), fingerprint=IncidentFingerprint(("n2",)), may_join=anything)
    assert anew.opened


async def test_what_a_turn_found_is_joined_before_the_turn_has_ended(inbox: Inbox, redis: Redis) -> None:
    incident = (await inbox.open_or_join(origin("1.0"), "a", lambda i: item(i, "a"))).incident
    await inbox.add_fingerprint(incident, IncidentFingerprint())
    assert [key async for key in redis.scan_iter(match="rm:concern:*")] == []
    await inbox.add_fingerprint(incident, IncidentFingerprint(("n3",)))
    got = await inbox.open_or_join(origin("2.0"), "b", lambda i: item(i, "b"), fingerprint=IncidentFingerprint(("n3",)), may_join=anything)
    assert (got.incident, got.joined) == (incident, True)


def test_hosts_that_were_only_looked_at_are_not_what_an_incident_concerns() -> None:
    asked = "is n2 healthy? n2 runs hot"
    state: IncidentState = {"id": "i1", "brief": {"text": asked, "hosts": ["n1", "n2", "n3"]}, "said": [{"user": "U1", "text": asked}]}
    assert compute_fingerprint_after_turn(state).hosts == ("n2",)
    assert not compute_fingerprint_after_turn({**state, "stopped": True})


def test_an_alert_is_known_by_its_words_without_values_and_times() -> None:
    one = compute_fingerprint("2026-05-20T03:10:00Z GPU 3 temp 91.5C on gpu-017", ("gpu-017",), alert=True)
    two = compute_fingerprint("2026-05-20T03:11:00Z GPU 3 temp 92C on gpu-017", ("gpu-017",), alert=True)
    other = compute_fingerprint("2026-05-20T03:11:00Z GPU 3 temp 92C on gpu-018", ("gpu-017",), alert=True)
    assert one == two
    assert one.hosts == ("gpu-017",)
    assert one.alert != other.alert
    assert compute_fingerprint("job 4711 hangs on gpu-[017-018]", ("gpu-017", "gpu-018")) == IncidentFingerprint(
        ("gpu-017", "gpu-018"), "4711"
    )


async def test_an_item_id_of_two_lines_is_refused(inbox: Inbox) -> None:
    bad = InboxItem(id="a\nb", kind="mention", incident="inc-1", at=T0)
    with pytest.raises(ValueError, match="must be one line"):
        await inbox.enqueue(bad, "a")


async def test_no_secret_is_stored_however_deep_it_lies_in_an_item(inbox: Inbox, redis: Redis) -> None:
    secret = "tk-9fQ2xAyu71b"
    data = {
        "files": [{"id": "F1", "name": f"password={secret}.log", "size": 1, "url": "https://files.slack.com/a"}],
        "said": {"notes": [f"token={secret}"]},
    }
    said = item("inc-1", "T.C.1", text=f"password={secret}").model_copy(update={"data": data})
    await inbox.open_or_join(origin(), "T.C.1", lambda i: said.model_copy(update={"incident": i}))
    stored = b"\n".join(
        [row for key in await redis.keys("*") if await redis.type(key) == b"list" for row in await to_coroutine(redis.lrange(key, 0, -1))]
    )
    assert secret.encode() not in stored
    assert b"https://files.slack.com/a" in stored
