"""Approvals in a terminal, over a simulated cluster only. Speakers are not authenticated.

Ledger, policy and runner are those of Slack.
"""

import asyncio
import contextlib
import re
import shlex
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bot.app.diagnosis_runtime import DiagnosisRuntime, IncidentCallbacks
from bot.cards.text import format_utc_time
from bot.cli.local_thread import LocalThread, format_turn_answer
from bot.incidents.dispatch.wakeups import ignore_wakeup
from bot.policy.approvals import ApprovalRights
from bot.policy.channels import Person
from bot.refusal import Refusal
from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runtime import ActionDependencies, ActionRuntime, open_action_runtime
from bot.remediation.approval_decisions import DecisionLookup
from bot.remediation.cards import action_text
from bot.remediation.cards.card_parts import format_approval_count
from bot.settings import Settings
from bot.store.open_ledger import open_ledger
from bot.store.store import open_store
from graph.state import InboxItem, IncidentState, Origin
from kb.redact import show_invisible
from tools.inventory.host_ranges import fold_host_names
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord, list_targets
from tools.ledger.refusals import Refused
from tools.ledger.states import OPEN_STATES, State

if TYPE_CHECKING:
    from deploy.sandbox.cluster.access.case_run import CaseRun

SIMULATED_TEAM_ID = "T0RACK"  # the simulated workspace
POLL_REAL_SECONDS = 0.02  # real time for a simulated process to advance while one second passes on the case's clock
MAX_STEPS_PER_LINE = 500  # actions and turns per typed line; only a bug reaches it
MAX_DECISION_LINE_CHARS = 600
MAX_CLOCK_ADVANCE = timedelta(hours=24)
SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600}
_SPEAKER_PATTERN = re.compile(r"@(?P<who>[A-Za-z][\w.-]{0,30})[:,]?\s+(?P<text>.*)", re.DOTALL)
_DECISION_PATTERN = re.compile(r"(?P<verdict>approve|reject)\s+(?P<number>\d{1,3})(?:\s+(?P<why>.{1,500}))?", re.IGNORECASE | re.DOTALL)
_DURATION_PATTERN = re.compile(r"(?P<number>\d{1,5})\s*(?P<unit>[smh])")


@dataclass(frozen=True, slots=True)
class TypedDecision:
    verdict: Literal["approve", "deny"]
    number: int
    why: str = ""


def parse_decision(line: str) -> TypedDecision | None:
    """Parse `approve 1` or `reject 1 WHY`. An approval with text is none: it might be conditional."""
    match = _DECISION_PATTERN.fullmatch(line.strip()) if len(line) < MAX_DECISION_LINE_CHARS else None
    if match is None:
        return None
    number, reason = int(match["number"]), (match["why"] or "").strip()
    if match["verdict"].lower() == "reject":
        return TypedDecision("deny", number, reason)
    return None if reason else TypedDecision("approve", number)


def parse_speaker(line: str) -> tuple[str, str]:
    """Return (name, text) of `@NAME text`, else ("", line)."""
    match = _SPEAKER_PATTERN.fullmatch(line)
    return (match["who"].lower(), match["text"]) if match else ("", line)


def parse_duration(text: str) -> float:
    """Return seconds of `90s`, `30m`, `2h`."""
    match = _DURATION_PATTERN.fullmatch(text.strip())
    seconds = int(match["number"]) * SECONDS_PER_UNIT[match["unit"]] if match else 0
    if not 0 < seconds <= MAX_CLOCK_ADVANCE.total_seconds():
        raise Refusal("say how long: /wait 30m, /wait 2h, a day at most", 2)
    return float(seconds)


@dataclass(frozen=True, slots=True)
class SimulatedPeople:
    """Users of the simulated workspace; names are ids."""

    known: Mapping[str, Person]
    may: tuple[str, ...]  # names of the approvers

    async def get_person(self, user: str) -> Person:
        """Return an empty id for unknown users, which the policy refuses."""
        return self.known.get(user, Person("", ""))

    async def list_approvers(self, group: str, team: str) -> frozenset[str]:
        return frozenset()

    async def list_members(self, group: str) -> frozenset[str]:
        return frozenset()

    def refresh(self, *about: str) -> None: ...


def load_simulated_people() -> SimulatedPeople:
    from deploy.sandbox.slack.workspace.people import create_users

    rows = [user for user in create_users() if not user.is_bot]
    human = {user.name: user.team_id == SIMULATED_TEAM_ID and not (user.is_restricted or user.deleted) for user in rows}
    people = {user.name: Person(user.name, user.team_id, user.name, human[user.name]) for user in rows}
    return SimulatedPeople(people, tuple(user.name for user in rows if user.role == "approver"))


