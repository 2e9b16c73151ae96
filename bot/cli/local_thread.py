"""A thread without Slack, each message one turn of the same graph. Approves nothing."""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.app.diagnosis_runtime import DiagnosisRuntime, IncidentCallbacks
from bot.cli.replies import ThreadReply
from bot.incidents.dispatch.metrics import IncidentMetrics, update_metrics
from graph.context import GraphContext, Progress
from graph.dialogue.addressed import (
    Addressing,
    PreviousSpeaker,
    ThreadSituation,
    apply_addressing,
    classify_addressing,
    find_call,
    is_mentioned,
)
from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from graph.dialogue.said import ParsedMessage
from graph.guide_rendering import render_guide_summary
from graph.incident.context import load_incident_context
from graph.incident.incident_graph import EphemeralTurns
from graph.incident.remediations import build_plan_context
from graph.incident.visibility import build_vocabulary
from graph.incident_view import IncidentView
from graph.remediation.proposals import build_planned_action
from graph.report import Report
from graph.state import Attachment, InboxItem, IncidentState, Origin

TERMINAL_ORIGIN = Origin(kind="terminal")
BOT_NAMES = frozenset({"rackmedic"})  # names that address the bot
MAX_GUIDE_LINES = 8  # lines of a guide's steps in an answer
_BOT_NAME_STEM = "rackmed"
# Slack's format; without a workspace the bot's own id is unknown
_MENTION_PATTERN = re.compile(r"<@(?P<id>[A-Z0-9]{1,20})(?:\|(?P<name>[^<>\n]{0,80}))?>")
_OPENING_MENTION_PATTERN = re.compile(rf"\s{{0,20}}{_MENTION_PATTERN.pattern}")
BOT_SPEAKER = "-"  # marks the bot as last speaker


