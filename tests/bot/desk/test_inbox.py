"""The inbox: stored once, in order, never expiring while open; leases with fences; timers that fire once."""

import asyncio
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.desk.concern import Concern, concern_after, concern_of
from bot.desk.inbox import Due, Inbox, Received
from bot.desk.lease import Leases
from bot.store.keys import Names
from bot.tasks import awaited
from graph.memory.fence import LostLease
from graph.state import Incident, Item
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
    first = await inbox.open(origin(), "T.C.1", lambda i: item(i, "T.C.1"))
    second = await inbox.open(origin(), "T.C.2", lambda i: item(i, "T.C.2", "reply"))
    assert first.opened
    assert first.incident.startswith("inc-")
    assert not second.opened
    assert second.incident == first.incident
    assert [waiting.id for waiting in await inbox.peek(first.incident)] == ["T.C.1", "T.C.2"]
    assert await inbox.find("T", "C", "1.0") == first.incident
    assert await inbox.origin(first.incident) == origin()
    assert await inbox.lifecycle(first.incident) == "open"
    assert await inbox.open_incidents() == [first.incident]


async def test_what_slack_delivers_twice_is_stored_once(inbox: Inbox) -> None:
    first = await inbox.open(origin(), "T.C.1", lambda i: item(i))
    again = await inbox.open(origin(), "T.C.1", lambda i: item(i))
    assert again.duplicate
    assert again.incident == first.incident
    assert not await inbox.enqueue(item(first.incident), "T.C.1")
    assert len(await inbox.peek(first.incident)) == 1


async def test_no_secret_gets_into_redis_with_what_people_write(inbox: Inbox, redis: Redis) -> None:
    token = "xoxb-123456789012-abcdefghijklmnop"
    written = {"text": f"it said token={token} on gpu-003", "data": {"root_cause": f"leaked {token}", "hosts": "gpu-003"}}
    first = await inbox.open(origin(), "T.C.1", lambda i: item(i).model_copy(update=written))
    await inbox.enqueue(item(first.incident, "T.C.2").model_copy(update=written), "T.C.2")
    kept = b"".join(await awaited(redis.lrange(Names().of(first.incident, "inbox"), 0, -1)))
    assert token.encode() not in kept
    assert [(one.data["hosts"], "gpu-003" in one.text) for one in await inbox.peek(first.incident)] == [("gpu-003", True)] * 2


async def test_a_delivery_is_remembered_for_more_than_a_week(inbox: Inbox, redis: Redis) -> None:
    await inbox.open(origin(), "T.C.1", lambda i: item(i))
    assert await redis.ttl(Names().seen("T.C.1")) > 7 * 86400


async def test_many_first_mentions_at_once_open_one_incident(inbox: Inbox) -> None:
    got = await asyncio.gather(*(inbox.open(origin(), f"T.C.{n}", lambda i, n=n: item(i, f"T.C.{n}")) for n in range(8)))  # type: ignore[misc]
    assert len({one.incident for one in got}) == 1
    assert sum(one.opened for one in got) == 1
    waiting = await inbox.peek(got[0].incident)
    assert {one.incident for one in waiting} == {got[0].incident}
    assert len(waiting) == 8


async def test_an_id_that_is_taken_is_drawn_again(redis: Redis, clock: SetClock) -> None:
    ids = iter(["inc-aaaaaa", "inc-aaaaaa", "inc-bbbbbb"])
    inbox = Inbox(redis, clock, new_id=lambda: next(ids))
    assert (await inbox.open(origin("1.0"), "k1", lambda i: item(i, "k1"))).incident == "inc-aaaaaa"
    assert (await inbox.open(origin("2.0"), "k2", lambda i: item(i, "k2"))).incident == "inc-bbbbbb"


async def test_nothing_of_an_open_incident_expires(inbox: Inbox, redis: Redis) -> None:
    await inbox.open(origin(), "T.C.1", lambda i: item(i))
    kept = [key for key in await redis.keys("*") if b":seen:" not in key]
    assert {await redis.ttl(key) for key in kept} == {-1}