@dataclass(slots=True)
class InMemoryInbox:
    """Inbox of the one incident, until its turn takes the items."""

    where: Origin
    _items: deque[InboxItem] = field(default_factory=deque)
    _keys: set[str] = field(default_factory=set)

    async def enqueue(self, item: InboxItem, dedupe_key: str) -> bool:
        new = dedupe_key not in self._keys
        self._keys.add(dedupe_key)
        self._items.extend([item] if new else [])
        return new

    async def list_waiting(self, incident: str) -> list[InboxItem]:
        return list(self._items)

    async def get_origin(self, incident: str) -> Origin | None:
        return self.where

    async def list_drained_incidents(self) -> list[str]:
        return []

    def pop_next_item(self) -> InboxItem | None:
        return self._items.popleft() if self._items else None


@dataclass(slots=True)
class QueuedWakeups:
    """Wakeups that wait for `run_until_idle`: nothing runs in the background."""

    names: dict[str, None] = field(default_factory=dict)

    async def wake(self, incident: str) -> None:
        self.names[incident] = None

    async def start(self, advance: Callable[[str], Awaitable[None]]) -> None: ...

    async def aclose(self) -> None: ...

    def pop_next_incident(self) -> str | None:
        name = next(iter(self.names), None)
        if name is not None:
            del self.names[name]
        return name


