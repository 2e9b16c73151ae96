"""Search everything a tenant sees in Slack for another tenant's data: messages, ephemeral ones, forms and answers, Home
tab, direct messages, files, alt texts.

All data of B that the Slack side reads contains unique names. A's people press every button and submit every form of
the product with B's incident id, and ask everything. The views of those who may see B are searched too, to prove the
search works.
"""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from fakeredis import FakeAsyncRedis

from bot.cards.blocks import actions, button
from bot.cards.buttons import encode_button_value
from bot.incidents.cards import diagnosis, handoff_card, incident_menu, return_buttons
from bot.incidents.context import HandlerContext
from bot.incidents.handlers.services import MessageServices
from bot.policy.channels import build_channel_bindings, list_tenant_channels
from bot.remediation.cards import approval_card as approval
from bot.slack.manifest import SHORTCUT
from bot.tenants.cards import internal_thread, tenant_card
from bot.tenants.handlers import TenantHandlers
from bot.tenants.tenant_cards import TenantCards
from deploy.sandbox.slack.workspace.people import BOT_USER, UserGroup
from deploy.sandbox.slack.workspace.refusal import SlackRefusal
from deploy.sandbox.slack.workspace.workspace import Channel
from graph.incident.visibility import build_vocabulary
from graph.report import Report
from graph.state import (
    ALERTS_USER,
    Evidence,
    HandoffTicket,
    HumanCorrection,
    Hypothesis,
    InboxItem,
    IncidentState,
    Milestone,
    Origin,
    Remediation,
    TenantThread,
)
from kb.customers.cause_words import load_customer_words
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import WallClock
from tests.support.fakes_bot import ACME, OPS, TEAM, Behind, Features, Parts, ReportRecorder, build_tenant_cards, slack_side
from tests.support.inventories import inventory
from tests.support.slack_ids import list_form_ids
from tools.checks import CHECKS

pytestmark = pytest.mark.tier2

TAXONOMY = load_taxonomy()
WORDS = load_customer_words(TAXONOMY)
GUIDE = (Path(__file__).parents[2] / "docs" / "customers.md").read_text()
BETA = "C0CUSTBETA"


@dataclass
class Planted:
    """Unique names: (name, where it was planted)."""

    rows: list[tuple[str, str]] = field(default_factory=list)

    def name(self, where: str, shape: str = "canary{}") -> str:
        made = shape.format(f"{len(self.rows) + 1:03}x")
        self.rows.append((made, where))
        return made

    def found(self, text: str) -> list[tuple[str, str]]:
        return [row for row in self.rows if row[0].lower() in text.lower()]


PLANTED = Planted()
HOST, ALIAS, ADDRESS, LEAF = (PLANTED.name(f"inventory: {what}", "canary-{}") for what in ("host", "alias", "address", "leaf switch"))
TENANT, GROUP = PLANTED.name("inventory: tenant"), PLANTED.name("inventory: group")
SITE = inventory(
    groups={
        "acme": {"hosts": "gpu-[017-018]", "tenant": "acme"},
        GROUP: {"hosts": HOST, "tenant": TENANT, "leaf": LEAF},
    },
    hosts={HOST: {"alias": ALIAS, "address": ADDRESS}},
    channels=[
        {"channel": OPS, "kind": "operators", "approvers": "S0APPROVE"},
        {"channel": ACME, "kind": "tenant", "tenant": "acme", "internal": OPS},
        {"channel": BETA, "kind": "tenant", "tenant": TENANT, "internal": OPS},
    ],
)
BOUND = build_channel_bindings(SITE.channels)
THEIRS = "inc-bbbbbb"
BUTTONS = tuple(
    dict.fromkeys(
        (
            *diagnosis.BUTTONS,
            *handoff_card.BUTTONS,
            *return_buttons.BUTTONS,
            *tenant_card.BUTTONS,
            *internal_thread.BUTTONS,
            *approval.BUTTONS,
            incident_menu.MENU_ACTION_ID,
        )
    )
)
FORM_IDS = tuple(sorted(list_form_ids()))
ASKED = (
    "@rackmedic job 4711 hangs on gpu-[017-018]",
    "@rackmedic who else has this?",
    "@rackmedic have you seen this before?",
    "@rackmedic draw the temperatures of all hosts",
    "@rackmedic status",
    "@rackmedic summary for my manager",
    "@rackmedic what else is open?",
    "@rackmedic help",
)