async def test_an_item_leaves_only_for_the_holder_of_the_lease(inbox: Inbox, leases: Leases, redis: Redis) -> None:
    incident = (await inbox.open(origin(), "T.C.1", lambda i: item(i))).incident
    lease = await leases.take(incident)
    assert lease
    await redis.set(Names().lease(incident), "99:somebody")
    with pytest.raises(LostLease):
        await inbox.finish(incident, lease.token, "T.C.1", "open", {}, keep=KEEP)
    with pytest.raises(LostLease):
        await inbox.posting(incident, lease.token, "T.C.1")
    assert len(await inbox.peek(incident)) == 1


async def test_finishing_twice_takes_one_item(inbox: Inbox, leases: Leases, redis: Redis) -> None:
    incident = (await inbox.open(origin(), "a", lambda i: item(i, "a"))).incident
    await inbox.enqueue(item(incident, "b"), "b")
    lease = await leases.take(incident)
    assert lease
    await inbox.finish(incident, lease.token, "a", "open", {}, keep=KEEP)
    await inbox.finish(incident, lease.token, "a", "open", {}, keep=KEEP)
    assert [one.id for one in await inbox.peek(incident)] == ["b"]
    assert await with_work(redis) == [incident]


async def test_a_closed_incident_gets_a_lifetime_and_a_new_item_takes_it_away(inbox: Inbox, leases: Leases, redis: Redis) -> None:
    incident = (await inbox.open(origin(), "a", lambda i: item(i, "a"))).incident
    lease = await leases.take(incident)
    assert lease
    assert await inbox.posting(incident, lease.token, "a")
    await inbox.posted(incident, lease.token, "a")
    await inbox.finish(incident, lease.token, "a", "closed", {}, keep=KEEP)
    names = Names()
    kept = [names.of(incident), names.of(incident, "threads"), names.of(incident, "posted"), names.thread("T", "C", "1.0")]
    assert all([0 < await redis.ttl(key) <= KEEP.total_seconds() for key in kept])
    assert await inbox.open_incidents() == []
    await inbox.enqueue(item(incident, "b", "reply"), "b")
    assert {await redis.ttl(key) for key in kept} == {-1}
    assert await inbox.open_incidents() == [incident]
    assert not await inbox.posting(incident, lease.token, "a")


async def test_a_closed_incident_whose_nodes_we_hold_stays_until_they_are_back(inbox: Inbox, leases: Leases, redis: Redis) -> None:
    incident = (await inbox.open(origin(), "a", lambda i: item(i, "a"))).incident
    await inbox.enqueue(item(incident, "b", "reply"), "b")
    lease = await leases.take(incident)
    assert lease
    await inbox.finish(incident, lease.token, "a", "closed", {}, keep=None)
    await inbox.finish(incident, lease.token, "b", "closed", {}, keep=None)
    names = Names()
    assert await redis.ttl(names.of(incident)) == -1
    assert (await inbox.open_incidents(), await inbox.held_incidents()) == ([], [incident])
    await inbox.enqueue(item(incident, "c", "reply"), "c")
    await inbox.finish(incident, lease.token, "c", "closed", {}, keep=KEEP)
    assert (await redis.ttl(names.of(incident)) > 0, await inbox.held_incidents()) == (True, [])


async def test_a_second_thread_is_bound_to_the_incident_once(inbox: Inbox) -> None:
    incident = (await inbox.open(origin(), "a", lambda i: item(i, "a"))).incident
    other = (await inbox.open(origin("9.0"), "b", lambda i: item(i, "b"))).incident
    assert await inbox.bind(incident, "T", "CUSTOMER", "5.0")
    assert await inbox.find("T", "CUSTOMER", "5.0") == incident
    assert not await inbox.bind(other, "T", "CUSTOMER", "5.0")


