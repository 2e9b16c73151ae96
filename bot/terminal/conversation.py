"""A thread played without Slack: a diagnosis and what people say to it, each message as one turn of the same graph. Nothing is approved here
(`approving` does)."""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from bot.desk.course import Course, course_after
from bot.run.world import World
from bot.terminal.replies import ThreadReply
from graph.conversation.addressed import Follows, Heed, Situation, as_answer, called, heed, mentions
from graph.conversation.intents import Intent
from graph.conversation.read import read
from graph.conversation.said import Said
from graph.guided import lines_of
from graph.incident.case import read_case
from graph.incident.fixes import yard_of
from graph.incident.flow import PassingTurns
from graph.incident.visible import vocabulary
from graph.ladders.preview import planned
from graph.ports import Progress
from graph.report import Report
from graph.rows import IncidentRows
from graph.state import Attachment, Incident, Item, Origin

HERE = Origin(kind="terminal")
NAMES = frozenset({"rackmedic"})
"""How we are called."""
GUIDE = 8
"""Lines of a guide's steps in an answer."""
_RACKMED = "rackmed"
_MENTION = re.compile(r"<@(?P<id>[A-Z0-9]{1,20})(?:\|(?P<name>[^<>\n]{0,80}))?>")
"""As Slack writes it. Here no workspace says which of them is ours."""
_OPENS = re.compile(rf"\s{{0,20}}{_MENTION.pattern}")
US = "-"
"""In the place of a name: we spoke last."""


@dataclass(frozen=True, slots=True)
class ToldReply:
    """What became of one reply. An empty `answer` is silence; `ran` are the (host, check) pairs that hosts were really asked; `cards` the
    decisions that it put up."""

    reply: ThreadReply
    intent: Intent
    ran: tuple[tuple[str, str], ...] = ()
    answer: str = ""
    cards: tuple[Mapping[str, Any], ...] = ()
    brings: Report | None = None
    """What the answer brings beside its words."""

    def row(self) -> dict[str, Any]:
        """As other people's scripts read it."""
        ran = [{"host": host, "check": check} for host, check in self.ran]
        return {"text": self.reply.text, "intent": self.intent.value, "ran": ran, "answer": self.answer, "cards": list(self.cards)}


@dataclass(frozen=True, slots=True)
class HeardReply:
    """A reply as it was understood. No `item`: it is none of our business."""

    reply: ThreadReply
    intent: Intent
    item: Item | None = None


@dataclass(slots=True)
class LastWord:
    """Who had the last word in the thread, and whether it was a question."""

    by: str = ""
    asked: bool = False
    """Our question is open."""
    question: bool = False
    speakers: set[str] = field(default_factory=set)
    us: frozenset[str] = NAMES
    """How this thread calls us."""

    def heard(self, reply: ThreadReply, state: Incident, now: datetime) -> Situation:
        """How a message stands; from now on it is the last word."""
        rows = IncidentRows(state)
        us = self.us | ids_of_us(reply.text)
        follows: Follows = "us" if self.by == US else "self" if self.by == reply.by else "person" if self.by else "nobody"
        here = Situation(
            mentioned=mentions(reply.text, us),
            called=called(reply.text, us, self.speakers - {reply.by}),
            follows=follows,
            after_question=self.question,
            asked=self.asked and self.by in (US, reply.by),
            paused=rows.quiet_until is not None and rows.quiet_until > now,
            closed=rows.lifecycle == "closed",
            alone=not self.speakers - {reply.by},
        )
        self.asked = here.asked
        self.by, self.question = reply.by, reply.text.rstrip().endswith("?")
        self.speakers.add(reply.by)
        return here

    def spoke(self, report: Report) -> None:
        """We had the last word."""
        self.by, self.asked = US, bool(report.questions) and not report.reply
        self.question = self.asked


async def unwatched(progress: Progress) -> None:
    """Nobody watches."""


def no_wait() -> None:
    """Time passes by itself."""


