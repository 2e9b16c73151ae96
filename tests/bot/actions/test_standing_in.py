"""What people type to let others approve in their place, and to break the glass: told to everybody, refused in words."""

from collections.abc import AsyncIterator

import pytest

from bot.policy.approver_sets import ApproverSet, ApproverTable
from bot.policy.roles import NamedPeople, RoleTable
from tests.support.fakes_approvals import APPROVERS, Ward, ward
from tests.support.fakes_bot import OPS, TEAM
from tools.ledger.states import State

TABLE = ApproverTable(sets={"leads": ApproverSet(users=("U0OLGA",))}, break_glass=("leads",))


@pytest.fixture
async def place() -> AsyncIterator[Ward]:
    async with ward(table=TABLE, roles=RoleTable(admin=NamedPeople(users=("U0OLGA",)))) as made:
        yield made


async def typed(place: Ward, user: str, words: str) -> str:
    """What whoever types it is shown."""
    answer = await place.bot.slack.command(user, OPS, "/rackmedic", words)
    await place.bot.settled()
    return str(answer.payload)


async def test_an_approver_lets_somebody_approve_and_everybody_reads_it(place: Ward) -> None:
    assert "lets olga approve" in await typed(place, "priya", "delegate @olga for 8h on a train")
    assert any("priya lets olga approve in their place" in text for text in place.bot.texts(OPS))
    assert "priya lets olga approve until" in await typed(place, "anton", "delegate")
    assert "olga no longer approves" in await typed(place, "priya", "delegate end")
    assert "Nobody approves in another" in await typed(place, "anton", "delegate")
    assert await place.ledger.delegations() == ()


async def test_who_may_not_or_names_nobody_of_us_changes_nothing(place: Ward) -> None:
    before = await place.dump()
    for user, words, says in (
        ("priya", "delegate @gus for 8h", "full members"),
        ("priya", "delegate @priya for 8h", "stands for themselves"),
        ("priya", "delegate olga for 8h", "for how long"),
        ("priya", "delegate @olga for 9d", "72 hours at most"),
        ("priya", "delegate end", "no such delegation"),
        ("gus", "delegate @olga for 8h", "full members"),
        ("anton", "delegate end @priya", "Only admins"),
    ):
        assert says in await typed(place, user, words), words
    assert await place.dump() == before


async def test_an_admin_ends_what_another_one_delegated(place: Ward) -> None:
    await typed(place, "priya", "delegate @anton for 8h")
    assert "anton no longer approves in the place of priya" in await typed(place, "olga", "delegate end @priya")
    assert await place.ledger.delegations() == ()


async def test_the_glass_is_broken_for_a_reason_and_loudly(place: Ward) -> None:
    record = await place.ask()
    assert "Say what it is about and why" in await typed(place, "priya", "break-glass gpu-017")
    assert "Nothing waits for a decision on gpu-018" in await typed(place, "priya", "break-glass gpu-018 a fire")
    assert (await place.ledger.record(record.approval)).terms.approvers == APPROVERS
    assert "broke the glass" in await typed(place, "priya", "break-glass gpu-017 nobody of them answers")
    assert any("🚨 priya broke the glass" in text for text in place.bot.texts(OPS))
    [made] = [row for row in await place.ledger.of_incident(place.incident) if row.approval != record.approval]
    assert (sorted(made.terms.approvers), made.terms.break_glass) == ([f"{TEAM}:U0OLGA"], "nobody of them answers")
    card = str(place.card(made)["blocks"])
    assert "The glass was broken" in card
    assert "*For leads to decide*: olga" in card
    assert "<!subteam" not in card, "it calls nobody who may not decide"
    assert await place.state(record) is State.SUPERSEDED
