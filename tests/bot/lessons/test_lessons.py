"""A lesson is decided once, by an editor, as shown to them, and is unused until then."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.incidents.cards import notes
from bot.incidents.context import HandlerContext
from bot.incidents.handlers.services import MessageServices
from bot.lessons import cards as card
from bot.lessons.handlers import LessonCards, LessonHandlers
from bot.lessons.store import LessonStore
from bot.policy.roles import NamedPeople, PersonRole, RoleTable
from bot.slack.posted_messages import EditableMessages, PostedCards
from kb.history.lessons import Lesson
from tests.support.fakes_bot import OFFERED, OPS, TEAM, Behind, Features, slack_side
from tests.support.lessons import OLD, a_lesson

FELL = "GPU.BUS.Fell_Off"
TITLES = {FELL: "GPU fell off the bus", OLD: "Driver too old"}
ROLES = RoleTable(knowledge_editor=NamedPeople(users=("U0ANTON", "U0PRIYA")), only={"button.lesson.accept": (PersonRole.KNOWLEDGE_EDITOR,)})


def with_editors(context: HandlerContext, _: Redis) -> HandlerContext:
    return replace(context, roles=ROLES)


def taught(messages: MessageServices, redis: Redis) -> Features:
    context = messages.context
    kept = EditableMessages(context.client, PostedCards(redis))
    return Features(lessons=LessonHandlers(context, LessonStore(redis), LessonCards(kept, context.inbox, context.people, TITLES), OFFERED))


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(with_editors, features_of=taught) as behind:
        yield behind


class Editors:
    """A draft lesson in its incident's thread."""

    def __init__(self, bot: Behind, incident: str) -> None:
        self.bot, self.incident, self.lessons = bot, incident, LessonStore(bot.redis)

    @classmethod
    async def begin(cls, bot: Behind, **other: Any) -> "Editors":
        ts = await bot.slack.say("olga", OPS, "@rackmedic job 4711 hangs on gpu-017")
        await bot.settled()
        incident = await bot.inbox.find_incident(TEAM, OPS, ts)
        assert incident
        editors = cls(bot, incident)
        await editors.lessons.add_lesson(a_lesson(**{"label": FELL, "incident": incident, **other}))
        await editors.shown()
        return editors

    async def shown(self) -> None:
        teaching = self.bot.features.lessons
        assert teaching
        await teaching.cards.update_card(await self.lesson())

    async def lesson(self) -> Lesson:
        lesson = await self.lessons.get_lesson("les-4f2a")
        assert lesson
        return lesson

    @property
    def messages(self) -> list[dict[str, Any]]:
        heads = tuple(card.STATE_HEADLINES.values())
        return [dict(one) for one in self.bot.slack.messages(OPS) if str(one["text"]).startswith(heads)]

    async def click(self, who: str, button: str) -> None:
        await self.bot.slack.click(who, self.messages[0]["ts"], button)
        await self.bot.settled()

    def buttons(self) -> list[str]:
        return [one["action_id"] for block in self.messages[0]["blocks"] if block["type"] == "actions" for one in block["elements"]]


async def test_the_draft_is_shown_once_and_accepted_by_a_click(bot: Behind) -> None:
    editors = await Editors.begin(bot)
    await editors.shown()
    assert len(editors.messages) == 1
    assert editors.buttons() == [card.ACCEPT_ACTION_ID, card.EDIT_ACTION_ID, card.REFUSE_ACTION_ID]
    await editors.click("anton", card.ACCEPT_ACTION_ID)
    lesson = await editors.lesson()
    assert (lesson.state, lesson.by) == ("accepted", f"{TEAM}:U0ANTON")
    assert editors.buttons() == []
    assert "Lesson accepted" in editors.messages[0]["text"]


async def test_a_person_who_is_no_editor_decides_nothing(bot: Behind) -> None:
    editors = await Editors.begin(bot)
    await editors.click("olga", card.ACCEPT_ACTION_ID)
    await editors.click("U0GUEST", card.REFUSE_ACTION_ID)
    assert (await editors.lesson()).state == "draft"
    assert "knowledge editors" in str(bot.slack.whispers("olga"))


async def test_two_clicks_at_once_settle_it_once_and_the_other_is_told(bot: Behind) -> None:
    editors = await Editors.begin(bot)
    ts = editors.messages[0]["ts"]
    await asyncio.gather(bot.slack.click("anton", ts, card.ACCEPT_ACTION_ID), bot.slack.click("priya", ts, card.ACCEPT_ACTION_ID))
    await bot.settled()
    assert (await editors.lesson()).state == "accepted"
    told = [str(bot.slack.whispers(who)) for who in ("anton", "priya")]
    assert ["accepted already" in one for one in told].count(True) == 1
    assert await editors.lessons.get_version() == 2