@dataclass(slots=True)
class PlayedThread:
    """One incident from its first message on. `wait` lets time pass between two messages, where a clock stands still otherwise."""

    world: World
    wait: Callable[[], None] = no_wait
    watch: Callable[[Progress], Awaitable[None]] = unwatched
    origin: Origin = HERE
    _last: LastWord = field(default_factory=LastWord)
    _inbox: list[Item] = field(default_factory=list)
    """What was said while it looked, and is not answered yet."""
    _coming: list[Item] = field(default_factory=list)
    """What will be said as soon as it looks."""
    _ran: list[tuple[str, str]] = field(default_factory=list)
    _known_cards: set[str] = field(default_factory=set)
    _messages: int = 0
    _incident: str = ""
    _state: Incident = field(default_factory=lambda: Incident())
    _course: Course | None = None
    _turns: PassingTurns = field(init=False)

    def __post_init__(self) -> None:
        self._turns = PassingTurns(replace(self.world.ports, progress=self._progress, peek=self._peek))

    async def play(self, first: Item, replies: Sequence[ThreadReply]) -> tuple[Incident, Report, list[ToldReply]]:
        """The first turn's state and report, and what became of each reply."""
        early, *groups = _by_turn(replies)
        self._called_by(first)
        coming = [self._heard(reply) for reply in early]
        state, report = await self.begin(first, coming)
        told = await self._answered(coming)
        for head, *meanwhile in groups:
            self.wait()
            said = self._heard(head)
            coming = [self._heard(reply) for reply in meanwhile]
            told += [*await self._answered([said], coming), *await self._answered(coming)]
        return state, report, told

    async def begin(self, first: Item, meanwhile: Sequence[HeardReply] = ()) -> tuple[Incident, Report]:
        """The first turn's state and report; what is heard meanwhile waits for the next."""
        self._called_by(first)
        report = await self._turn(first, meanwhile)
        await self._new_cards()
        return self._state, report

    async def say(self, reply: ThreadReply, attachments: tuple[Attachment, ...] = ()) -> list[ToldReply]:
        """What became of one more message, which comes when everything before it was answered."""
        self.wait()
        return await self._answered([self._heard(reply, attachments)])

    async def state_of(self, incident: str) -> Incident:
        """As its last turn left it."""
        return self._state

    async def course_of(self, incident: str) -> Course | None:
        """How it went up to its last turn; None before the first."""
        return self._course

    async def hear(self, item: Item) -> Report:
        """The turn of something that nobody said: news about a fix."""
        return await self._turn(item, ())

    def _called_by(self, first: Item) -> None:
        self._incident = first.incident
        if opening := _OPENS.match(first.text):  # whom the first message calls is who answers it
            self._last.us = NAMES | {opening["id"].casefold()}

    async def _answered(self, heard: Sequence[HeardReply], meanwhile: Sequence[HeardReply] = ()) -> list[ToldReply]:
        told: list[ToldReply] = []
        for one in heard:
            if one.item is None:
                told.append(ToldReply(one.reply, one.intent))
                continue
            report = await self._turn(one.item, meanwhile)
            guessed = (self._state.get("turn") or {}).get("said")
            intent = Said.model_validate(guessed).intent if guessed else one.intent
            told.append(ToldReply(one.reply, intent, tuple(self._ran), answer_of(report), await self._new_cards(), report))
        return told

    async def _turn(self, item: Item, meanwhile: Sequence[HeardReply]) -> Report:
        self._ran.clear()
        self._coming = [one.item for one in meanwhile if one.item]
        self._inbox = [waiting for waiting in self._inbox if waiting.id != item.id]
        self._state, report = await self._turns.run(item, self.origin)
        self._course = course_after(self._state, self._course, self.world.ports.clock.now())
        self._inbox, self._coming = [*self._inbox, *self._coming], []
        self._last.spoke(report)
        return report

    def _heard(self, reply: ThreadReply, attachments: tuple[Attachment, ...] = ()) -> HeardReply:
        """The reply as it is understood, and as an inbox item; none of our business is no item. A file is always our business."""
        ports, now = self.world.ports, self.world.ports.clock.now()
        said = read(
            without_us(reply.text, self._last.us), vocabulary(ports.inventory, ports.taxonomy, ports.fleet.checks, self.origin), now
        )
        what = heed(said, self._last.heard(reply, self._state, now))
        said = as_answer(said) if what is Heed.TAKE else said
        if what is Heed.SILENCE and not attachments:
            return HeardReply(reply, said.intent)
        self._messages += 1
        return HeardReply(
            reply,
            said.intent,
            Item(
                id=f"terminal-{self._messages + 1}",
                kind=said.kind,
                incident=self._incident,
                at=now,
                user=reply.by,
                text=said.text,
                data=said.data(),
                attachments=attachments,
            ),
        )

    async def _peek(self, incident: str) -> Sequence[Item]:
        return self._inbox

    async def _progress(self, progress: Progress) -> None:
        """Whoever speaks while it looks speaks when the first host has answered."""
        self._ran += [progress.ran] if progress.ran else []
        if progress.stage == "execute" and self._coming:
            self._inbox, self._coming = [*self._inbox, *self._coming], []
        await self.watch(progress)

    async def _new_cards(self) -> tuple[Mapping[str, Any], ...]:
        """Decisions that are asked for now and were not before."""
        case = await read_case(self._state, self.world.ports)
        yard = yard_of(case, self.world.ports)
        asked = [row for row in case.ladders if row.open and row.waiting_for == "approval" and row.approval not in self._known_cards]
        self._known_cards |= {row.approval for row in asked}
        actions = [action for row in asked if (action := planned(row, yard))]
        return tuple(
            {"remedy": one.remedy, "target": one.target, "via": one.via, "args": dict(one.args), "risk": one.risk, "digest": one.digest}
            for one in actions
        )


def _by_turn(replies: Sequence[ThreadReply]) -> Iterable[list[ThreadReply]]:
    """Those that come while the first turn looks, then each other reply with those that come while its turn looks."""
    group: list[ThreadReply] = []
    for reply in replies:
        if not reply.while_looking:
            yield group
            group = []
        group.append(reply)
    yield group


def ids_of_us(text: str) -> frozenset[str]:
    """The ids under which a text mentions us: those that hold our name, or stand beside it."""
    found = ((row["id"].casefold(), (row["name"] or "").casefold()) for row in _MENTION.finditer(text))
    return frozenset(name for name, shown in found if _RACKMED in name or shown in NAMES)


def without_us(text: str, us: Collection[str] = NAMES) -> str:
    """The text without our own name where it only calls us: at the beginning or at the end."""
    ours = frozenset(us) | ids_of_us(text)
    words = _MENTION.sub(lambda found: f" @{found['id']} " if found["id"].casefold() in ours else found[0], text).strip().split(" ")
    calls = {*ours, ""}
    first = next((at for at, word in enumerate(words) if word.strip("@,:!").casefold() not in calls), len(words) - 1)
    words = words[first:]
    while len(words) > 1 and (words[-1].startswith("@") or not words[-1]) and words[-1].strip("@,:!?.").casefold() in calls:
        words.pop()
    return " ".join(words)


def answer_of(report: Report) -> str:
    """What a turn says in the thread."""
    guide = lines_of(report.guide, GUIDE) if report.guide and report.guide.called else []
    return report.reply or "\n".join(filter(None, (report.changed, report.headline, *guide, *report.questions)))
