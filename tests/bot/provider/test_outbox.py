"""A click sends the shown ticket once, whatever process dies, and polls its state until the provider closes it."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from fakeredis import FakeAsyncRedis, FakeServer

from bot.provider.link import LinkRefused, LinkUnavailable
from bot.provider.ticket_sender import TicketSender
from bot.provider.wire_messages import StatesAnswer, TicketAnswer, build_ticket_message
from bot.store.external_outbox import MAX_RETRY_DELAY, ClickResult, Outbox, build_provider_outbox_keys, compute_retry_delay
from tests.support.clock import SetClock
from tests.support.intakes import provider
from tests.support.tickets import SAID

INCIDENT = "inc-a1"


class Telling:
    """A provider with scripted answers that records what it received."""

    def __init__(self, *answers: TicketAnswer | Exception) -> None:
        self.answers, self.told, self.state = list(answers), list[tuple[str, bytes]](), "received"

    async def send_ticket(self, id_: str, body: bytes) -> TicketAnswer:
        self.told.append((id_, body))
        answer = self.answers.pop(0) if self.answers else TicketAnswer(ticket="inc-p1", state="received", ignored=())
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def fetch_states(self, after: Mapping[str, int]) -> StatesAnswer:
        states = dict.fromkeys(after, self.state) if self.state else {}
        return StatesAnswer.model_validate({"states": states})


async def painted(_: str) -> None:
    """Ignore: no card is shown."""


async def clicked(outbox: Outbox) -> str:
    digest = await outbox.save_draft(INCIDENT, SAID.to_canonical_bytes())
    assert await outbox.queue_draft(INCIDENT, digest, "U1") is ClickResult.SENT
    return digest


async def test_what_was_shown_is_sent_once_and_only_after_the_click() -> None:
    outbox, link = Outbox(FakeAsyncRedis(), SetClock(), build_provider_outbox_keys()), Telling()
    digest = await outbox.save_draft(INCIDENT, SAID.to_canonical_bytes())
    sender = TicketSender(outbox, link, painted)
    await sender.sweep()
    assert (link.told, (await outbox.load_row(INCIDENT)).stage) == ([], "shown")
    assert await outbox.queue_draft(INCIDENT, "0" * 64, "U1") is ClickResult.OLD
    assert await outbox.queue_draft(INCIDENT, digest, "U1") is ClickResult.SENT
    assert await outbox.queue_draft(INCIDENT, digest, "U2") is ClickResult.OLD
    await sender.sweep()
    await sender.sweep()
    assert len(link.told) == 1
    assert SAID.to_canonical_bytes() in link.told[0][1]
    row = await outbox.load_row(INCIDENT)
    assert (row.stage, row.ticket, row.state, row.by) == ("sent", "inc-p1", "received", "U1")


async def test_the_same_shown_again_is_not_sent_again() -> None:
    outbox, link = Outbox(FakeAsyncRedis(), SetClock(), build_provider_outbox_keys()), Telling()
    await clicked(outbox)
    await TicketSender(outbox, link, painted).sweep()
    assert await outbox.queue_draft(INCIDENT, await outbox.save_draft(INCIDENT, SAID.to_canonical_bytes()), "U1") is ClickResult.BEFORE
    assert (
        await outbox.queue_draft(
            INCIDENT, await outbox.save_draft(INCIDENT, SAID.model_copy(update={"left_out": 1}).to_canonical_bytes()), "U1"
        )
        is ClickResult.SENT
    )


@pytest.mark.parametrize("dies", ["before it is sent", "after it was sent"])
async def test_a_process_killed_between_click_and_note_leaves_it_to_the_next(dies: str) -> None:
    server, clock = FakeServer(), SetClock()
    async with FakeAsyncRedis() as theirs, provider(theirs, clock) as at:
        first = Outbox(FakeAsyncRedis(server=server), clock, build_provider_outbox_keys())
        await clicked(first)
        assert await first.claim_due() == [INCIDENT]
        if dies == "after it was sent":
            row = await first.load_row(INCIDENT)
            assert row.at
            await at.link().send_ticket(row.id, build_ticket_message(row.document, row.at))
        after = Outbox(FakeAsyncRedis(server=server), clock, build_provider_outbox_keys())
        sender = TicketSender(after, at.link(), painted)
        assert await sender.sweep() == 0
        clock.go(minutes=2)
        assert await sender.sweep() == 1
        row = await after.load_row(INCIDENT)
        assert row.stage == "sent"
        assert await at.inbox.list_open_incidents() == [row.ticket]
        assert len(await at.inbox.list_waiting(row.ticket)) == 1


async def test_while_the_provider_is_down_it_is_tried_less_and_less_often_and_then_arrives() -> None:
    clock = SetClock()
    outbox, link = (
        Outbox(FakeAsyncRedis(), clock, build_provider_outbox_keys()),
        Telling(*(LinkUnavailable("the intake cannot be reached") for _ in range(4))),
    )
    await clicked(outbox)
    sender = TicketSender(outbox, link, painted)
    for tries in range(4):
        await sender.sweep()
        row = await outbox.load_row(INCIDENT)
        assert (row.tries, row.stage, row.trouble) == (tries + 1, "waiting", "the intake cannot be reached")
        assert await sender.sweep() == 0
        clock.go(seconds=compute_retry_delay(tries).total_seconds())
    await sender.sweep()
    row = await outbox.load_row(INCIDENT)
    assert (row.stage, row.tries, row.trouble) == ("sent", 0, "")
    assert len({id_ for id_, _ in link.told}) == 1
    assert compute_retry_delay(50) == MAX_RETRY_DELAY


async def test_it_waits_as_long_as_the_provider_says() -> None:
    clock = SetClock()
    outbox = Outbox(FakeAsyncRedis(), clock, build_provider_outbox_keys())
    await clicked(outbox)
    sender = TicketSender(outbox, Telling(LinkUnavailable("too many", 600.0)), painted)
    await sender.sweep()
    clock.go(seconds=599)
    assert await sender.sweep() == 0


async def test_what_the_provider_refuses_is_said_and_may_be_sent_anew() -> None:
    clock = SetClock()
    outbox, link = Outbox(FakeAsyncRedis(), clock, build_provider_outbox_keys()), Telling(LinkRefused("the intake answers 422: hosts"))
    digest = await clicked(outbox)
    await TicketSender(outbox, link, painted).sweep()
    assert ((row := await outbox.load_row(INCIDENT)).stage, row.refused) == ("refused", "the intake answers 422: hosts")
    clock.go(hours=9)
    assert await outbox.claim_due() == []
    assert await outbox.queue_draft(INCIDENT, await outbox.save_draft(INCIDENT, SAID.to_canonical_bytes()), "U1") is ClickResult.SENT
    assert (await outbox.load_row(INCIDENT)).digest == digest


async def test_the_state_is_asked_for_until_the_provider_has_closed_it() -> None:
    clock = SetClock()
    outbox, link = Outbox(FakeAsyncRedis(), clock, build_provider_outbox_keys()), Telling()
    await clicked(outbox)
    sender = TicketSender(outbox, link, painted)
    await sender.sweep()
    for state, wait in (("taken", 31), ("repairing", 31), ("proved", 31), ("closed", 601)):
        link.state = state
        clock.go(seconds=wait)
        assert await sender.sweep() == 1
        assert (await outbox.load_row(INCIDENT)).state == state
    clock.go(days=9)
    assert await sender.sweep() == 0


async def test_a_click_while_it_is_being_sent_stays_to_be_sent() -> None:
    outbox = Outbox(FakeAsyncRedis(), SetClock(), build_provider_outbox_keys())
    await clicked(outbox)
    before = await outbox.load_row(INCIDENT)
    await outbox.queue_draft(
        INCIDENT, await outbox.save_draft(INCIDENT, SAID.model_copy(update={"left_out": 1}).to_canonical_bytes()), "U2"
    )
    await outbox.mark_arrived(before, "inc-p1", "received", timedelta(seconds=30))
    assert (await outbox.load_row(INCIDENT)).stage == "waiting"
