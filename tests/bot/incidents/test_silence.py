"""A silent tenant is reminded once and then handed to operators once, under any race, restart or replica."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import structlog
from redis.asyncio import Redis

from bot.incidents.dispatch.inbox import DueEntry
from bot.incidents.dispatch.sweeper import HAND_OVER_AFTER, REMIND_AFTER
from graph.incident_view import IncidentView
from graph.state import (
    REMINDER_DUE,
    REMINDER_UNANSWERED,
    REPORT_WITHDRAWN,
    SIDE_KEY,
    TENANT_SIDE,
    Attachment,
    InboxItem,
    Origin,
    TenantThread,
)
from tests.bot.incidents.test_turns import INCIDENT, Office
from tests.support.fakes_graph import FakeFleet, World, healthy, item
from tests.support.inventories import inventory
from tools.inventory.inventory import Inventory

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow
CAME = TenantThread(team="T1", channel="C0ACME", thread_ts="1.0", user="U0CARLA")
THEIRS = Origin(kind="slack", team="T1", channel="", thread_ts="2.0", user="U0CARLA", tenant="acme", customer=CAME)
A_BIT = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[structlog.typing.EventDict]]:
    with structlog.testing.capture_logs() as rows:
        yield rows


class Provider(Office):
    """A dispatcher with a tenant's incident."""

    def __init__(self, redis: Redis, world: World, *, owner: str = "me") -> None:
        super().__init__(redis, world, owner=owner)
        self.world = world

    async def reports(self, text: str = "the loss looks odd", origin: Origin = THEIRS) -> None:
        """Store the first report and run its turn."""
        self.inbox._new_id = lambda: INCIDENT
        data = {SIDE_KEY: TENANT_SIDE} if origin.customer else {}
        await self.inbox.open_or_join(origin, "first", lambda _: item(text, data=data))
        await self.desk.process_incident(INCIDENT)

    def theirs(self, text: str, number: int = 1, **more: Any) -> InboxItem:
        """Return a tenant's message sent now."""
        said = item(text, "reply", f"theirs-{number}", data={SIDE_KEY: TENANT_SIDE}, **more)
        return said.model_copy(update={"at": self.clock.now()})

    async def comes(self, span: timedelta) -> list[DueEntry]:
        """Advance the clock and return what is due."""
        self.clock.at += span
        self.world.clock.at = self.clock.at
        return await self.inbox.collect_due(A_BIT)

    async def passes(self, span: timedelta) -> list[str]:
        """Advance the clock, process what is due and return why it was due."""
        due = await self.comes(span)
        for entry in due:
            await self.inbox.fire_timer(entry)
        await self.desk.process_incident(INCIDENT)
        return [entry.why for entry in due]

    async def rows(self) -> IncidentView:
        return IncidentView(await self.turns.load_state(INCIDENT))

    async def handed(self) -> bool:
        rows = await self.rows()
        return rows.ticket is not None and rows.ticket.handed and rows.lifecycle == "handed_off"


class Acme(World):
    """A world whose hosts belong to a tenant."""

    @property
    def inventory(self) -> Inventory:
        return inventory(defaults={"sku": "small"}, groups={"g": {"hosts": self.hosts, "tenant": "acme"}}, channels=[])


def unclear() -> World:
    """Return a world in which nothing is proven because one host is unreachable."""
    return Acme(FakeFleet(healthy("n1", "n3", "n4"), dark={"n2": "connection refused"}))


@pytest.fixture
def provider(redis: Redis) -> Provider:
    return Provider(redis, unclear())


REMINDED, OVER = REMIND_AFTER + A_BIT, HAND_OVER_AFTER + A_BIT


async def test_silence_is_followed_up_once_and_then_handed_over(provider: Provider) -> None:
    await provider.reports()
    assert (await provider.rows()).lifecycle == "waiting"
    assert await provider.passes(REMIND_AFTER - A_BIT) == []
    assert await provider.passes(2 * A_BIT) == [REMINDER_DUE]
    assert not await provider.handed()
    assert await provider.passes(OVER) == [REMINDER_UNANSWERED]
    assert await provider.handed()
    report = provider.board.posts[-1][1]
    assert "has not answered" in report.reply
    assert report.outcome == "handed_off"
    assert await provider.passes(timedelta(days=30)) == [], "people have it: nothing ends by itself"


async def test_the_ticket_holds_what_was_found(provider: Provider) -> None:
    await provider.reports("job 4711 is odd on n[1-4]")
    await provider.passes(REMINDED)
    await provider.passes(OVER)
    ticket = (await provider.rows()).ticket
    assert ticket
    assert "job 4711 is odd" in ticket.summary
    assert "n[1-4]" in ticket.summary


async def test_an_answer_ends_the_silence_and_begins_the_next_one(provider: Provider) -> None:
    await provider.reports()
    await provider.passes(REMINDED)
    await provider.say(provider.theirs("it worked on Monday"))
    since = (await provider.rows()).tenant_silence.since
    assert since is None or since == provider.clock.now()
    assert REMINDER_UNANSWERED not in await provider.passes(OVER)


