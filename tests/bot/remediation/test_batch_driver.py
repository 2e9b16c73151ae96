"""One click on a batch: each action is claimed, run, verified and limited by the brakes individually."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.remediation.action_callbacks import ActionStartAnnouncer
from tests.bot.remediation.test_action_runner import site, slow
from tests.support.clock import PATIENCE
from tests.support.fakes_actions import ANN, BOB, Office, Wall, hung
from tools.ledger.brakes import Brakes
from tools.ledger.record import (
    ActionRecord,
    AlreadyVoted,
    BreakerOpen,
    FleetLimit,
    KillSwitchOn,
    NotAnApprover,
    NotOpen,
    ReplayedClick,
    VoteResult,
    WrongDigest,
)
from tools.ledger.states import State

pytestmark = pytest.mark.slow


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def office_of(store: Redis, *hosts: str, brakes: Brakes | None = None) -> Office:
    """Return an office with slow GPUs on these hosts."""
    return Office(store, site(*(slow(host) for host in hosts)), brakes=brakes)


async def press(office: Office, rows: Sequence[ActionRecord], who: str = ANN, delivery: str = "click-1") -> list[VoteResult]:
    return await office.decisions.approve_actions([(row.approval, row.digest) for row in rows], who, delivery=delivery)


async def asked(office: Office, hosts: str = "n1 n2 n3") -> tuple[str, list[ActionRecord]]:
    """Return the incident and its pending actions."""
    incident = await office.mention(f"job 4711 is slow on {hosts}")
    return incident, sorted(await office.pending(incident), key=lambda row: row.action.target)


async def now(office: Office, rows: Sequence[ActionRecord]) -> list[ActionRecord]:
    return [await office.ledger.get_record(row.approval) for row in rows]


def why(office: Office, row: ActionRecord) -> str:
    """Return the wait reasons shown on the action's card."""
    return " ".join(
        words.removeprefix("held ") for words, approval in office.wall.news if approval == row.approval and words.startswith("held")
    )


async def test_one_press_runs_each_once_and_proves_each(store: Redis) -> None:
    office = office_of(store, "n1", "n2", "n3")
    incident, rows = await asked(office)
    votes = await press(office, rows)
    assert [(vote.approval, vote.no) for vote in votes] == [(row.approval, None) for row in rows]
    await office.settle(incident)
    after = await now(office, rows)
    assert [(row.state, row.outcome) for row in after] == [(State.DONE, "passes_now")] * 3
    assert sorted(host for host, _, _ in office.site.effects) == ["n1", "n2", "n3"]
    assert len({row.token for row in after}) == 3


async def test_at_most_one_of_the_group_runs_at_once_and_the_others_say_why_they_wait(store: Redis) -> None:
    office = office_of(store, "n1", "n2", "n3")
    incident, rows = await asked(office)
    await press(office, rows)
    claim = await office.ledger.claim(
        rows[0].approval,
        rows[0].digest,
        "elsewhere",
        policy=office.acting.policy(),
        catalogue=office.acting.catalogue,
        authorised=frozenset({ANN}),
    )
    await asyncio.gather(*(office.actions.run_action(row.approval) for row in rows))
    assert [row.state for row in await now(office, rows)] == [State.EXECUTING, State.APPROVED, State.APPROVED]
    assert office.site.effects == []
    assert [why(office, row) for row in rows[1:]] == [FleetLimit.__doc__] * 2
    await office.ledger.finish(claim, "failed", says="the worker gave up")
    office.clock.go(seconds=10)
    await office.settle(incident)
    assert [row.state for row in await now(office, rows[1:])] == [State.DONE, State.DONE]
    assert sorted(host for host, _, _ in office.site.effects)[-2:] == ["n2", "n3"]


async def test_the_kill_switch_holds_each_of_them(store: Redis) -> None:
    office = office_of(store, "n1", "n2")
    incident, rows = await asked(office, "n1 n2")
    await office.ledger.stop(BOB, "not now")
    await press(office, rows)
    await office.settle(incident)
    assert [row.state for row in await now(office, rows)] == [State.APPROVED] * 2
    assert all(str(KillSwitchOn.__doc__) in why(office, row) and "not now" in why(office, row) for row in rows)
    await office.ledger.resume(BOB)
    await office.settle(incident)
    assert [row.outcome for row in await now(office, rows)] == ["passes_now"] * 2


async def changed_elsewhere(office: Office, like: ActionRecord, host: str) -> None:
    """Let another incident change a host of the same group."""
    other = replace(like.action, approval="apr-0000000000ff", target=host, via=host, incident="inc-other")
    await office.ledger.propose(other, like.terms)
    await office.ledger.vote(other.approval, other.digest, ANN, "approve", "click-elsewhere")
    versions = {"policy": office.acting.policy(), "catalogue": office.acting.catalogue, "authorised": frozenset({ANN})}
    await office.ledger.finish(await office.ledger.claim(other.approval, other.digest, "elsewhere", **versions), "done")  # type: ignore[arg-type]  # by name


async def test_more_than_the_window_trips_the_breaker_and_the_rest_wait(store: Redis) -> None:
    office = office_of(store, "n1", "n2", "n3")
    incident, rows = await asked(office)
    await changed_elsewhere(office, rows[0], "n4")
    await press(office, rows)
    await office.settle(incident)
    after = await now(office, rows)
    assert sorted(row.state for row in after) == [State.APPROVED, State.DONE, State.DONE]
    assert [str(BreakerOpen.__doc__) in why(office, row) for row in rows] == [row.state is State.APPROVED for row in after]