async def test_one_worker_has_the_lease_and_each_taking_has_a_higher_token(leases: Leases, redis: Redis, clock: SetClock) -> None:
    other = Leases(redis, clock, owner="other")
    mine = await leases.take("inc-1")
    assert mine
    assert await other.take("inc-1") is None
    assert await mine.release()
    theirs = await other.take("inc-1")
    assert theirs
    assert int(theirs.token.split(":")[0]) > int(mine.token.split(":")[0])


async def test_a_lease_is_not_given_back_while_items_wait(inbox: Inbox, leases: Leases) -> None:
    incident = (await inbox.open(origin(), "a", lambda i: item(i, "a"))).incident
    lease = await leases.take(incident)
    assert lease
    assert not await lease.release()
    assert lease.held
    assert await lease.release(again_at=T0)
    assert not lease.held


async def test_work_under_a_lost_lease_is_cancelled(redis: Redis, clock: SetClock) -> None:
    leases = Leases(redis, clock, owner="me", seconds=0.2)
    lease = await leases.take("inc-1")
    assert lease
    await redis.set(Names().lease("inc-1"), "99:somebody")
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
    lease = await leases.take("inc-1")
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
    assert await redis.pttl(Names().lease("inc-1")) > 1000


async def test_waiting_work_comes_due_and_is_then_put_off(inbox: Inbox, clock: SetClock) -> None:
    incident = (await inbox.open(origin(), "a", lambda i: item(i, "a"))).incident
    assert [(due.incident, due.why) for due in await inbox.come_due(timedelta(seconds=60))] == [(incident, "work")]
    assert await inbox.come_due(timedelta(seconds=60)) == []
    clock.go(seconds=61)
    assert len(await inbox.come_due(timedelta(seconds=60))) == 1


async def test_a_timer_fires_once_whoever_asks(inbox: Inbox, leases: Leases, clock: SetClock) -> None:
    incident = (await inbox.open(origin(), "a", lambda i: item(i, "a"))).incident
    lease = await leases.take(incident)
    assert lease
    await inbox.finish(incident, lease.token, "a", "waiting", {"remind": T0 + timedelta(hours=4)}, keep=KEEP)
    assert await inbox.come_due(timedelta(seconds=60)) == []
    clock.go(hours=4, seconds=1)
    [due] = await inbox.come_due(timedelta(seconds=60))
    assert due.why == "remind"
    assert sorted(await asyncio.gather(inbox.fire(due), inbox.fire(due), inbox.fire(due))) == [False, False, True]
    [waiting] = await inbox.peek(incident)
    assert (waiting.kind, waiting.data) == ("timer", {"why": "remind"})


async def test_a_turn_replaces_all_timers_of_its_incident(inbox: Inbox, leases: Leases, clock: SetClock) -> None:
    incident = (await inbox.open(origin(), "a", lambda i: item(i, "a"))).incident
    await inbox.enqueue(item(incident, "b"), "b")
    lease = await leases.take(incident)
    assert lease
    await inbox.finish(incident, lease.token, "a", "waiting", {"remind": T0 + timedelta(hours=4)}, keep=KEEP)
    await inbox.finish(incident, lease.token, "b", "open", {"auto_close": T0 + timedelta(days=3)}, keep=KEEP)
    clock.go(days=4)
    [due] = await inbox.come_due(timedelta(seconds=60))
    assert due.why == "auto_close"
    assert not await inbox.fire(Due(incident, "remind", due.score))


async def anything(incident: str) -> bool:
    return True


