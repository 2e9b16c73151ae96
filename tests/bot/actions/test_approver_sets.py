"""Other approver sets, from the policy's table to the claim: by group and risk, delegated, and with the glass broken."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.actions.decisions import CannotAsk
from bot.policy.approver_sets import ApproverSet, ApproverTable, SetRule
from bot.policy.channels import NotAllowed, Person
from bot.policy.delegating import DelegationAsked
from graph.state import Origin
from tests.support.fakes_actions import ANN, CHANNEL, TEAM, Office, Site, hung, well
from tools.ledger.record import NotAnApprover, NotOpen, OwnRequest, Record
from tools.ledger.states import State

BOB, CID, EVE, LEA, MAX = (f"{TEAM}:{name}" for name in ("BOB", "CID", "EVE", "ULEA", "UMAX"))
PLACE = Origin(kind="slack", team=TEAM, channel=CHANNEL)
LEADS = ApproverTable(sets={"leads": ApproverSet(users=("ULEA", "UMAX"))}, break_glass=("leads",))
BY_RISK = LEADS.model_copy(update={"rules": (SetRule(risks=("disruptive",), sets=("leads",)),)})


@pytest.fixture
async def redis() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


async def office_of(redis: Redis, table: ApproverTable) -> tuple[Office, str]:
    """An office with an incident whose drain waits for a decision."""
    site = Site(facts=well("n1", "n2", "n3", "n4", "m1", "m2", "ctl"))
    site.sick(hung("n1"))
    office = Office(redis, site, approvers=table)
    for name in ("ULEA", "UMAX"):
        office.people.people[name] = Person(name, TEAM, name.lower(), True)
    return office, await office.mention()


async def waiting(office: Office, incident: str) -> Record:
    [row] = await office.pending(incident)
    return row


async def events(office: Office, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) async for line in office.ledger.export()]
    rows = [line.get("entry", line) for line in lines]
    return [row for row in rows if row.get("event") == event]


def asked(office: Office, to: str, **span: float) -> DelegationAsked:
    return DelegationAsked(to.rpartition(":")[2], office.clock.now() + timedelta(**span), "on a train")


# -- by group and risk ------------------------------------------------------------------------------------------------


async def test_without_a_table_the_channels_own_approve_and_the_request_says_nothing_of_sets(redis: Redis) -> None:
    office, incident = await office_of(redis, ApproverTable())
    row = await waiting(office, incident)
    assert (row.terms.sets, row.terms.delegated) == ((), ())
    assert row.terms.approvers == {ANN, BOB, CID}


async def test_the_set_of_a_rule_decides_in_the_place_of_the_channels_own(redis: Redis) -> None:
    office, incident = await office_of(redis, BY_RISK)
    row = await waiting(office, incident)
    assert row.action.risk == "disruptive"
    assert (row.terms.sets, sorted(row.terms.approvers)) == (("leads",), [LEA, MAX])
    with pytest.raises(NotAnApprover):
        await office.click(row, ANN)
    assert (await office.approve(incident, row.action.remedy, LEA)).state is State.DONE


async def test_who_left_the_set_since_the_vote_approves_nothing_any_more(redis: Redis) -> None:
    office, incident = await office_of(redis, BY_RISK)
    row = await waiting(office, incident)
    await office.click(row, LEA)
    office.people.people["ULEA"] = Person("ULEA", TEAM, "lea", False)
    await office.settle(incident)
    assert (await office.ledger.record(row.approval)).state is State.SUPERSEDED
    assert office.site.effects == []
    assert (await waiting(office, incident)).terms.approvers == {MAX}


# -- delegated --------------------------------------------------------------------------------------------------------


async def test_a_delegate_approves_what_is_put_up_while_the_delegation_lasts(redis: Redis) -> None:
    office, incident = await office_of(redis, BY_RISK)
    await office.decisions.delegate(LEA, asked(office, EVE, hours=8), PLACE)
    first = await waiting(office, incident)
    assert EVE not in first.terms.approvers
    again = await _again(office, incident, first)
    assert again.terms.delegated == ((EVE, LEA),)
    assert (await office.approve(incident, again.action.remedy, EVE)).state is State.DONE
    [voted] = await events(office, "vote_approve")
    assert (voted["by"], voted["stands_for"]) == (EVE, LEA)


async def test_what_a_delegate_approved_does_not_run_once_the_delegation_was_ended(redis: Redis) -> None:
    office, incident = await office_of(redis, BY_RISK)
    await office.decisions.delegate(LEA, asked(office, EVE, hours=8), PLACE)
    again = await _again(office, incident, await waiting(office, incident))
    await office.click(again, EVE)
    await office.decisions.undelegate(LEA, LEA)
    await office.settle(incident)
    assert (await office.ledger.record(again.approval)).state is State.SUPERSEDED
    assert office.site.effects == []
    assert (await waiting(office, incident)).terms.approvers == {LEA, MAX}


async def test_only_an_approver_by_their_own_right_delegates_and_only_to_one_of_us(redis: Redis) -> None:
    office, _ = await office_of(redis, BY_RISK)
    await office.decisions.delegate(LEA, asked(office, EVE, hours=8), PLACE)
    with pytest.raises(NotAnApprover):
        await office.decisions.delegate(EVE, asked(office, BOB, hours=1), PLACE)
    for stranger in ("BOT", "USTRANGER"):
        with pytest.raises(NotAllowed):
            await office.decisions.delegate(ANN, asked(office, stranger, hours=1), PLACE)
    with pytest.raises(CannotAsk):
        await office.decisions.undelegate(BOB, BOB)
    assert [(one.by, one.to) for one in await office.decisions.delegations()] == [(LEA, EVE)]


async def test_whose_delegator_is_no_approver_any_more_is_none_either(redis: Redis) -> None:
    office, incident = await office_of(redis, ApproverTable())
    await office.decisions.delegate(ANN, asked(office, EVE, hours=8), PLACE)
    assert (await office.rights.entitled(incident, ("channel",))).delegated == {EVE: ANN}
    office.people.group.discard("ANN")
    assert EVE not in (await office.rights.entitled(incident, ("channel",))).everybody


async def _again(office: Office, incident: str, row: Record) -> Record:
    """The same action put up once more."""
    await office.decisions.revoke(row.approval, row.digest, ANN, "once more")
    return await office.decisions.ask_again(row.approval, row.digest, ANN)


# -- the glass --------------------------------------------------------------------------------------------------------


async def test_with_the_glass_broken_other_approvers_decide_and_never_who_broke_it(redis: Redis) -> None:
    office, incident = await office_of(redis, LEADS)
    row = await waiting(office, incident)
    made = await office.decisions.break_glass(row.approval, row.digest, LEA, "nobody of them answers")
    old = await office.ledger.record(row.approval)
    assert (old.state, old.replaced_by) == (State.SUPERSEDED, made.approval)
    assert (sorted(made.terms.approvers), made.terms.sets) == ([LEA, MAX], ("leads",))
    assert made.terms.break_glass == "nobody of them answers"
    assert (made.terms.quorum, made.action.argv[:2], made.action.target) == (row.terms.quorum, row.action.argv[:2], row.action.target)
    with pytest.raises(OwnRequest):
        await office.click(made, LEA)
    with pytest.raises(NotAnApprover):
        await office.click(made, ANN)
    await office.click(made, MAX)
    await office.settle(incident)
    assert (await office.ledger.record(made.approval)).state is State.DONE
    [proposed] = [line for line in await events(office, "propose") if line["approval"] == made.approval]
    assert (proposed["break_glass"], proposed["sets"]) == ("nobody of them answers", ["leads"])


async def test_the_glass_is_broken_for_a_reason_once_and_only_where_the_policy_names_whom_for(redis: Redis) -> None:
    office, incident = await office_of(redis, LEADS)
    row = await waiting(office, incident)
    with pytest.raises(CannotAsk, match="why"):
        await office.decisions.break_glass(row.approval, row.digest, EVE, "  ")
    made = await office.decisions.break_glass(row.approval, row.digest, EVE, "a fire")
    for name, digest in ((row.approval, row.digest), (made.approval, made.digest)):
        with pytest.raises(NotOpen):
            await office.decisions.break_glass(name, digest, EVE, "again")


async def test_where_no_set_is_named_the_glass_cannot_be_broken(redis: Redis) -> None:
    office, incident = await office_of(redis, ApproverTable())
    row = await waiting(office, incident)
    with pytest.raises(CannotAsk, match="No set of approvers"):
        await office.decisions.break_glass(row.approval, row.digest, EVE, "a fire")
    assert (await office.ledger.record(row.approval)).state is State.PENDING


async def test_another_table_is_another_policy_and_no_table_is_the_one_before(redis: Redis) -> None:
    plain, named = Office(redis, Site()), Office(redis, Site(), approvers=LEADS)
    assert plain.rights.policy() != named.rights.policy()
