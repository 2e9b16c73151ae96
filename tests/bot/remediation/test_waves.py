"""A fault on many hosts is proposed in waves within the brakes, and a failed verification stops the next wave."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.remediation.cards import approval_card as approval
from bot.remediation.cards import card_parts, shared_card
from bot.remediation.cards.approval_card import ApprovalCardView
from bot.remediation.waves import QUEUE_NOTE_PREFIX, find_queue_note
from graph.incident.context import load_incident_context
from graph.remediation.outcomes import describe_remediation
from tests.bot.remediation.cards.test_approval_cards import GROUP, fits
from tests.bot.remediation.cards.test_batch_cards import rows_of
from tests.bot.remediation.test_action_runner import slow
from tests.support.fakes_actions import ANN, SLOW, Office, Site, well
from tests.support.inventories import inventory
from tools.ledger.brakes import Brakes
from tools.ledger.record import ActionRecord

pytestmark = pytest.mark.slow


SIXTY = [f"n{number}" for number in range(1, 61)]
ROWS = {
    "groups": {"g": {"hosts": "n[1-60]", "controller": "ctl"}, "ctl": {"hosts": "ctl"}},
    "channels": [{"channel": "C0OPS", "kind": "operators", "groups": ["g"], "approvers": "S0APPROVE"}],
}


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def sixty(store: Redis, brakes: Brakes | None = None, hosts: Sequence[str] = SIXTY) -> Office:
    """Return an office of sixty hosts, some or all with the same fault."""
    site = Site(facts=well(*SIXTY, "ctl"))
    site.sick(*(slow(host) for host in hosts))
    return Office(store, site, rows=inventory(**ROWS), brakes=brakes)


async def note(office: Office, incident: str) -> str:
    return (await office.index.get_shown_news(incident)).get(f"{QUEUE_NOTE_PREFIX}{SLOW}", "")


async def mention(office: Office) -> str:
    return await office.mention("n[1-60] are slow since noon")


async def approve(office: Office, rows: list[ActionRecord]) -> None:
    await office.decisions.approve_actions([(row.approval, row.digest) for row in rows], ANN, delivery=f"press-{rows[0].approval}")


async def test_the_first_wave_is_as_large_as_the_brakes_leave_and_nothing_is_put_up_for_the_others(store: Redis) -> None:
    office = sixty(store)
    incident = await mention(office)
    assert len(await office.ladders(incident)) == 60
    assert len(await office.pending(incident)) == 3
    assert len(await office.ledger.list_incident_records(incident)) == 3


async def work(office: Office, incident: str, rows: list[ActionRecord]) -> None:
    """Approve and run these actions, run the incident's turns and reconcile it."""
    await approve(office, rows)
    for row in rows:
        await office.actions.run_action(row.approval)
    await office.turns_of(incident)
    await office.actions.reconcile_incident(incident)


async def test_all_are_mended_in_waves_and_no_wave_is_larger_than_the_brakes(store: Redis) -> None:
    office = sixty(store, hosts=SIXTY[:12])
    incident = await office.mention("n[1-12] are slow since noon")
    waves: list[int] = []
    while rows := await office.pending(incident):
        waves.append(len(rows))
        await work(office, incident, rows)
        assert await office.pending(incident) == [], "the next wave waits until the hour's allowance is back"
        office.clock.go(minutes=61)
        await office.actions.reconcile_incident(incident)
        await office.turns_of(incident)
    assert waves == [3] * 4
    assert sorted(host for host, _, _ in office.site.effects) == sorted(SIXTY[:12])
    assert not (await office.ledger.get_brake_status()).breakers
    assert {row.get("outcome") or row["waiting_for"] for row in await office.ladders(incident)} <= {"proof", "cured"}
    assert await note(office, incident) == ""


async def test_a_next_wave_counts_what_other_incidents_used_up_and_says_when_the_allowance_is_back(store: Redis) -> None:
    office = sixty(store)
    incident = await mention(office)
    first = await office.pending(incident)
    await work(office, incident, first)
    queued = card_parts.parse_queue_note(await note(office, incident))
    assert queued is not None
    assert (queued.begun, queued.waits, queued.next, queued.why, queued.failed) == (3, 57, 3, "allowance", ())
    assert queued.at is not None
    assert timedelta(minutes=50) < queued.at - office.clock.now() <= timedelta(minutes=60)
    newest = {row.approval for row in first if find_queue_note(await office.index.get_shown_news(incident), SLOW, [row.approval])}
    assert len(newest) == 1, "one card tells of it"
    office.wall.news.clear()
    for name in newest & set(office.woken):
        await office.actions.run_action(name)
    assert office.wall.news == [("changed done", *newest)], "and is painted anew once it changes"


def test_who_waits_stands_on_the_card_and_the_button_is_there_only_for_a_human_to_let_them_go() -> None:
    at = datetime(2026, 5, 20, 4, 10, tzinfo=UTC)
    for why, said, button in (
        ("wave", "3 of 60 now · 57 wait*: the next 3 when these are verified", False),
        ("allowance", "3 of 60 now · 57 wait*: the next 3 at 04:10 UTC, when the brakes leave room", False),
        ("failed", "3 of 60 now · 57 wait*: needs a human, 1 of the first 3 did not pass (gpu-001)", True),
    ):
        queued = card_parts.QueuedHosts(57, 3, 3, why, ("gpu-001",) if why == "failed" else (), at)
        shown = [ApprovalCardView(record, GROUP, queued=queued) for record in rows_of(3)]
        card = shared_card.render_shared_card(shown, Brakes())
        assert fits(card)
        assert said in str(card.blocks)
        assert (card_parts.LET_GO_ACTION_ID in str(card.blocks)) is button
        single = approval.render_approval_card(replace(shown[0], queued=replace(queued, begun=1, waits=59)))
        assert fits(single)
        assert "1 of 60 now · 59 wait" in str(single.blocks)


async def test_one_that_does_not_pass_stops_the_next_wave_until_a_human_lets_it_go(store: Redis) -> None:
    office = sixty(store)
    incident = await mention(office)
    rows = await office.pending(incident)
    await office.click(rows[0], ANN, "deny", "not this one")
    await approve(office, rows[1:])
    await office.settle(incident)
    office.clock.go(minutes=61)
    await office.settle(incident)
    assert await office.pending(incident) == []
    assert '"why":"failed"' in await note(office, incident)
    await office.decisions.release_next_wave(rows[0].approval, rows[0].digest, ANN)
    entries = [json.loads(line) async for line in office.ledger.export_audit()]
    (let_go,) = [row for row in entries if row["event"] == "wave_let_go"]
    assert (let_go["by"], let_go["incident"], let_go["after"]) == (ANN, incident, [rows[0].action.target])
    assert (await office.ledger.verify_audit()).good
    await office.settle(incident)
    assert len(await office.pending(incident)) == 3


async def test_a_waiting_host_is_not_shown_as_awaiting_approval(store: Redis) -> None:
    office = sixty(store)
    incident = await mention(office)
    case = await load_incident_context(await office.turns.load_state(incident), office.ports)
    said = [describe_remediation(row, "Slow") for row in case.remediations]
    assert sum("waiting for approval" in line for line in said) == 3
    assert sum("queued, not proposed yet" in line for line in said) == 57
    await office.say(incident, "status")
    assert "late" not in str(await office.ladders(incident))