def of_theirs() -> IncidentState:
    """Return an incident of B's with a unique name in each field."""
    name = PLANTED.name
    evidence = Evidence(host=HOST, check="dmesg", key="kernel.xid", line=name("line of evidence"), sha256="0" * 64)
    of_site = Evidence(host=HOST, check="site.fabric", key="site.fabric", line=name("answer of a site's own check"), sha256="1" * 64)
    cause = Hypothesis(
        label="GPU.BUS.Fallen_Off_Bus",
        hosts=(HOST,),
        confidence=0.9,
        verdict="confirmed",
        because=name("why"),
        evidence=(evidence, of_site),
    )
    at = WallClock().now()
    report = Report(item="i", outcome="diagnosed", headline=name("headline"), root_causes=(cause,), reply=name("reply"))
    ladder = Remediation(id="lad-1", label=cause.label, target=HOST, words=(name("ladder"),))
    made: dict[str, Any] = {
        "id": THEIRS,
        "brief": {"text": name("report"), "hosts": [HOST], "job": name("job")},
        "report": report.model_dump(mode="json"),
        "ladders": [ladder.model_dump(mode="json")],
        "ticket": HandoffTicket(summary=name("ticket"), taken_by=name("owner")).model_dump(mode="json"),
        "said": [
            {"user": name("speaker"), "text": name("what on-call said"), "at": at.isoformat()},
            {"user": ALERTS_USER, "text": name("alert"), "at": at.isoformat()},
            {"user": "tracker", "text": name("comment in a tracker"), "at": at.isoformat()},
        ],
        "correction": HumanCorrection(label="", words=name("correction"), by="U0OLGA").model_dump(mode="json"),
        "milestones": [Milestone(at=at, kind="ran", says=name("milestone")).to_row()],
        "owner": name("owner of the incident"),
        "lifecycle": "waiting",
        "logs": [],
    }
    return cast(IncidentState, made)


def cards_of(context: HandlerContext, redis: FakeAsyncRedis) -> TenantCards:
    return build_tenant_cards(context, redis, SITE, WORDS, WallClock())


def dress(context: HandlerContext, _: FakeAsyncRedis) -> HandlerContext:
    return replace(context, channel_bindings=BOUND, tenant_channels=list_tenant_channels(BOUND))


def parts_of(context: HandlerContext, _: FakeAsyncRedis) -> Parts:
    def named(origin: Origin) -> Any:
        return build_vocabulary(SITE, TAXONOMY, tuple(CHECKS), origin)

    return Parts(vocabulary_of=named, hosts_of=lambda origin: named(origin).hosts)


def features_of(messages: MessageServices, redis: FakeAsyncRedis) -> Features:
    return Features(TenantHandlers(messages, cards_of(messages.context, redis), SITE, ReportRecorder()))


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(dress, parts_of, features_of) as behind:
        await planted(behind)
        yield behind


async def planted(bot: Behind) -> None:
    """Plant B's channel, people, messages, files and incident, and internal messages about it."""
    ws, name = bot.slack.workspace, PLANTED.name
    ws.channels[BETA] = Channel(BETA, name("channel"), ["U0OLGA", "U0STRANGE", BOT_USER], name("topic"), shared_with={"T0GLOBEX"})
    ws.users["U0STRANGE"].real_name = name("person")
    ws.groups["S0CANARY"] = UserGroup("S0CANARY", name("user group"), name("user group"), ["U0OLGA"])
    await bot.slack.say("olga", OPS, f"{name('message of ours')} on {HOST}")
    said = await bot.slack.say("stan", BETA, name("message of theirs"), files=[(f"{name('file')}.log", name("text of a file").encode())])
    came = TenantThread(team=TEAM, channel=BETA, thread_ts=said, user="U0STRANGE", user_team="T0GLOBEX")
    origin = Origin(kind="slack", team=TEAM, channel=OPS, user="U0STRANGE", tenant=TENANT, customer=came)

    def item(incident: str) -> InboxItem:
        return InboxItem(
            id="beta-1", kind="mention", incident=incident, at=WallClock().now(), user="U0STRANGE", text=name("item of the inbox")
        )

    received = await bot.inbox.open_or_join(origin, "beta-1", item)
    bot.states[received.incident] = bot.states[THEIRS] = of_theirs()
    await cards_of(bot.context, bot.redis).update_card(received.incident)
    await bot.settled()
    bot.slack.workspace.users["U0CARLA"].stranger = None


