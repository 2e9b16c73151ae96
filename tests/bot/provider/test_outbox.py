"""A click sends what was shown, once, whatever dies in between, and goes on asking until the provider is done."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from fakeredis import FakeAsyncRedis, FakeServer

from bot.provider.link import LinkAway, LinkRefused
from bot.provider.messages import StatesAnswer, TicketAnswer, ticket_message
from bot.provider.sender import Sender
from bot.store.outbox import LAST_AGAIN, Clicked, Outbox, backoff, provider_box
from tests.support.clock import SetClock
from tests.support.intakes import provider
from tests.support.tickets import SAID

INCIDENT = "inc-a1"


class Telling:
    """A provider that answers what a test says, and remembers what it was told."""

    def __init__(self, *answers: TicketAnswer | Exception) -> None:
        self.answers, self.told, self.state = list(answers), list[tuple[str, bytes]](), "received"

    async def tell(self, id_: str, body: bytes) -> TicketAnswer:
        self.told.append((id_, body))
        answer = self.answers.pop(0) if self.answers else TicketAnswer(ticket="inc-p1", state="received", ignored=())
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def states(self, after: Mapping[str, int]) -> StatesAnswer:
        states = dict.fromkeys(after, self.state) if self.state else {}
        return StatesAnswer.model_validate({"states": states})


async def painted(_: str) -> None:
    """Nobody looks."""


async def clicked(outbox: Outbox) -> str:
    digest = await outbox.draft(INCIDENT, SAID.canonical())
    assert await outbox.put(INCIDENT, digest, "U1") is Clicked.SENT
    return digest


async def test_what_was_shown_is_sent_once_and_only_after_the_click() -> None:
    outbox, link = Outbox(FakeAsyncRedis(), SetClock(), provider_box()), Telling()
    digest = await outbox.draft(INCIDENT, SAID.canonical())
    sender = Sender(outbox, link, painted)
    await sender.sweep()
    assert (link.told, (await outbox.row(INCIDENT)).stage) == ([], "shown")
    assert await outbox.put(INCIDENT, "0" * 64, "U1") is Clicked.OLD
    assert await outbox.put(INCIDENT, digest, "U1") is Clicked.SENT
    assert await outbox.put(INCIDENT, digest, "U2") is Clicked.OLD
    await sender.sweep()
    await sender.sweep()
    assert len(link.told) == 1
    assert SAID.canonical() in link.told[0][1]
    row = await outbox.row(INCIDENT)
    assert (row.stage, row.ticket, row.state, row.by) == ("sent", "inc-p1", "received", "U1")


async def test_the_same_shown_again_is_not_sent_again() -> None:
    outbox, link = Outbox(FakeAsyncRedis(), SetClock(), provider_box()), Telling()
    await clicked(outbox)
    await Sender(outbox, link, painted).sweep()
    assert await outbox.put(INCIDENT, await outbox.draft(INCIDENT, SAID.canonical()), "U1") is Clicked.BEFORE
    assert (
        await outbox.put(INCIDENT, await outbox.draft(INCIDENT, SAID.model_copy(update={"left_out": 1}).canonical()), "U1") is Clicked.SENT
    )


@pytest.mark.parametrize("dies", ["before it is sent", "after it was sent"])
async def test_a_process_killed_between_click_and_note_leaves_it_to_the_next(dies: str) -> None:
    server, clock = FakeServer(), SetClock()
    async with FakeAsyncRedis() as theirs, provider(theirs, clock) as at:
        first = Outbox(FakeAsyncRedis(server=server), clock, provider_box())
        await clicked(first)
        assert await first.take() == [INCIDENT]
        if dies == "after it was sent":
            row = await first.row(INCIDENT)
            assert row.at
            await at.link().tell(row.id, ticket_message(row.document, row.at))
        after = Outbox(FakeAsyncRedis(server=server), clock, provider_box())
        sender = Sender(after, at.link(), painted)
        assert await sender.sweep() == 0
        clock.go(minutes=2)
        assert await sender.sweep() == 1
        row = await after.row(INCIDENT)
        assert row.stage == "sent"
        assert await at.inbox.open_incidents() == [row.ticket]
        assert len(await at.inbox.peek(row.ticket)) == 1


async def test_while_the_provider_is_down_it_is_tried_less_and_less_often_and_then_arrives() -> None:
    clock = SetClock()
    outbox, link = Outbox(FakeAsyncRedis(), clock, provider_box()), Telling(*(LinkAway("the intake cannot be reached") for _ in range(4)))
    await clicked(outbox)
    sender = Sender(outbox, link, painted)
    for tries in range(4):
        await sender.sweep()
        row = await outbox.row(INCIDENT)
        assert (row.tries, row.stage, row.trouble) == (tries + 1, "waiting", "the intake cannot be reached")
        assert await sender.sweep() == 0
        clock.go(seconds=backoff(tries).total_seconds())
    await sender.sweep()
    row = await outbox.row(INCIDENT)
    assert (row.stage, row.tries, row.trouble) == ("sent", 0, "")
    assert len({id_ for id_, _ in link.told}) == 1
    assert backoff(50) == LAST_AGAIN


async def test_it_waits_as_long_as_the_provider_says() -> None:
    clock = SetClock()
    outbox = Outbox(FakeAsyncRedis(), clock, provider_box())
    await clicked(outbox)
    sender = Sender(outbox, Telling(LinkAway("too many", 600.0)), painted)
    await sender.sweep()
    clock.go(seconds=599)
    assert await sender.sweep() == 0


async def test_what_the_provider_refuses_is_said_and_may_be_sent_anew() -> None:
    clock = SetClock()
    outbox, link = Outbox(FakeAsyncRedis(), clock, provider_box()), Telling(LinkRefused("the intake answers 422: hosts"))
    digest = await clicked(outbox)
    await Sender(outbox, link, painted).sweep()
    assert ((row := await outbox.row(INCIDENT)).stage, row.refused) == ("refused", "the intake answers 422: hosts")
    clock.go(hours=9)
    assert await outbox.take() == []
    assert await outbox.put(INCIDENT, await outbox.draft(INCIDENT, SAID.canonical()), "U1") is Clicked.SENT
    assert (await outbox.row(INCIDENT)).digest == digest


async def test_the_state_is_asked_for_until_the_provider_has_closed_it() -> None:
    clock = SetClock()
    outbox, link = Outbox(FakeAsyncRedis(), clock, provider_box()), Telling()
    await clicked(outbox)
    sender = Sender(outbox, link, painted)
    await sender.sweep()
    for state, wait in (("taken", 31), ("repairing", 31), ("proved", 31), ("closed", 601)):
        link.state = state
        clock.go(seconds=wait)
        assert await sender.sweep() == 1
        assert (await outbox.row(INCIDENT)).state == state
    clock.go(days=9)
    assert await sender.sweep() == 0


async def test_a_click_while_it_is_being_sent_stays_to_be_sent() -> None:
    outbox = Outbox(FakeAsyncRedis(), SetClock(), provider_box())
    await clicked(outbox)
    before = await outbox.row(INCIDENT)
    await outbox.put(INCIDENT, await outbox.draft(INCIDENT, SAID.model_copy(update={"left_out": 1}).canonical()), "U2")
    await outbox.arrived(before, "inc-p1", "received", timedelta(seconds=30))
    assert (await outbox.row(INCIDENT)).stage == "waiting"