@dataclass(frozen=True, slots=True)
class ReplyOutcome:
    """Result of a reply. Empty `answer`: silence; `ran`: (host, check); `cards`: approval requests."""

    reply: ThreadReply
    intent: Intent
    ran: tuple[tuple[str, str], ...] = ()
    answer: str = ""
    cards: tuple[Mapping[str, Any], ...] = ()
    brings: Report | None = None  # the report, for files beside the answer

    def to_json_row(self) -> dict[str, Any]:
        ran_checks = [{"host": host, "check": check} for host, check in self.ran]
        return {"text": self.reply.text, "intent": self.intent.value, "ran": ran_checks, "answer": self.answer, "cards": list(self.cards)}


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A parsed reply; no `item` if it does not address the bot."""

    reply: ThreadReply
    intent: Intent
    item: InboxItem | None = None


@dataclass(slots=True)
class ThreadSpeakers:
    by: str = ""
    asked: bool = False  # the bot's question is open
    question: bool = False
    speakers: set[str] = field(default_factory=set)
    us: frozenset[str] = BOT_NAMES  # the bot's names in this thread

    def _get_previous_speaker(self, speaker: str) -> PreviousSpeaker:
        if self.by == BOT_SPEAKER:
            return "us"
        if self.by == speaker:
            return "self"
        return "person" if self.by else "nobody"

    def record_reply(self, reply: ThreadReply, state: IncidentState, now: datetime) -> ThreadSituation:
        rows = IncidentView(state)
        us = self.us | find_bot_ids(reply.text)
        situation = ThreadSituation(
            mentioned=is_mentioned(reply.text, us),
            called=find_call(reply.text, us, self.speakers - {reply.by}),
            follows=self._get_previous_speaker(reply.by),
            after_question=self.question,
            asked=self.asked and self.by in (BOT_SPEAKER, reply.by),
            paused=rows.quiet_until is not None and rows.quiet_until > now,
            closed=rows.lifecycle == "closed",
            alone=not self.speakers - {reply.by},
        )
        self.asked = situation.asked
        self.by = reply.by
        self.question = reply.text.rstrip().endswith("?")
        self.speakers.add(reply.by)
        return situation

    def record_report(self, report: Report) -> None:
        self.by = BOT_SPEAKER
        self.asked = bool(report.questions) and not report.reply
        self.question = self.asked


async def ignore_progress(progress: Progress) -> None: ...


def skip_waiting() -> None: ...


@dataclass(slots=True)
class LocalThread:
    """One incident. `wait` advances a simulated clock between messages."""

    world: DiagnosisRuntime
    wait: Callable[[], None] = skip_waiting
    watch: Callable[[Progress], Awaitable[None]] = ignore_progress
    origin: Origin = TERMINAL_ORIGIN
    callbacks: IncidentCallbacks = field(default_factory=IncidentCallbacks)  # lookups of stored incidents, if there is a store
    _last: ThreadSpeakers = field(default_factory=ThreadSpeakers)
    _inbox: list[InboxItem] = field(default_factory=list)  # messages sent during a turn, unanswered
    _coming: list[InboxItem] = field(default_factory=list)  # messages to deliver once checks run
    _ran: list[tuple[str, str]] = field(default_factory=list)
    _known_cards: set[str] = field(default_factory=set)
    _messages: int = 0
    _incident: str = ""
    _state: IncidentState = field(default_factory=lambda: IncidentState())
    _course: IncidentMetrics | None = None
    graph_context: GraphContext = field(init=False)
    _turns: EphemeralTurns = field(init=False)

    def __post_init__(self) -> None:
        self.graph_context = self.world.services.build_graph_context(
            **(self.callbacks | IncidentCallbacks(progress=self._handle_progress, peek=self._peek_inbox))
        )
        self._turns = EphemeralTurns(self.graph_context)

    async def run_conversation(self, first: InboxItem, replies: Sequence[ThreadReply]) -> tuple[IncidentState, Report, list[ReplyOutcome]]:
        """Return state, report and each reply's outcome."""
        early, *groups = _group_by_turn(replies)
        self._learn_bot_id(first)
        coming = [self._parse_reply(reply) for reply in early]
        state, report = await self.run_first_turn(first, coming)
        outcomes = await self._answer_replies(coming)
        for head, *meanwhile in groups:
            self.wait()
            message = self._parse_reply(head)
            coming = [self._parse_reply(reply) for reply in meanwhile]
            outcomes += [*await self._answer_replies([message], coming), *await self._answer_replies(coming)]
        return state, report, outcomes

    async def run_first_turn(self, first: InboxItem, meanwhile: Sequence[ParsedReply] = ()) -> tuple[IncidentState, Report]:
        """Run the first turn; `meanwhile` waits for the next."""
        self._learn_bot_id(first)
        report = await self._run_turn(first, meanwhile)
        await self._list_new_cards()
        return self._state, report

    async def send_reply(self, reply: ThreadReply, attachments: tuple[Attachment, ...] = ()) -> list[ReplyOutcome]:
        self.wait()
        return await self._answer_replies([self._parse_reply(reply, attachments)])

    async def get_state(self, incident: str) -> IncidentState:
        return self._state

    async def get_metrics(self, incident: str) -> IncidentMetrics | None:
        return self._course

    async def handle_item(self, item: InboxItem) -> Report:
        """Run a turn for an item without author."""
        return await self._run_turn(item, ())

    def _learn_bot_id(self, first: InboxItem) -> None:
        self._incident = first.incident
        if opening := _OPENING_MENTION_PATTERN.match(first.text):  # the id that the first message mentions is the bot's
            self._last.us = BOT_NAMES | {opening["id"].casefold()}

    async def _answer_replies(self, heard: Sequence[ParsedReply], meanwhile: Sequence[ParsedReply] = ()) -> list[ReplyOutcome]:
        outcomes: list[ReplyOutcome] = []
        for reply in heard:
            if reply.item is None:
                outcomes.append(ReplyOutcome(reply.reply, reply.intent))
                continue
            report = await self._run_turn(reply.item, meanwhile)
            guessed = (self._state.get("turn") or {}).get("said")
            intent = ParsedMessage.model_validate(guessed).intent if guessed else reply.intent
            outcomes.append(
                ReplyOutcome(reply.reply, intent, tuple(self._ran), format_turn_answer(report), await self._list_new_cards(), report)
            )
        return outcomes

    async def _run_turn(self, item: InboxItem, meanwhile: Sequence[ParsedReply]) -> Report:
        self._ran.clear()
        self._coming = [one.item for one in meanwhile if one.item]
        self._inbox = [waiting for waiting in self._inbox if waiting.id != item.id]
        self._state, report = await self._turns.run(item, self.origin)
        self._course = update_metrics(self._state, self._course, self.world.services.clock.now())
        self._inbox = [*self._inbox, *self._coming]
        self._coming = []
        self._last.record_report(report)
        return report

    def _parse_reply(self, reply: ThreadReply, attachments: tuple[Attachment, ...] = ()) -> ParsedReply:
        """Parse a reply; a file always addresses the bot."""
        services, now = self.world.services, self.world.services.clock.now()
        message = parse_message(
            strip_bot_mention(reply.text, self._last.us),
            build_vocabulary(services.inventory, services.taxonomy, services.fleet.checks, self.origin),
            now,
        )
        addressing = classify_addressing(message, self._last.record_reply(reply, self._state, now))
        message = apply_addressing(message, addressing)
        if addressing is Addressing.SILENCE and not attachments:
            return ParsedReply(reply, message.intent)
        self._messages += 1
        return ParsedReply(
            reply,
            message.intent,
            InboxItem(
                id=f"terminal-{self._messages + 1}",
                kind=message.kind,
                incident=self._incident,
                at=now,
                user=reply.by,
                text=message.text,
                data=message.build_item_data(),
                attachments=attachments,
            ),
        )

    async def _peek_inbox(self, incident: str) -> Sequence[InboxItem]:
        return self._inbox

    async def _handle_progress(self, progress: Progress) -> None:
        """Deliver messages once the first host has answered."""
        self._ran += [progress.ran] if progress.ran else []
        if progress.stage == "execute" and self._coming:
            self._inbox = [*self._inbox, *self._coming]
            self._coming = []
        await self.watch(progress)

    async def _list_new_cards(self) -> tuple[Mapping[str, Any], ...]:
        case = await load_incident_context(self._state, self.graph_context)
        plan = build_plan_context(case, self.graph_context)
        waiting_remediations = [
            remediation
            for remediation in case.remediations
            if remediation.is_open and remediation.waiting_for == "approval" and remediation.approval not in self._known_cards
        ]
        self._known_cards |= {waiting_remediation.approval for waiting_remediation in waiting_remediations}
        actions = [action for waiting_remediation in waiting_remediations if (action := build_planned_action(waiting_remediation, plan))]
        return tuple(
            {
                "remedy": action.remedy,
                "target": action.target,
                "via": action.via,
                "args": dict(action.args),
                "risk": action.risk,
                "digest": action.digest,
            }
            for action in actions
        )


