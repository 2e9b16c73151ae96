"""Remedies decided in a terminal, over the simulated cluster of a case and nowhere else. Who speaks is named and not proved; all else is as in Slack: the same
ledger counts, the same policy says who may, the same driver runs and proves. Only the cards are lines, with a number to decide by."""

import asyncio
import contextlib
import re
import shlex
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bot.actions.due import ActionIndex
from bot.actions.open_decisions import OpenDecisions
from bot.cards.approvals import words
from bot.cards.approvals.parts import count
from bot.cards.text import utc
from bot.policy.channels import Person
from bot.refusal import Refusal
from bot.run.actions import Acting, ActingNeeds, open_actions
from bot.run.world import World
from bot.settings import Settings
from bot.store.store import open_store
from bot.terminal.conversation import PlayedThread, answer_of
from graph.state import Incident, Item, Origin
from kb.redact import visible
from tools.inventory.ranges import fold
from tools.ledger.record import Record, Refused, targets_of
from tools.ledger.states import OPEN, State

if TYPE_CHECKING:
    from deploy.sandbox.cluster.doors.stage import Stage

TEAM = "T0RACK"
"""The simulated workspace whose people may be named."""
GLANCE = 0.02
"""Real seconds in which a process of the simulated node gets on with it, while a second passes by the case's clock."""
MOST_STEPS = 500
"""What one line may set going, in actions driven and turns taken; only ever met by a bug."""
LONGEST_LINE = 600
"""Characters of one that may decide something."""
LONGEST_WAIT = timedelta(hours=24)
UNITS = {"s": 1, "m": 60, "h": 3600}
_SPEAKS = re.compile(r"@(?P<who>[A-Za-z][\w.-]{0,30})[:,]?\s+(?P<text>.*)", re.DOTALL)
_DECIDES = re.compile(r"(?P<verdict>approve|reject)\s+(?P<number>\d{1,3})(?:\s+(?P<why>.{1,500}))?", re.IGNORECASE | re.DOTALL)
_SPAN = re.compile(r"(?P<number>\d{1,5})\s*(?P<unit>[smh])")


@dataclass(frozen=True, slots=True)
class TypedDecision:
    """What a line decides: which card, how, and why."""

    verdict: Literal["approve", "deny"]
    number: int
    why: str = ""


def read_decision(line: str) -> TypedDecision | None:
    """`approve 1` or `reject 1 WHY`; None for what decides nothing. An approval with words behind it is none: it might hang on them."""
    found = _DECIDES.fullmatch(line.strip()) if len(line) < LONGEST_LINE else None
    if found is None:
        return None
    number, why = int(found["number"]), (found["why"] or "").strip()
    if found["verdict"].lower() == "reject":
        return TypedDecision("deny", number, why)
    return None if why else TypedDecision("approve", number)


def read_speaker(line: str) -> tuple[str, str]:
    """Who says it and what, where a line begins with `@NAME`; else nobody and the line."""
    found = _SPEAKS.fullmatch(line)
    return (found["who"].lower(), found["text"]) if found else ("", line)


def read_span(text: str) -> float:
    """Seconds of `90s`, `30m`, `2h`. Raises Refusal."""
    found = _SPAN.fullmatch(text.strip())
    seconds = int(found["number"]) * UNITS[found["unit"]] if found else 0
    if not 0 < seconds <= LONGEST_WAIT.total_seconds():
        raise Refusal("say how long: /wait 30m, /wait 2h, a day at most", 2)
    return float(seconds)


@dataclass(frozen=True, slots=True)
class SimulatedPeople:
    """The simulated workspace's people as the policy asks for them (`bot.policy.approvals.Directory`). Their names are their ids."""

    known: Mapping[str, Person]
    may: tuple[str, ...]
    """Names of the approvers, as the settings would give them."""

    async def person(self, user: str) -> Person:
        """Nobody's id is empty, so that who is not there is refused."""
        return self.known.get(user, Person("", ""))

    async def approvers(self, group: str, team: str) -> frozenset[str]:
        """There are no user groups here."""
        return frozenset()

    async def members(self, group: str) -> frozenset[str]:
        """There are no user groups here."""
        return frozenset()

    def refresh(self, *about: str) -> None:
        """Nobody comes and nobody goes."""


def simulated_people() -> SimulatedPeople:
    """Those of the sandbox's Slack: on call, approvers, a customer, a guest, one who left. The sandbox is there: a case was opened."""
    from deploy.sandbox.slack.workspace.people import cast

    rows = [user for user in cast() if not user.is_bot]
    human = {user.name: user.team_id == TEAM and not (user.is_restricted or user.deleted) for user in rows}
    known = {user.name: Person(user.name, user.team_id, user.name, human[user.name]) for user in rows}
    return SimulatedPeople(known, tuple(user.name for user in rows if user.role == "approver"))