async def test_one_that_changed_is_refused_and_the_others_run(store: Redis) -> None:
    office = office_of(store, "n1", "n2", "n3")
    incident, rows = await asked(office)
    office.site.boots["n2"] = "another-boot"
    await press(office, rows)
    await office.settle(incident)
    assert [row.state for row in await now(office, rows)] == [State.DONE, State.SUPERSEDED, State.DONE]
    assert sorted(host for host, _, _ in office.site.effects) == ["n1", "n3"]
    [again] = await office.pending(incident)
    assert (again.action.target, again.votes) == ("n2", ())


async def test_one_that_was_refused_is_not_asked_again_where_the_fault_has_gone_by_itself(store: Redis) -> None:
    office = office_of(store, "n1", "n2")
    incident, rows = await asked(office, "n1 n2")
    office.site.boots["n2"] = "another-boot"
    office.site.sick(replace(slow("n2"), value=False))
    await press(office, rows)
    await office.settle(incident)
    assert [row.state for row in await now(office, rows)] == [State.DONE, State.SUPERSEDED]
    assert await office.pending(incident) == []
    [gone] = [row for row in await office.ladders(incident) if row["target"] == "n2"]
    assert (gone["outcome"], "no longer shows" in gone["says"]) == ("withdrawn", True)


async def test_an_old_line_of_the_kernel_is_no_sign_that_the_fault_has_gone(store: Redis) -> None:
    office = Office(store, site(hung("m1")))
    incident, [row] = await asked(office, "m1")
    office.site.boots["m1"] = "another-boot"
    for who in (ANN, BOB):
        await press(office, [row], who, delivery=who)
    await office.settle(incident)
    [again] = await office.pending(incident)
    assert (again.action.remedy, again.action.target, again.approval != row.approval) == (row.action.remedy, "m1", True)


async def test_what_the_ledger_refuses_keeps_no_other_from_counting(store: Redis) -> None:
    office = office_of(store, "n1", "n2", "n3")
    _, rows = await asked(office)
    await office.click(rows[0], ANN)
    await office.click(rows[1], BOB, "deny", "no")
    votes = await office.decisions.approve_actions(
        [(rows[0].approval, rows[0].digest), (rows[1].approval, rows[1].digest), (rows[2].approval, rows[2].digest)], ANN, delivery="d"
    )
    assert [type(vote.no) for vote in votes] == [NotOpen, NotOpen, type(None)]
    assert [vote.seen.state for vote in votes if vote.seen] == [State.APPROVED, State.DENIED, State.APPROVED]
    wrong = await office.decisions.approve_actions([(rows[2].approval, "0" * 64)], BOB, delivery="e")
    assert [type(vote.no) for vote in wrong] == [WrongDigest]


async def test_an_action_of_another_incident_is_not_counted(store: Redis) -> None:
    office = office_of(store, "n1")
    _, [here] = await asked(office, "n1")
    office.site.sick(slow("n2"))
    [there] = await office.pending(await office.mention("n2 is slow", thread="2.0"))
    votes = await press(office, [here, there])
    assert [type(vote.no) for vote in votes] == [type(None), WrongDigest]
    assert (await office.ledger.get_record(there.approval)).votes == ()


async def test_a_press_that_is_received_twice_counts_once_for_each(store: Redis) -> None:
    office = office_of(store, "n1", "n2", brakes=Brakes(at_once=1.0))
    _, rows = await asked(office, "n1 n2")
    first = await asyncio.gather(*(press(office, rows, delivery="same") for _ in range(2)))
    counted = [vote for votes in first for vote in votes if vote.no is None]
    refused = [vote.no for votes in first for vote in votes if vote.no is not None]
    assert len(counted) == 2
    assert all(isinstance(no, ReplayedClick | AlreadyVoted | NotOpen) for no in refused)
    assert [row.approvals for row in await now(office, rows)] == [1, 1]


async def test_a_person_without_the_right_is_refused_before_any_vote(store: Redis) -> None:
    office = office_of(store, "n1", "n2")
    _, rows = await asked(office, "n1 n2")
    with pytest.raises(NotAnApprover):
        await press(office, rows, "T1:EVE")
    assert [row.votes for row in await now(office, rows)] == [(), ()]


class Watching(Office):
    """Records how many actions were pending when the first was woken."""

    beside: int = 0

    async def _wake(self, name: str) -> None:
        await super()._wake(name)
        if name.startswith("apr-") and not self.beside:
            seen = await self.ledger.get_record(name)
            self.beside = len(await self.pending(seen.action.incident))


async def test_all_of_them_are_proposed_before_the_first_is_shown(store: Redis) -> None:
    office = Watching(store, site(slow("n1"), slow("n2"), slow("n3")))
    await asked(office)
    assert office.beside == 3


class Stuck(Wall):
    """Slack that accepts a card update and never answers."""

    async def update_card(self, record: ActionRecord) -> None:
        await asyncio.Event().wait()


async def test_an_approved_command_does_not_wait_for_a_card_update(store: Redis) -> None:
    office = office_of(store, "n1")
    _, [row] = await asked(office, "n1")
    announce = ActionStartAnnouncer(office.ledger, Stuck(), seconds=0.01)
    await asyncio.wait_for(announce(row.approval), PATIENCE)
