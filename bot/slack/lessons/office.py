"""The card of a lesson in the thread of the incident that taught it, and what people do with it. Each is settled once, whoever clicks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog

from bot.cards.buttons import BadForm, OldButton, Stale
from bot.cards.lessons import lesson as card
from bot.cards.lessons.lesson import LessonEdit
from bot.desk.inbox import Inbox
from bot.policy.channels import Place
from bot.refusal import Refusal
from bot.slack.client import SLACK_TROUBLE
from bot.slack.context import Surface, storing
from bot.slack.incoming.payloads import Payload, thread_of
from bot.slack.outgoing.posts import KeptMessages
from bot.slack.people import People
from bot.store.lessons import Lessons
from kb.history.lessons import TITLE, WORDS, Lesson, LessonState, accepted, cut, restored, seen_again, twin_of

log = structlog.get_logger()
MARK, CARD = "rackmedic_lesson", "lesson"
WAIT = timedelta(seconds=12)
NO_CAUSE = "Nobody said yet which cause of the taxonomy it was. Press Edit and choose one."


@dataclass(frozen=True, slots=True)
class LessonCards:
    """One message a lesson, drawn anew whenever something was decided about it."""

    kept: KeptMessages
    inbox: Inbox
    people: People
    titles: Mapping[str, str]

    async def show(self, lesson: Lesson) -> None:
        """In its incident's thread, as long as that is the operators' own and nobody else reads it."""
        origin = await self.inbox.origin(lesson.incident)
        if origin is None or origin.kind != "slack" or not origin.thread_ts or await self.people.shared(origin.channel):
            return
        async with self.kept.cards.alone(lesson.incident, CARD, wait=WAIT) as alone:
            if alone:
                team, _, user = lesson.by.partition(":")
                by = await self.people.name(user) if user else team
                about = {"event_type": MARK, "event_payload": {"lesson": lesson.id}}
                await self.kept.put(origin, lesson.incident, CARD, card.render(lesson, self.titles, by), about)


@dataclass(frozen=True, slots=True)
class LessonDesk:
    """Its buttons and its form, handed to the listeners."""

    surface: Surface
    lessons: Lessons
    cards: LessonCards

    async def press(self, payload: Payload) -> None:
        """A click. Raises Refusal where it counts for nothing; the card is then drawn as things stand."""
        pressed = card.read(payload)
        team, channel, user = str(payload["team"]["id"]), str(payload["channel"]["id"]), str(payload["user"]["id"])
        lesson = await self._lesson(pressed.incident)
        await self.surface.admit(Place(team, channel), user, fresh=True)
        async with storing():
            if await self.surface.inbox.find(team, channel, thread_of(payload)) != lesson.incident:
                raise OldButton
            origin = await self.surface.inbox.origin(lesson.incident)
        await self.surface.allow(f"button.{payload['actions'][0]['action_id']}", user, channel, origin)
        if pressed.does == "edit":
            current = await self._undecided(lesson, pressed.item)
            view = card.form(current, self.surface.offered)
            await self.surface.client.views_open(trigger_id=str(payload["trigger_id"]), view=view)
            return
        by = f"{team}:{user}"
        if pressed.does == "restore":
            await self._restore(lesson, by)
        else:
            await self._settle(lesson, pressed.item, "accepted" if pressed.does == "accept" else "refused", by)

    async def submit(self, payload: Payload) -> None:
        """The form, sent. Raises Refusal, and BadForm for what can be mended in it."""
        edit = card.submitted(payload)
        lesson = await self._lesson(edit.lesson)
        team, user = str(payload["team"]["id"]), str(payload["user"]["id"])
        async with storing():
            origin = await self.surface.inbox.origin(lesson.incident)
        if origin is None or origin.team != team:
            raise OldButton
        await self.surface.admit(Place(team, origin.channel), user, fresh=True)
        await self.surface.allow(f"form.{payload['view']['callback_id']}", user, origin.channel, origin)
        if edit.label not in self.cards.titles:
            raise BadForm({card.LABEL: "Choose a cause of the taxonomy."})
        await self._changed(lesson.id, lambda now: _edited(_as_shown(now, edit.digest), edit))

    async def _settle(self, lesson: Lesson, digest: str, to: LessonState, by: str) -> None:
        today = self.surface.clock.now().date()
        async with storing():
            twin = twin_of(lesson, await self.lessons.all()) if to == "accepted" else None

        def settled(now: Lesson) -> Lesson:
            shown = _as_shown(now, digest)
            if to != "accepted":
                return shown.model_copy(update={"state": to, "by": by, "settled": today})
            if not shown.label:
                raise Refusal(NO_CAUSE)
            return accepted(shown, by, today, twin)

        await self._changed(lesson.id, settled)
        if twin:  # once: of two clicks the later one was refused above
            await self._changed(twin.id, lambda now: seen_again(now, lesson.seen))

    async def _restore(self, lesson: Lesson, by: str) -> None:
        today = self.surface.clock.now().date()

        def back(now: Lesson) -> Lesson:
            if now.state != "retired":
                raise Refusal(f"This lesson is {now.state}; only a retired one is brought back.")
            return restored(now, by, today)

        await self._changed(lesson.id, back)

    async def _changed(self, lesson: str, change: Callable[[Lesson], Lesson]) -> None:
        """Settled by the store alone; the card follows, also for whoever came too late."""
        try:
            async with storing():
                await self.lessons.change(lesson, change)
        finally:
            self.surface.tasks.spawn("lesson_card", self._paint(lesson))

    async def _undecided(self, lesson: Lesson, digest: str) -> Lesson:
        try:
            return _as_shown(lesson, digest)
        except Refusal:
            self.surface.tasks.spawn("lesson_card", self._paint(lesson.id))
            raise

    async def _lesson(self, lesson: str) -> Lesson:
        async with storing():
            row = await self.lessons.get(lesson)
        if row is None:
            raise OldButton
        return row

    async def _paint(self, lesson: str) -> None:
        try:
            if row := await self.lessons.get(lesson):
                await self.cards.show(row)
        except SLACK_TROUBLE as trouble:
            log.warning("lessons.not_painted", lesson=lesson, error=str(trouble)[:200])


def _as_shown(now: Lesson, digest: str) -> Lesson:
    """The lesson, if it is still to be decided and as whoever clicked saw it."""
    if now.state != "draft":
        raise Refusal(f"This lesson is {now.state} already; its card says by whom.")
    if now.digest != digest:
        raise Stale
    return now


def _edited(lesson: Lesson, edit: LessonEdit) -> Lesson:
    words = {"description": edit.description, "root_cause": edit.root_cause, "resolution": edit.resolution}
    clean = {name: cut(text, WORDS) for name, text in words.items()}
    return lesson.model_copy(update={**clean, "title": cut(edit.title, TITLE), "label": edit.label, "edited": True})
