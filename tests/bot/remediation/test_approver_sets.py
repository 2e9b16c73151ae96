"""Approver sets by group and risk, from the policy's table to the claim."""

import json
from collections.abc import AsyncIterator

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.policy.approvals import ApproverSet, ApproverTable, SetRule
from bot.policy.channels import Person
from bot.store.keys import LEDGER_KEY_PREFIX
from tests.support.fakes_actions import ANN, KEY, TEAM, Office, Site, hung, well
from tools.ledger.record import ActionRecord, NotAnApprover
from tools.ledger.seal import Seal
from tools.ledger.states import State

BOB, CID, EVE, LEA, MAX = (f"{TEAM}:{name}" for name in ("BOB", "CID", "EVE", "ULEA", "UMAX"))
LEADS = ApproverTable(sets={"leads": ApproverSet(users=("ULEA", "UMAX"))})
BY_RISK = LEADS.model_copy(update={"rules": (SetRule(risks=("disruptive",), sets=("leads",)),)})


@pytest.fixture
async def redis() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


async def office_of(redis: Redis, table: ApproverTable) -> tuple[Office, str]:
    """Return an office and an incident whose drain waits for approval."""
    site = Site(facts=well("n1", "n2", "n3", "n4", "m1", "m2", "ctl"))
    site.sick(hung("n1"))
    office = Office(redis, site, approvers=table)
    for name in ("ULEA", "UMAX"):
        office.people.people[name] = Person(name, TEAM, name.lower(), True)
    return office, await office.mention()


async def waiting(office: Office, incident: str) -> ActionRecord:
    [row] = await office.pending(incident)
    return row


# -- by group and risk ------------------------------------------------------------------------------------------------


async def test_without_a_table_the_channels_own_approve_and_the_request_says_nothing_of_sets(redis: Redis) -> None:
    office, incident = await office_of(redis, ApproverTable())
    row = await waiting(office, incident)
    assert row.terms.sets == ()
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
    assert (await office.ledger.get_record(row.approval)).state is State.SUPERSEDED
    assert office.site.effects == []
    assert (await waiting(office, incident)).terms.approvers == {MAX}


async def test_a_signed_delegation_of_an_older_store_grants_nothing(redis: Redis) -> None:
    text = json.dumps({"by": ANN, "to": EVE, "until": "2100-01-01T00:00:00+00:00", "why": ""}, sort_keys=True, separators=(",", ":"))
    await redis.hset(f"{LEDGER_KEY_PREFIX}delegations", ANN, f"{Seal(KEY).sign('delegation', text)} {text}")
    office, incident = await office_of(redis, ApproverTable())
    row = await waiting(office, incident)
    assert row.terms.approvers == {ANN, BOB, CID}
    with pytest.raises(NotAnApprover):
        await office.click(row, EVE)


async def test_another_table_is_another_policy_and_no_table_is_the_one_before(redis: Redis) -> None:
    plain, named = Office(redis, Site()), Office(redis, Site(), approvers=LEADS)
    assert plain.rights.get_policy_hash() != named.rights.get_policy_hash()