def _group_by_turn(replies: Sequence[ThreadReply]) -> Iterable[list[ThreadReply]]:
    """Yield replies of the first turn, then each later reply with those during its turn."""
    group: list[ThreadReply] = []
    for reply in replies:
        if not reply.is_during_turn:
            yield group
            group = []
        group.append(reply)
    yield group


def find_bot_ids(text: str) -> frozenset[str]:
    """Return mentioned ids with the bot's name."""
    mentions = ((row["id"].casefold(), (row["name"] or "").casefold()) for row in _MENTION_PATTERN.finditer(text))
    return frozenset(name for name, shown_name in mentions if _BOT_NAME_STEM in name or shown_name in BOT_NAMES)


def strip_bot_mention(text: str, us: Collection[str] = BOT_NAMES) -> str:
    """Remove the bot's name at either end."""
    bot_ids = frozenset(us) | find_bot_ids(text)
    words = (
        _MENTION_PATTERN.sub(lambda found: f" @{found['id']} " if found["id"].casefold() in bot_ids else found[0], text).strip().split(" ")
    )
    calls = {*bot_ids, ""}
    first = next((at for at, word in enumerate(words) if word.strip("@,:!").casefold() not in calls), len(words) - 1)
    words = words[first:]
    while len(words) > 1 and (words[-1].startswith("@") or not words[-1]) and words[-1].strip("@,:!?.").casefold() in calls:
        words.pop()
    return " ".join(words)


def format_turn_answer(report: Report) -> str:
    guide = render_guide_summary(report.guide, MAX_GUIDE_LINES) if report.guide and report.guide.called else []
    return report.reply or "\n".join(filter(None, (report.changed, report.headline, *guide, *report.questions)))