@dataclass(slots=True)
class IncidentInbox:
    """What acting has to tell the incident, until its turn is taken."""

    where: Origin
    _items: deque[Item] = field(default_factory=deque)
    _keys: set[str] = field(default_factory=set)

    async def enqueue(self, item: Item, dedupe_key: str) -> bool:
        """Once for each key."""
        new = dedupe_key not in self._keys
        self._keys.add(dedupe_key)
        self._items.extend([item] if new else [])
        return new

    async def peek(self, incident: str) -> list[Item]:
        """There is one incident here."""
        return list(self._items)

    async def origin(self, incident: str) -> Origin | None:
        """In this terminal."""
        return self.where

    async def held_incidents(self) -> list[str]:
        """It begins with nothing held."""
        return []

    def take(self) -> Item | None:
        """The next, whose turn is now."""
        return self._items.popleft() if self._items else None


@dataclass(slots=True)
class WakeupsInTurn:
    """Who is woken waits until somebody sees to it: nothing happens behind the back of whoever types."""

    names: dict[str, None] = field(default_factory=dict)

    async def wake(self, incident: str) -> None:
        """Once, however often it is woken meanwhile."""
        self.names[incident] = None

    async def start(self, advance: Callable[[str], Awaitable[None]]) -> None:
        """`Approving.settle` calls for itself."""

    async def aclose(self) -> None:
        """Nothing runs by itself."""

    def take(self) -> str | None:
        """The first that was woken."""
        name = next(iter(self.names), None)
        if name is not None:
            del self.names[name]
        return name


@dataclass(slots=True)
class CardLines:
    """The cards (`bot.actions.driver.Show`): a number for each action, and the lines that tell of it until they are printed."""

    may: tuple[str, ...]
    shown: list[tuple[str, str]] = field(default_factory=list)
    """(approval, digest as it was shown), by number."""
    lines: list[str] = field(default_factory=list)

    async def approval(self, record: Record, incident_state: Incident) -> None:
        """A decision is wanted."""
        if record.approval not in [approval for approval, _ in self.shown]:
            self.shown.append((record.approval, record.digest))
        self.lines += _card(self.number(record), record, self.may)

    async def changed(self, record: Record) -> None:
        """A vote was counted, or it runs."""
        if record.state in OPEN or record.state is State.EXECUTING:
            self._say(record, f"{words.headline(record)} · {count(record)}")

    async def outcome(self, record: Record) -> None:
        """How it ended, and what the proof says."""
        self._say(record, " ".join(filter(None, (f"{words.headline(record)}.", words.proved(record) or visible(record.says)))))

    async def known(self, record: Record) -> Sequence[tuple[str, str]]:
        """Nothing is stored with a card of the terminal."""
        return ()

    async def remind(self, record: Record) -> None:
        """Time is nearly over."""
        self._say(record, f"still to be decided until {utc(record.decide_by)}: {words.headline(record)}")

    async def held(self, record: Record, why: str) -> None:
        """Approved, and not started yet."""
        self._say(record, f"waits: {visible(why)}")

    async def contact(self, record: Record, says: str) -> None:
        """Its host does not answer, or does again."""
        self._say(record, visible(says) or f"{record.action.via} answers again")

    def number(self, record: Record) -> int:
        """By which people decide it; 0 for one that was never shown."""
        return next((at for at, (approval, _) in enumerate(self.shown, 1) if approval == record.approval), 0)

    def told(self) -> list[str]:
        """What was not printed yet."""
        lines, self.lines = self.lines, []
        return lines

    def _say(self, record: Record, text: str) -> None:
        self.lines.append(f"[{self.number(record)}] {text}")


def _card(number: int, record: Record, may: Sequence[str]) -> list[str]:
    """Everything that an approval card says which bears on a decision."""
    action = record.action
    hold = "; ".join(filter(None, (words.still(action), *(condition.says for condition in action.conditions))))
    where = f"{fold(targets_of(action))}, via {action.via}" if action.via != action.target else action.target
    return [
        f"[{number}] {words.headline(record)}",
        f"    on {where}: {shlex.join(action.command)}",
        *([f"    must still hold: {visible(hold)}"] if hold else []),
        f"    {words.blast(action)} · proof: {words.proof(action)} · undo: {words.undo(action)}",
        f"    {count(record)} · decide until {utc(record.decide_by)} · digest {record.digest}",
        f"    say `@{may[0]} approve {number}` or `@{may[0]} reject {number} WHY`; {' and '.join(f'@{name}' for name in may)} may",
    ]