async def test_a_second_report_of_the_same_host_or_job_joins_the_open_incident(inbox: Inbox) -> None:
    first = await inbox.open(origin("1.0"), "a", lambda i: item(i, "a"), about=Concern(("n1", "n2"), "4711"), joins=anything)
    assert first.opened
    for n, about in enumerate((Concern(("n1",)), Concern(("n2", "n1")), Concern(("n9",), "4711"))):
        again = await inbox.open(origin(f"2.{n}"), f"b{n}", lambda i, n=n: item(i, f"b{n}"), about=about, joins=anything)  # type: ignore[misc]
        assert (again.incident, again.joined, again.opened, again.duplicate) == (first.incident, True, False, False)
    assert [(waiting.id, waiting.kind) for waiting in await inbox.peek(first.incident)] == [
        ("a", "mention"),
        ("b0", "reply"),
        ("b1", "reply"),
        ("b2", "reply"),
    ]
    twin = await inbox.open(origin("2.0"), "b0", lambda i: item(i, "b0"), about=Concern(("n1",)), joins=anything)
    assert (twin.incident, twin.duplicate) == (first.incident, True)
    for n, about in enumerate((Concern(("n1", "n3")), Concern(("n4",)), Concern((), "4712"), Concern())):
        other = await inbox.open(origin(f"3.{n}"), f"c{n}", lambda i, n=n: item(i, f"c{n}"), about=about, joins=anything)  # type: ignore[misc]
        assert other.opened


async def test_nobody_joins_a_closed_incident_for_which_something_late_still_waits(inbox: Inbox, leases: Leases) -> None:
    """Found by a soak: under load a card's end came a minute after the close, and a new report of the host became a reply to what was over."""
    about = Concern(("n1",), "4711", "f00d")
    first = (await inbox.open(origin("1.0"), "a", lambda i: item(i, "a"), about=about, joins=anything)).incident
    await inbox.enqueue(item(first, "late"), "late")
    lease = await leases.take(first)
    assert lease
    await inbox.finish(first, lease.token, "a", "closed", {}, keep=KEEP, about=Concern(("n1",), "4711"))
    assert first in await inbox.open_incidents(), "somebody has to look after what waits"
    for n, same in enumerate((Concern(("n1",)), Concern((), "4711"), Concern((), "", "f00d"))):
        got = await inbox.open(origin(f"2.{n}"), f"b{n}", lambda i, n=n: item(i, f"b{n}"), about=same, joins=anything)  # type: ignore[misc]
        assert got.opened, same
    await inbox.finish(first, lease.token, "late", "closed", {}, keep=KEEP, about=Concern(("n1",), "4711"))
    assert first not in await inbox.open_incidents()


async def test_who_may_not_join_gets_an_incident_of_their_own(inbox: Inbox) -> None:
    first = await inbox.open(origin("1.0"), "a", lambda i: item(i, "a"), about=Concern(("n1",)))
    second = await inbox.open(origin("2.0"), "b", lambda i: item(i, "b"), about=Concern(("n1",)))
    assert (first.opened, second.opened) == (True, True)
    asked: list[str] = []

    async def second_only(incident: str) -> bool:
        asked.append(incident)
        return incident == second.incident

    third = await inbox.open(origin("3.0"), "c", lambda i: item(i, "c"), about=Concern(("n1",)), joins=second_only)
    assert (third.incident, third.joined) == (second.incident, True)
    assert asked[-1:] == [second.incident]
    assert set(asked) <= {first.incident, second.incident}


async def test_of_many_reports_of_one_host_at_once_one_opens_and_the_others_join(inbox: Inbox) -> None:
    async def report(n: int) -> Received:
        return await inbox.open(origin(f"{n}.0"), f"k{n}", lambda i: item(i, f"k{n}"), about=Concern(("n1",)), joins=anything)

    got = await asyncio.gather(*(report(n) for n in range(8)))
    assert sum(one.opened for one in got) == 1
    assert len({one.incident for one in got}) == 1
    assert len(await inbox.peek(got[0].incident)) == 8