async def test_an_answer_that_overtakes_the_hand_over_keeps_it_from_happening(provider: Provider) -> None:
    await provider.reports()
    await provider.passes(REMINDED)
    [due] = await provider.comes(OVER)
    answer = provider.theirs("maybe, we do not know")
    await provider.inbox.enqueue(answer, answer.id)
    await provider.inbox.fire_timer(due)
    await provider.desk.process_incident(INCIDENT)
    assert provider.board.posted[-2:] == [answer.id, f"timer:{INCIDENT}:{due.why}:{due.score}"]
    assert "has not answered" not in "".join(report.reply for _, report in provider.board.posts)


async def test_an_answer_that_comes_with_the_hand_over_goes_to_the_ticket(provider: Provider) -> None:
    await provider.reports()
    await provider.passes(REMINDED)
    [due] = await provider.comes(OVER)
    answer = provider.theirs("it is job 4711 on n3")
    await provider.inbox.fire_timer(due)
    await provider.inbox.enqueue(answer, answer.id)
    await provider.desk.process_incident(INCIDENT)
    assert provider.board.posted[-1] == answer.id
    assert await provider.handed()
    rows = await provider.rows()
    assert rows.ticket
    assert "n3" in rows.ticket.summary
    assert answer.text in str(rows.messages)
    assert rows.tenant_silence.handed is None, "they did answer"


async def test_a_reminder_overtaken_by_an_answer_is_not_sent(provider: Provider) -> None:
    await provider.reports()
    [due] = await provider.comes(REMINDED)
    answer = provider.theirs("hm")
    await provider.inbox.enqueue(answer, answer.id)
    await provider.inbox.fire_timer(due)
    await provider.desk.process_incident(INCIDENT)
    assert (await provider.rows()).tenant_silence.reminded is None


async def test_what_our_own_people_say_is_no_answer(provider: Provider) -> None:
    await provider.reports()
    since = (await provider.rows()).tenant_silence.since
    await provider.passes(timedelta(hours=3))
    await provider.say(item("status", "status"), item("why?", "why"))
    assert (await provider.rows()).tenant_silence.since == since
    assert await provider.passes(timedelta(hours=1, seconds=1)) == [REMINDER_DUE]
    await provider.say(item("status", "status", "status-2"))
    assert await provider.passes(OVER) == [REMINDER_UNANSWERED]


async def test_two_replicas_hand_over_once(redis: Redis) -> None:
    world = unclear()
    one, two = Provider(redis, world), Provider(redis, world, owner="two")
    await one.reports()
    for span in (REMINDED, OVER):
        due = await one.comes(span)
        two.clock.at = one.clock.at
        await asyncio.gather(*(office.inbox.fire_timer(entry) for office in (one, two) for entry in due))
        await asyncio.gather(one.desk.process_incident(INCIDENT), two.desk.process_incident(INCIDENT))
    told = [report for office in (one, two) for _, report in office.board.posts if "has not answered" in report.reply]
    assert len(told) == 1
    assert await two.handed()


async def test_it_survives_a_restart_between_each_two_steps(redis: Redis) -> None:
    world = unclear()
    await Provider(redis, world).reports()
    for span, why in ((REMINDED, REMINDER_DUE), (OVER, REMINDER_UNANSWERED)):
        after = Provider(redis, world, owner=why)
        assert await after.passes(span) == [why]
    assert await after.handed()


async def test_a_missed_reminder_is_sent_before_the_hand_over(provider: Provider) -> None:
    await provider.reports()
    assert await provider.passes(timedelta(days=10)) == [REMINDER_DUE]
    assert not await provider.handed()
    assert await provider.passes(OVER) == [REMINDER_UNANSWERED]


async def test_who_took_it_back_is_not_reminded_and_who_writes_again_is(provider: Provider) -> None:
    await provider.reports()
    await provider.say(item("", "timer", "back", data={"why": REPORT_WITHDRAWN}))
    assert (await provider.rows()).tenant_silence.withdrawn
    await provider.say(item("status", "status"))
    assert (await provider.rows()).tenant_silence.withdrawn
    assert REMINDER_UNANSWERED not in await provider.passes(REMINDED + OVER)
    await provider.say(provider.theirs("it is odd again, job 4711"))
    assert not (await provider.rows()).tenant_silence.withdrawn


async def test_where_nothing_is_left_to_ask_our_people_have_it_at_once(provider: Provider) -> None:
    await provider.reports()
    log = Attachment(name="rank0.log", text="step 10 loss nan")
    await provider.say(provider.theirs("job 4711 on n[1-4], since 2026-05-20 02:00", attachments=(log,)))
    rows = await provider.rows()
    assert rows.report
    assert rows.report.outcome == "abstained"
    assert await provider.handed()


async def test_an_incident_of_our_own_ends_by_itself_as_ever(provider: Provider) -> None:
    await provider.reports("the loss looks odd on n9", THEIRS.model_copy(update={"customer": None, "tenant": ""}))
    assert (await provider.rows()).lifecycle == "waiting"
    assert await provider.passes(REMINDED) == [REMINDER_DUE]
    assert await provider.passes(timedelta(days=3)) == ["auto_close"]
    assert (await provider.rows()).lifecycle == "closed"