async def does_everything(bot: Behind, who: str) -> None:
    """Ask, click, submit and open everything for B's incidents."""
    incidents = [*(await bot.inbox.list_open_incidents()), THEIRS]
    thread = ""
    for text in ASKED:
        thread = await bot.slack.say(who, ACME, text) if not thread else (await bot.slack.say(who, ACME, text, thread)) and thread
        await bot.slack.say(who, bot.slack.dm(who).id, text.removeprefix("@rackmedic "))
    await bot.slack.open_home(who)
    for words in ("status", "help", "stop", "resume", ""):
        await bot.slack.command(who, ACME, "/rackmedic", words)
    await bot.slack.shortcut(who, ACME, thread, SHORTCUT)
    for incident in incidents:
        for action in BUTTONS:
            rows = [{**actions(button("Press", action, encode_button_value(incident, "beta-1"))), "block_id": "copied"}]
            copied = bot.slack.workspace.post(
                BOT_USER, bot.slack.workspace.channel(ACME), {"text": "A copied card", "blocks": rows, "thread_ts": thread}
            )
            await bot.slack.click(who, copied.ts, action)
        for form in FORM_IDS:
            await submits(bot, who, form, incident)
    await bot.settled()


ANSWERED: list[str] = []


async def submits(bot: Behind, who: str, form: str, incident: str) -> None:
    title = {"type": "plain_text", "text": "Form"}
    field_ = {"type": "plain_text_input", "action_id": internal_thread.WORDS_BLOCK_ID, "multiline": True}
    user, blocks = (
        bot.slack.workspace.user(who).id,
        [{"type": "input", "block_id": internal_thread.WORDS_BLOCK_ID, "label": title, "element": field_}],
    )
    metadata = json.dumps({"incident": incident, "approval": incident, "digest": "0" * 64})
    view = {"type": "modal", "callback_id": form, "title": title, "blocks": blocks, "private_metadata": metadata, "submit": title}
    trigger = bot.slack.views.trigger(user)
    with suppress(SlackRefusal):
        opened = bot.slack.views.open(trigger, view)
        ANSWERED.append(json.dumps(await bot.slack.submit(who, opened["id"], {internal_thread.WORDS_BLOCK_ID: "Tell me all."})))
        await bot.slack.close(who, opened["id"])


def seen_by(bot: Behind, who: str) -> str:
    """Return everything Slack shows a person: of pictures the alt text, of files name and text."""
    ws, user = bot.slack.workspace, bot.slack.workspace.user(who).id
    rooms = [channel for channel in ws.channels.values() if user in channel.members]
    parts: list[Any] = [[message.body for message in channel.messages.values()] for channel in rooms]
    parts += [bot.slack.whispers(who), ws.homes.get(user), bot.slack.views.stacks.get(user), list(ANSWERED)]
    mine = {channel.id for channel in rooms}
    files = [file for owner in ws.users for file in ws.files.list_by_user(owner) if mine & set(file.channels)]
    parts += [[ws.files.wire(file), (file.content or b"").decode(errors="replace")] for file in files]
    return json.dumps(parts, ensure_ascii=False, default=str)


@pytest.mark.parametrize("who", ["carla", "gus"])
async def test_nothing_of_bs_is_in_anything_that_a_sees(bot: Behind, who: str) -> None:
    ws = bot.slack.workspace
    ws.channel(ACME).members.append("U0GUEST")
    ws.channel(OPS).members.remove("U0GUEST")
    ANSWERED.clear()
    await does_everything(bot, who)
    seen = seen_by(bot, who)
    kinds = sorted({where for _, where in PLANTED.rows})
    assert f"in {len(kinds)} kinds of records" in GUIDE, kinds
    assert PLANTED.found(seen) == []
    assert ANSWERED
    assert not [answer for answer in ANSWERED if "timeout" in answer]
    assert len(seen) > 10_000  # proves that there were many answers
    assert not [item for item in await bot.items() if item.incident == THEIRS and item.user == ws.user(who).id]


async def test_who_may_see_them_does(bot: Behind) -> None:
    """The search finds the canaries where they may be seen."""
    seen = {where for who in ("stan", "olga") for _, where in PLANTED.found(seen_by(bot, who))}
    assert {"message of theirs", "message of ours", "file", "text of a file", "inventory: host"} <= seen
