"""Lesson cards in their incident's thread, and clicks on them. Each lesson is decided once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog

from bot.cards.buttons import BadForm, OldButton, StaleCard
from bot.incidents.cards.incident_menu import LabelChoices
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.lessons import cards as lesson_card
from bot.lessons.cards import LessonEdit
from bot.lessons.store import LessonStore
from bot.policy.channels import SlackPlace
from bot.refusal import Refusal
from bot.slack.client import SLACK_ERRORS
from bot.slack.handlers import SlackHandlers
from bot.slack.payloads import Payload, get_thread_ts
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages
from bot.store.unreachable import guard_store
from kb.history.lessons import (
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    Lesson,
    LessonState,
    accept_lesson,
    count_seen_again,
    find_duplicate_lesson,
    restore_lesson,
    shorten_text,
)

log = structlog.get_logger()
LESSON_EVENT_TYPE = "rackmedic_lesson"
CARD_NAME = "lesson"
LOCK_WAIT = timedelta(seconds=12)
NO_CAUSE = "The lesson names no cause of the taxonomy yet. Press Edit and choose one."


@dataclass(frozen=True, slots=True)
class LessonCards:
    """One message per lesson, redrawn on each decision."""

    kept: EditableMessages
    inbox: Inbox
    people: People
    titles: Mapping[str, str]

    async def update_card(self, lesson: Lesson) -> None:
        """Draw the card, unless the channel is shared."""
        origin = await self.inbox.get_origin(lesson.incident)
        if origin is None or origin.kind != "slack" or not origin.thread_ts or await self.people.is_shared(origin.channel):
            return
        async with self.kept.cards.hold_lock(lesson.incident, CARD_NAME, wait=LOCK_WAIT) as alone:
            if alone:
                team, _, user = lesson.by.partition(":")
                by = await self.people.get_name(user) if user else team
                about = {"event_type": LESSON_EVENT_TYPE, "event_payload": {"lesson": lesson.id}}
                await self.kept.put_message(origin, lesson.incident, CARD_NAME, lesson_card.render_lesson(lesson, self.titles, by), about)


@dataclass(frozen=True, slots=True)
class LessonHandlers:
    context: HandlerContext
    lessons: LessonStore
    cards: LessonCards
    label_choices: LabelChoices

    async def handle_click(self, payload: Payload) -> None:
        """Handle a click. Raises Refusal."""
        pressed = lesson_card.parse_lesson_click(payload)
        team, channel, user = str(payload["team"]["id"]), str(payload["channel"]["id"]), str(payload["user"]["id"])
        lesson = await self._load_lesson(pressed.incident)
        await self.context.admit_user(SlackPlace(team, channel), user, fresh=True)
        async with guard_store():
            if await self.context.inbox.find_incident(team, channel, get_thread_ts(payload)) != lesson.incident:
                raise OldButton
            origin = await self.context.inbox.get_origin(lesson.incident)
        await self.context.require_permission(f"button.{payload['actions'][0]['action_id']}", user, channel, origin)
        if pressed.does == "edit":
            current = await self._require_undecided(lesson, pressed.item)
            view = lesson_card.render_lesson_form(current, self.label_choices)
            await self.context.client.views_open(trigger_id=str(payload["trigger_id"]), view=view)
            return
        by = f"{team}:{user}"
        if pressed.does == "restore":
            await self._restore_lesson(lesson, by)
        else:
            await self._decide_lesson(lesson, pressed.item, "accepted" if pressed.does == "accept" else "refused", by)

    async def handle_submission(self, payload: Payload) -> None:
        """Handle the form. Raises Refusal, BadForm."""
        edit = lesson_card.parse_lesson_form(payload)
        lesson = await self._load_lesson(edit.lesson)
        team, user = str(payload["team"]["id"]), str(payload["user"]["id"])
        async with guard_store():
            origin = await self.context.inbox.get_origin(lesson.incident)
        if origin is None or origin.team != team:
            raise OldButton
        await self.context.admit_user(SlackPlace(team, origin.channel), user, fresh=True)
        await self.context.require_permission(f"form.{payload['view']['callback_id']}", user, origin.channel, origin)
        if edit.label not in self.cards.titles:
            raise BadForm({lesson_card.LABEL_BLOCK_ID: "Choose a cause of the taxonomy."})
        await self._change_lesson(lesson.id, lambda now: _apply_edit(_require_as_shown(now, edit.digest), edit))

    async def _decide_lesson(self, lesson: Lesson, digest: str, to: LessonState, by: str) -> None:
        today = self.context.clock.now().date()
        async with guard_store():
            twin = find_duplicate_lesson(lesson, await self.lessons.list_lessons()) if to == "accepted" else None

        def settled(now: Lesson) -> Lesson:
            shown = _require_as_shown(now, digest)
            if to != "accepted":
                return shown.model_copy(update={"state": to, "by": by, "settled": today})
            if not shown.label:
                raise Refusal(NO_CAUSE)
            return accept_lesson(shown, by, today, twin)

        await self._change_lesson(lesson.id, settled)
        if twin:  # counted once: a second click was refused above
            await self._change_lesson(twin.id, lambda now: count_seen_again(now, lesson.seen))

    async def _restore_lesson(self, lesson: Lesson, by: str) -> None:
        today = self.context.clock.now().date()

        def back(now: Lesson) -> Lesson:
            if now.state != "retired":
                raise Refusal(f"This lesson is {now.state}; only a retired one is brought back.")
            return restore_lesson(now, by, today)

        await self._change_lesson(lesson.id, back)

    async def _change_lesson(self, lesson: str, change: Callable[[Lesson], Lesson]) -> None:
        """Change the lesson, then redraw the card even if refused."""
        try:
            async with guard_store():
                await self.lessons.update_lesson(lesson, change)
        finally:
            self.context.tasks.spawn_task("lesson_card", self._update_card(lesson))

    async def _require_undecided(self, lesson: Lesson, digest: str) -> Lesson:
        try:
            return _require_as_shown(lesson, digest)
        except Refusal:
            self.context.tasks.spawn_task("lesson_card", self._update_card(lesson.id))
            raise

    async def _load_lesson(self, lesson: str) -> Lesson:
        async with guard_store():
            row = await self.lessons.get_lesson(lesson)
        if row is None:
            raise OldButton
        return row

    async def _update_card(self, lesson: str) -> None:
        try:
            if row := await self.lessons.get_lesson(lesson):
                await self.cards.update_card(row)
        except SLACK_ERRORS as error:
            log.warning("lessons.not_painted", lesson=lesson, error=str(error)[:200])


def _require_as_shown(lesson: Lesson, digest: str) -> Lesson:
    """Return the lesson if undecided and unchanged. Raises Refusal."""
    if lesson.state != "draft":
        raise Refusal(f"This lesson is {lesson.state} already; its card says by whom.")
    if lesson.digest != digest:
        raise StaleCard
    return lesson


def _apply_edit(lesson: Lesson, edit: LessonEdit) -> Lesson:
    words = {"description": edit.description, "root_cause": edit.root_cause, "resolution": edit.resolution}
    clean = {name: shorten_text(text, MAX_TEXT_CHARS) for name, text in words.items()}
    return lesson.model_copy(update={**clean, "title": shorten_text(edit.title, MAX_TITLE_CHARS), "label": edit.label, "edited": True})


def build_lesson_handlers(handlers: LessonHandlers) -> SlackHandlers:
    return SlackHandlers(
        clicks=dict.fromkeys(lesson_card.BUTTONS, handlers.handle_click),
        forms={lesson_card.CALLBACK_ID: handlers.handle_submission},
    )