async def test_a_card_whose_paint_was_lost_is_refused_and_drawn_as_things_stand(bot: Behind) -> None:
    editors = await Editors.begin(bot)
    await editors.lessons.update_lesson("les-4f2a", lambda now: now.model_copy(update={"state": "refused", "by": f"{TEAM}:U0PRIYA"}))
    await editors.click("anton", card.ACCEPT_ACTION_ID)
    assert (await editors.lesson()).state == "refused"
    assert "refused already" in str(bot.slack.whispers("anton"))
    assert "Lesson refused" in editors.messages[0]["text"]


async def test_an_old_card_accepts_nothing_that_it_did_not_show(bot: Behind) -> None:
    editors = await Editors.begin(bot)
    await editors.lessons.update_lesson("les-4f2a", lambda now: now.model_copy(update={"root_cause": "something else"}))
    await editors.click("anton", card.ACCEPT_ACTION_ID)
    assert (await editors.lesson()).state == "draft"
    await editors.click("anton", card.ACCEPT_ACTION_ID)
    assert (await editors.lesson()).state == "accepted", "the card shows it by now"


async def test_a_draft_is_changed_within_its_bounds_and_its_cause_is_of_the_taxonomy(bot: Behind) -> None:
    editors = await Editors.begin(bot, label="")
    assert editors.buttons() == [card.EDIT_ACTION_ID, card.REFUSE_ACTION_ID]
    await editors.click("anton", card.EDIT_ACTION_ID)
    view = bot.slack.view("anton")
    assert view
    missing = await bot.slack.submit("anton", view["id"], {})
    assert card.LABEL_BLOCK_ID in missing["errors"]
    assert (
        await bot.slack.submit(
            "anton",
            view["id"],
            {card.LABEL_BLOCK_ID: OLD, card.CAUSE_BLOCK_ID: "old driver; token ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
        )
        == {}
    )
    await bot.settled()
    lesson = await editors.lesson()
    assert (lesson.state, lesson.label, lesson.edited) == ("draft", OLD, True)
    assert "ghp_" not in lesson.root_cause
    await editors.click("anton", card.ACCEPT_ACTION_ID)
    assert (await editors.lesson()).state == "accepted"


async def test_a_form_opened_before_the_acceptance_changes_nothing(bot: Behind) -> None:
    editors = await Editors.begin(bot)
    await editors.click("anton", card.EDIT_ACTION_ID)
    view = bot.slack.view("anton")
    assert view
    await editors.click("priya", card.ACCEPT_ACTION_ID)
    answer = await bot.slack.submit("anton", view["id"], {card.LABEL_BLOCK_ID: OLD, card.CAUSE_BLOCK_ID: "mine"})
    assert "accepted already" in str(answer)
    assert (await editors.lesson()).label == FELL


async def test_a_click_that_cannot_be_stored_settles_nothing_and_says_so(bot: Behind) -> None:
    editors = await Editors.begin(bot)
    bot.server.connected = False
    await editors.click("anton", card.ACCEPT_ACTION_ID)
    bot.server.connected = True
    assert (await editors.lesson()).state == "draft"
    assert notes.render_not_stored(False).text in str(bot.slack.whispers("anton"))


async def test_a_lesson_that_tells_the_same_is_folded_into_the_earlier_one_once(bot: Behind) -> None:
    editors = await Editors.begin(bot)
    await editors.lessons.add_lesson(a_lesson("les-early", label=FELL, state="accepted", incident="inc-early", on=date(2026, 4, 1)))
    await editors.click("priya", card.ACCEPT_ACTION_ID)
    assert ((await editors.lesson()).state, (await editors.lesson()).into) == ("folded", "les-early")
    early = await editors.lessons.get_lesson("les-early")
    assert early
    assert (early.state, early.seen) == ("accepted", 2)
    assert "counted with les-early" in str(editors.messages[0])
    assert editors.buttons() == []


async def test_a_retired_lesson_is_brought_back_by_those_who_may(bot: Behind) -> None:
    editors = await Editors.begin(bot)
    await editors.lessons.update_lesson(
        "les-4f2a", lambda now: now.model_copy(update={"state": "retired", "wrong": ("i1", "i2"), "settled": now.on})
    )
    await editors.shown()
    assert "It is no longer used" in str(editors.messages[0])
    assert editors.buttons() == [card.RESTORE_ACTION_ID]
    await editors.click("olga", card.RESTORE_ACTION_ID)
    assert (await editors.lesson()).state == "retired"
    await editors.click("priya", card.RESTORE_ACTION_ID)
    assert ((await editors.lesson()).state, (await editors.lesson()).wrong) == ("accepted", ())
    assert editors.buttons() == []