async def test_what_an_incident_concerns_follows_its_turns_and_ends_with_it(inbox: Inbox, leases: Leases, redis: Redis) -> None:
    incident = (await inbox.open(origin("1.0"), "a", lambda i: item(i, "a"), about=Concern(("n1",), "", "f00d"), joins=anything)).incident
    lease = await leases.take(incident)
    assert lease
    await inbox.finish(incident, lease.token, "a", "open", {}, keep=KEEP, about=Concern(("n2",), "4711"))
    for n, (about, joined) in enumerate(((Concern(("n2",)), True), (Concern((), "4711"), True), (Concern((), "", "f00d"), True))):
        got = await inbox.open(origin(f"2.{n}"), f"b{n}", lambda i, n=n: item(i, f"b{n}"), about=about, joins=anything)  # type: ignore[misc]
        assert got.joined == joined
    for n in range(3):
        await inbox.finish(incident, lease.token, f"b{n}", "closed", {}, keep=KEEP, about=Concern(("n2",), "4711"))
    assert await inbox.lifecycle(incident) == "closed"
    assert [key async for key in redis.scan_iter(match="rm:concern:*")] == []
    anew = await inbox.open(origin("3.0"), "c", lambda i: item(i, "c"), about=Concern(("n2",)), joins=anything)
    assert anew.opened


async def test_what_a_turn_found_is_joined_before_the_turn_has_ended(inbox: Inbox, redis: Redis) -> None:
    incident = (await inbox.open(origin("1.0"), "a", lambda i: item(i, "a"))).incident
    await inbox.concerns(incident, Concern())
    assert [key async for key in redis.scan_iter(match="rm:concern:*")] == []
    await inbox.concerns(incident, Concern(("n3",)))
    got = await inbox.open(origin("2.0"), "b", lambda i: item(i, "b"), about=Concern(("n3",)), joins=anything)
    assert (got.incident, got.joined) == (incident, True)


def test_hosts_that_were_only_looked_at_are_not_what_an_incident_concerns() -> None:
    asked = "is n2 healthy? n2 runs hot"
    state: Incident = {"id": "i1", "brief": {"text": asked, "hosts": ["n1", "n2", "n3"]}, "said": [{"user": "U1", "text": asked}]}
    assert concern_after(state).hosts == ("n2",)
    assert not concern_after({**state, "stopped": True})


def test_an_alert_is_known_by_its_words_without_values_and_times() -> None:
    one = concern_of("2026-05-20T03:10:00Z GPU 3 temp 91.5C on gpu-017", ("gpu-017",), alert=True)
    two = concern_of("2026-05-20T03:11:00Z GPU 3 temp 92C on gpu-017", ("gpu-017",), alert=True)
    other = concern_of("2026-05-20T03:11:00Z GPU 3 temp 92C on gpu-018", ("gpu-017",), alert=True)
    assert one == two
    assert one.hosts == ("gpu-017",)
    assert one.alert != other.alert
    assert concern_of("job 4711 hangs on gpu-[017-018]", ("gpu-017", "gpu-018")) == Concern(("gpu-017", "gpu-018"), "4711")


async def test_an_item_id_of_two_lines_is_refused(inbox: Inbox) -> None:
    bad = Item(id="a\nb", kind="mention", incident="inc-1", at=T0)
    with pytest.raises(ValueError, match="must be one line"):
        await inbox.enqueue(bad, "a")


async def test_no_secret_is_stored_however_deep_it_lies_in_an_item(inbox: Inbox, redis: Redis) -> None:
    secret = "tk-9fQ2xAyu71b"
    data = {
        "files": [{"id": "F1", "name": f"password={secret}.log", "size": 1, "url": "https://files.slack.com/a"}],
        "said": {"notes": [f"token={secret}"]},
    }
    said = item("inc-1", "T.C.1", text=f"password={secret}").model_copy(update={"data": data})
    await inbox.open(origin(), "T.C.1", lambda i: said.model_copy(update={"incident": i}))
    stored = b"\n".join(
        [row for key in await redis.keys("*") if await redis.type(key) == b"list" for row in await awaited(redis.lrange(key, 0, -1))]
    )
    assert secret.encode() not in stored
    assert b"https://files.slack.com/a" in stored
