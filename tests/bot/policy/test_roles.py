"""Permissions by role: the table is complete, a site can only remove rights, and a removed right is refused in Slack."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis

from bot.incidents.context import HandlerContext
from bot.incidents.handlers import commands
from bot.policy.channels import NotAllowed
from bot.policy.policy_file import BadPolicy, format_policy, load_policy
from bot.policy.roles import ACTS, ROLE_DESCRIPTIONS, NamedPeople, PersonRole, RoleTable, require_role
from bot.slack.manifest import SHORTCUT
from bot.tenants.cards import tenant_card
from bot.tenants.cards.answers import ANSWER_BY_INTENT
from bot.tenants.handlers import TENANT_INTENTS
from graph.dialogue.intents import Intent
from graph.state import Origin, TenantThread
from tests.support.fakes_bot import ACME, OPS, TEAM, Behind, slack_side
from tests.support.inventories import inventory
from tests.support.slack_ids import list_action_ids, list_form_ids


def test_the_table_names_exactly_the_acts_that_exist() -> None:
    said = {f"intent.{intent}" for intent in Intent}
    typed = {word.replace("-", "_") for word in re.findall(r"/rackmedic ([\w-]+)", commands.UNKNOWN_COMMAND)}
    made = {f"button.{one}" for one in list_action_ids()} | {f"form.{one}" for one in list_form_ids()} | {f"command.{one}" for one in typed}
    assert set(ACTS) == said | made | {f"shortcut.{SHORTCUT}"}
    assert set(ROLE_DESCRIPTIONS) == set(PersonRole)
    assert all(row.who and row.does for row in ACTS.values())


def test_a_customer_may_what_their_door_takes_and_no_more() -> None:
    theirs = {act for act, row in ACTS.items() if PersonRole.CUSTOMER in row.who}
    answered = (intent for intent, how in ANSWER_BY_INTENT.items() if how not in ("ours", "inside"))  # both answer that the tenant may not
    asked = {f"intent.{intent}" for intent in (*TENANT_INTENTS, *answered, Intent.NEW_FACTS)}
    assert theirs == asked | {f"button.{one}" for one in tenant_card.BUTTONS}


def test_only_approvers_move_an_action_and_no_file_changes_that() -> None:
    votes = {act for act, row in ACTS.items() if row.by_request}
    assert all(ACTS[act].fixed and ACTS[act].who == {PersonRole.APPROVER} for act in votes)
    assert {"button.approval.approve", "button.approval.approve_all", "button.approval.reject", "form.reject_modal.submit"} <= votes


@pytest.mark.parametrize(("act", "role"), list(product(["command.resume", "intent.correct", "button.customer.works"], PersonRole)))
def test_require_is_the_table(act: str, role: PersonRole) -> None:
    if role in ACTS[act].who:
        require_role(RoleTable(), act, frozenset({role}))
    else:
        with pytest.raises(NotAllowed):
            require_role(RoleTable(), act, frozenset({role}))


@pytest.mark.parametrize("act", ACTS)
def test_a_file_never_gives_a_role_what_it_has_not(act: str) -> None:
    everybody = RoleTable(admin=NamedPeople(users=("U1",)), knowledge_editor=NamedPeople(users=("U2",)), only={act: tuple(PersonRole)})
    assert everybody.get_roles(act) == ACTS[act].who
    assert everybody.list_problems() or ACTS[act].who == frozenset(PersonRole)


@pytest.mark.parametrize(
    ("only", "says"),
    [
        ("intent.correkt: [operator]", "is no act"),
        ("button.approval.approve: [approver]", "cannot be changed"),
        ("command.stop: [admin]", "cannot be changed"),
        ("command.resume: [operator]", "operator may not"),
        ("intent.correct: [knowledge_editor]", "no person would be left"),
        ("intent.correct: [king]", "king"),
    ],
)
def test_a_row_that_cannot_stand_is_refused_with_its_line(tmp_path: Path, only: str, says: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f"roles:\n  only:\n    {only}\n")
    with pytest.raises(BadPolicy, match=rf"policy\.yaml:3: .*{says}"):
        load_policy(file)


def test_the_roles_of_a_file_are_said_in_words(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("roles:\n  knowledge_editor: {users: [U1], groups: [S1]}\n  only: {intent.correct: [knowledge_editor]}\n")
    assert format_policy(load_policy(file))[1:] == (
        "knowledge editors: U1, the user group S1",
        "only knowledge_editor may: intent.correct",
    )


# -- in Slack ---------------------------------------------------------------------------------------------------------

KEPT = RoleTable(admin=NamedPeople(users=("U0OLGA",)), only={"intent.hand_off": (PersonRole.ADMIN,)})


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    def dress(context: HandlerContext, _: FakeAsyncRedis) -> HandlerContext:
        return replace(context, roles=KEPT)

    async with slack_side(dress) as behind:
        yield behind


async def said(bot: Behind, who: str) -> list[Any]:
    thread = await bot.slack.say("priya", OPS, "@rackmedic job 4711 hangs on gpu-[017-018]")
    await bot.settled()
    await bot.slack.say(who, OPS, "@rackmedic hand off", thread)
    await bot.settled()
    return [item.kind for item in await bot.items()]


async def test_what_a_site_keeps_for_its_admins_is_refused_to_others_in_words(bot: Behind) -> None:
    assert await said(bot, "priya") == ["mention"]
    assert any("Only admins may do that here." in text for text in bot.texts(OPS))


async def test_and_done_for_them(bot: Behind) -> None:
    assert await said(bot, "olga") == ["mention", "hand_off"]


async def test_a_customers_own_approvers_are_approvers_of_what_that_customer_reported_alone() -> None:
    theirs = {"channel": ACME, "kind": "tenant", "tenant": "acme", "internal": OPS, "approvers": "S0GPUAPPR"}
    rows = inventory(channels=[{"channel": OPS, "kind": "operators"}, theirs]).channels
    came = TenantThread(team=TEAM, channel=ACME, thread_ts="1", user="U0CARLA", user_team="T0ACME")
    reported = Origin(kind="slack", team=TEAM, channel=OPS, tenant="acme", customer=came)

    def dress(context: HandlerContext, _: FakeAsyncRedis) -> HandlerContext:
        return replace(context, channel_bindings={row.channel: row for row in rows})

    async with slack_side(dress) as bot:
        assert PersonRole.APPROVER not in await bot.context.get_roles("U0PRIYA", OPS)
        assert PersonRole.APPROVER in await bot.context.get_roles("U0PRIYA", OPS, reported)
        assert PersonRole.APPROVER not in await bot.context.get_roles("U0OLGA", OPS, reported)