@dataclass(slots=True)
class Approving:
    """A thread whose fixes can be decided."""

    thread: PlayedThread
    people: SimulatedPeople
    cards: CardLines
    acting: Acting
    inbox: IncidentInbox
    wakeups: WakeupsInTurn
    stage: "Stage"
    incident: str = ""
    _votes: int = 0

    async def decide(self, decision: TypedDecision, who: str) -> None:
        """Count one person's word, and let come what comes of it. Raises Refusal with what the ledger or the policy says against it."""
        if who not in self.people.known:
            verb = "approve" if decision.verdict == "approve" else "reject"
            named = " or ".join(f"@{name} {verb} {decision.number}" for name in self.people.may)
            raise Refusal(f"there is no {who!r} here; say who decides: {named}")
        if not 0 < decision.number <= len(self.cards.shown):
            raise Refusal(f"there is no [{decision.number}]; {self._choices()}")
        if decision.verdict == "deny" and not decision.why:
            raise Refusal(f"say why: @{who} reject {decision.number} the node is wanted tonight")
        approval, digest = self.cards.shown[decision.number - 1]
        self._votes += 1
        vote = self.acting.decisions.vote
        try:
            await vote(approval, digest, f"{TEAM}:{who}", decision.verdict, delivery=f"terminal-{self._votes}", reason=decision.why)
        except Refused as why:
            raise Refusal(str(why)) from why
        await self.settle()

    async def pass_time(self, seconds: float) -> None:
        """Let the case's clock go on, and let come what comes by then."""
        self.stage.wait(seconds)
        await self.settle()

    async def settle(self) -> None:
        """Until nothing is left that could go on now."""
        actions = self.acting.actions
        assert actions is not None  # it was opened to work
        await self._note()
        await actions.sweep()
        for _ in range(MOST_STEPS):
            if name := self.wakeups.take():
                await actions.advance(name)
            elif item := self.inbox.take():
                said = answer_of(await self.thread.hear(item))
                self.cards.lines += [visible(said)] if said else []
                await self._note()
            else:
                return

    async def _note(self) -> None:
        """After a turn its ladders are looked after, as the desk's board has it done."""
        if self.acting.actions and (await self.thread.state_of(self.incident)).get("ladders"):
            await self.acting.actions.note(self.incident)

    async def rows(self) -> list[dict[str, Any]]:
        """Every decision that was asked for, for scripts."""
        records = [await self.acting.ledger.record(approval) for approval, _ in self.cards.shown]
        return [_row(number, record) for number, record in enumerate(records, 1)]

    def _choices(self) -> str:
        shown = len(self.cards.shown)
        return "nothing is up for decision" if not shown else "there is [1]" if shown == 1 else f"there are [1] to [{shown}]"


def _row(number: int, record: Record) -> dict[str, Any]:
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
async def approving(settings: Settings, world: World, stage: "Stage", incident: str, wait: Callable[[], None]) -> AsyncIterator[Approving]:
    """A thread over a case with the acting half under it, on a ledger that ends with the conversation."""
    people, decided = simulated_people(), OpenDecisions()
    where = Origin(kind="terminal", team=TEAM)
    with tempfile.TemporaryDirectory(prefix="rackmedic-chat-") as folder:
        own = settings.model_copy(update={"data_dir": Path(folder), "accept_forgetful_ledger": True, "approvers": people.may})
        async with contextlib.aclosing(await open_store(None, None)) as store:
            index = ActionIndex(store.redis, world.ports.clock)
            ports = replace(world.ports, decisions=decided, treated=index.treated)
            thread = PlayedThread(replace(world, ports=ports), wait, origin=where)
            inbox, wakeups, cards = IncidentInbox(where), WakeupsInTurn(), CardLines(people.may)
            needs = ActingNeeds(
                own,
                store,
                world.transport,
                ports,
                state_of=thread.state_of,
                inbox=inbox,
                people=people,
                show=lambda ledger, rights, warning: cards,
                wake=nobody_else_waits,
                wakeups=wakeups,
                pause=partial(_second, stage),
            )
            async with open_actions(needs) as acting:
                decided.reads(acting.ledger, acting.rights)
                yield Approving(thread, people, cards, acting, inbox, wakeups, stage, incident)


async def nobody_else_waits(name: str) -> None:
    """What is in the inbox is taken by `settle`, in its turn."""


async def _second(stage: "Stage", seconds: float) -> None:
    """Time between two looks at something that runs."""
    stage.wait(seconds)
    await asyncio.sleep(GLANCE)