@dataclass(slots=True)
class TerminalApprovalCards:
    """Approval cards as numbered lines, kept until printed."""

    may: tuple[str, ...]
    shown: list[tuple[str, str]] = field(default_factory=list)  # (approval, digest as shown), by number
    lines: list[str] = field(default_factory=list)

    async def post_approval_card(self, record: ActionRecord, incident_state: IncidentState) -> None:
        if record.approval not in [approval for approval, _ in self.shown]:
            self.shown.append((record.approval, record.digest))
        self.lines += _render_card_lines(self.find_card_number(record), record, self.may)

    async def update_card(self, record: ActionRecord) -> None:
        if record.state in OPEN_STATES or record.state is State.EXECUTING:
            self._append_line(record, f"{action_text.format_headline(record)} · {format_approval_count(record)}")

    async def post_outcome(self, record: ActionRecord) -> None:
        self._append_line(
            record,
            " ".join(
                filter(
                    None, (f"{action_text.format_headline(record)}.", action_text.describe_outcome(record) or show_invisible(record.says))
                )
            ),
        )

    async def list_known_rows(self, record: ActionRecord) -> Sequence[tuple[str, str]]:
        return ()

    async def post_reminder(self, record: ActionRecord) -> None:
        self._append_line(
            record, f"still waiting for approval until {format_utc_time(record.decide_by)}: {action_text.format_headline(record)}"
        )

    async def show_wait_reason(self, record: ActionRecord, reason: str) -> None:
        self._append_line(record, f"waits: {show_invisible(reason)}")

    async def show_contact_state(self, record: ActionRecord, says: str) -> None:
        self._append_line(record, show_invisible(says) or f"{record.action.via} answers again")

    def find_card_number(self, record: ActionRecord) -> int:
        """Return the number; 0 if never shown."""
        return next((at for at, (approval, _) in enumerate(self.shown, 1) if approval == record.approval), 0)

    def drain_lines(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines

    def _append_line(self, record: ActionRecord, text: str) -> None:
        self.lines.append(f"[{self.find_card_number(record)}] {text}")


def _render_card_lines(number: int, record: ActionRecord, may: Sequence[str]) -> list[str]:
    action = record.action
    hold = "; ".join(filter(None, (action_text.describe_fault_briefly(action), *(condition.says for condition in action.conditions))))
    place = f"{fold_host_names(list_targets(action))}, via {action.via}" if action.via != action.target else action.target
    return [
        f"[{number}] {action_text.format_headline(record)}",
        f"    on {place}: {shlex.join(action.command)}",
        *([f"    re-checked before running: {show_invisible(hold)}"] if hold else []),
        f"    {action_text.describe_blast_radius(action)} · proof: {action_text.describe_proof(action)} · undo: {action_text.describe_undo(action)}",
        f"    {format_approval_count(record)} · decide by {format_utc_time(record.decide_by)} · digest {record.digest}",
        f"    say `@{may[0]} approve {number}` or `@{may[0]} reject {number} WHY`; {' and '.join(f'@{name}' for name in may)} may",
    ]


@dataclass(slots=True)
class ApprovalSession:
    """A thread whose remediations can be decided."""

    thread: LocalThread
    people: SimulatedPeople
    cards: TerminalApprovalCards
    action_runtime: ActionRuntime
    ledger: Ledger
    inbox: InMemoryInbox
    wakeups: QueuedWakeups
    stage: "CaseRun"
    incident: str = ""
    _votes: int = 0

    async def cast_vote(self, decision: TypedDecision, who: str) -> None:
        """Count a vote and run what follows."""
        if who not in self.people.known:
            verb = "approve" if decision.verdict == "approve" else "reject"
            choices = " or ".join(f"@{name} {verb} {decision.number}" for name in self.people.may)
            raise Refusal(f"there is no {who!r} here; say who decides: {choices}")
        if not 0 < decision.number <= len(self.cards.shown):
            raise Refusal(f"there is no [{decision.number}]; {self._format_open_cards()}")
        if decision.verdict == "deny" and not decision.why:
            raise Refusal(f"say why: @{who} reject {decision.number} the node is wanted tonight")
        approval, digest = self.cards.shown[decision.number - 1]
        self._votes += 1
        vote = self.action_runtime.decisions.cast_vote
        try:
            await vote(
                approval, digest, f"{SIMULATED_TEAM_ID}:{who}", decision.verdict, delivery=f"terminal-{self._votes}", reason=decision.why
            )
        except Refused as error:
            raise Refusal(str(error)) from error
        await self.run_until_idle()

    async def advance_clock(self, seconds: float) -> None:
        self.stage.wait(seconds)
        await self.run_until_idle()

    async def run_until_idle(self) -> None:
        actions = self.action_runtime.actions
        assert actions is not None  # the runtime was opened with works=True
        await self._reconcile_remediations()
        await actions.wake_due()
        for _ in range(MAX_STEPS_PER_LINE):
            if name := self.wakeups.pop_next_incident():
                await actions.handle_wakeup(name)
            elif item := self.inbox.pop_next_item():
                turn_answer = format_turn_answer(await self.thread.handle_item(item))
                self.cards.lines += [show_invisible(turn_answer)] if turn_answer else []
                await self._reconcile_remediations()
            else:
                return

    async def _reconcile_remediations(self) -> None:
        if self.action_runtime.actions and (await self.thread.get_state(self.incident)).get("ladders"):
            await self.action_runtime.actions.schedule_incident(self.incident)

    async def list_decisions(self) -> list[dict[str, Any]]:
        records = [await self.ledger.get_record(approval) for approval, _ in self.cards.shown]
        return [_build_decision_row(number, record) for number, record in enumerate(records, 1)]

    def _format_open_cards(self) -> str:
        shown_cards = len(self.cards.shown)
        if not shown_cards:
            return "nothing is waiting for approval"
        return "there is [1]" if shown_cards == 1 else f"there are [1] to [{shown_cards}]"


def _build_decision_row(number: int, record: ActionRecord) -> dict[str, Any]:
    action = record.action
    return {
        "number": number,
        "approval": record.approval,
        "remedy": action.remedy,
        "target": action.target,
        "via": action.via,
        "risk": action.risk,
        "digest": record.digest,
        "quorum": record.terms.quorum,
        "state": record.state.value,
        "outcome": record.outcome,
        "votes": [{"by": vote.voter.rpartition(":")[2], "verdict": vote.verdict} for vote in record.votes],
    }


@contextlib.asynccontextmanager
async def open_approval_session(
    settings: Settings, runtime: DiagnosisRuntime, stage: "CaseRun", incident: str, wait: Callable[[], None]
) -> AsyncIterator[ApprovalSession]:
    """Open a thread over a case; its ledger is discarded at the end."""
    people = load_simulated_people()
    origin = Origin(kind="terminal", team=SIMULATED_TEAM_ID)
    with tempfile.TemporaryDirectory(prefix="rackmedic-chat-") as folder:
        own = settings.model_copy(update={"data_dir": Path(folder), "allow_non_durable_ledger": True, "approvers": people.may})
        async with contextlib.aclosing(await open_store(None, None)) as store:
            inventory, clock = runtime.services.inventory, runtime.services.clock
            inbox, wakeups, cards = InMemoryInbox(origin), QueuedWakeups(), TerminalApprovalCards(people.may)
            ledger = await open_ledger(own, store, inventory, clock)
            rights = ApprovalRights(people, inventory, own.approvers, inbox.get_origin)
            index = ActionIndex(store.redis, clock)
            lookups = IncidentCallbacks(decisions=DecisionLookup(ledger, rights), treated=index.list_treatments)
            thread = LocalThread(runtime, wait, origin=origin, callbacks=lookups)
            needs = ActionDependencies(
                own,
                store,
                runtime.transport,
                thread.graph_context,
                ledger,
                rights,
                cards,
                thread.get_state,
                inbox,
                wake=ignore_wakeup,  # `run_until_idle` takes the inbox items
                wakeups=wakeups,
                pause=partial(_advance_stage_clock, stage),
            )
            async with open_action_runtime(needs) as action_runtime:
                yield ApprovalSession(thread, people, cards, action_runtime, ledger, inbox, wakeups, stage, incident)


async def _advance_stage_clock(stage: "CaseRun", seconds: float) -> None:
    stage.wait(seconds)
    await asyncio.sleep(POLL_REAL_SECONDS)
