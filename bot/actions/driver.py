"""Driving one action from where the ledger says it is: to its decision, through its run and proof, to its incident's inbox.

Its own lease keeps two drivers apart, and the ledger's claim does where a lease fails. What became of it is delivered once for each
(approval, state); what people are shown comes after that and may fail without harm.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from redis.exceptions import RedisError

from bot.actions.due import ActionIndex, mends_host
from bot.actions.queue import behind
from bot.desk.lease import Lease, Leases
from bot.policy.approvals import can_still_be_decided
from graph.actions.carry_out import NotNow, StillRunning, claimed_at, ran
from graph.memory.fence import Drained, LostLease
from graph.rows import IncidentRows
from graph.state import Incident, Item
from tools.clock import Clock
from tools.ledger.ledger import Ledger
from tools.ledger.record import NotFound, Record, Refused
from tools.ledger.states import OPEN, TERMINAL, State, Transition

if TYPE_CHECKING:
    from graph.actions.flow import ActionProgress, ActionThreads  # LangGraph: a front end drives nothing, and has none of it

log = structlog.get_logger()
REMIND_BEFORE = timedelta(minutes=5)
RETRY, RETRY_SHOWING = timedelta(seconds=10), timedelta(seconds=30)
KEEP_THREAD = timedelta(days=30)
HOLDS = "drain_node"
"""The remedy by which a node is held: its incident remembers who approved it."""
StateOf = Callable[[str], Awaitable[Incident]]


class Show(Protocol):
    """Where people see actions: cards of one action, in the incident's thread. The ledger's record says what is true; a card only shows it.

    Everything may be asked twice (a crash between showing and noting it) and shows it once: a card is known by its approval id.
    Trouble with Slack is the implementer's to wait out or to raise; nothing is decided here.
    """

    async def approval(self, record: Record, incident_state: Incident) -> None:
        """Post the approval card as a new message that mentions the approver group; once for each approval id."""
        ...

    async def changed(self, record: Record) -> None:
        """The record moved (a vote, approved, running, settled, expired, superseded): bring its card up to date."""
        ...

    async def outcome(self, record: Record) -> None:
        """The proof is in (`record.outcome`), or the action ended without one: say it in the thread, once for each (approval, outcome)."""
        ...

    async def remind(self, record: Record) -> None:
        """The time to decide is nearly over: mention the approver group once more in the thread, once for each approval id."""
        ...

    async def known(self, record: Record) -> Sequence[tuple[str, str]]:
        """Return the names and values that are shown beside the action, such as the files that it deletes."""
        ...

    async def held(self, record: Record, why: str) -> None:
        """Approved, but it cannot start yet (kill switch, busy target, host away …): show `why` on its card. It is tried again by itself."""
        ...

    async def contact(self, record: Record, says: str) -> None:
        """The host of a running action does not answer: show `says` on its card; empty once it answers again."""
        ...


class Post(Protocol):
    """The inbox as the driver needs it."""

    async def enqueue(self, item: Item, dedupe_key: str) -> bool: ...

    async def peek(self, incident: str) -> list[Item]: ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """How results reach their incident: into its inbox, and somebody is woken."""

    inbox: Post
    wake: Callable[[str], Awaitable[None]]
    clock: Clock

    async def waiting(self, incident: str) -> int:
        """How many items have their turns before the next one that is sent."""
        return len(await self.inbox.peek(incident))

    async def send(self, incident: str, key: str, data: dict[str, Any]) -> bool:
        """Once for each key; an item stored before only wakes again."""
        item = Item(
            id=key,
            kind="action_result",
            incident=incident,
            at=self.clock.now(),
            data={k: v for k, v in data.items() if v not in ("", None)},
        )
        new = await self.inbox.enqueue(item, key)
        await self.wake(incident)
        return new


@dataclass(frozen=True, slots=True)
class Driver:
    """`drive` may be called by anybody at any time and any number of times."""

    ledger: Ledger
    threads: "ActionThreads"
    leases: Leases
    index: ActionIndex
    deliver: Delivery
    show: Show
    state_of: StateOf
    name_of: Callable[[str], Awaitable[str]]
    """What people call `TEAM:USER`."""
    clock: Clock
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def drive(self, approval: str) -> None:
        """Bring the action as far as it goes now."""
        lease = await self.leases.take(approval)
        if lease is None:
            await self.index.look_at(approval)
            return
        with structlog.contextvars.bound_contextvars(approval=approval):
            try:
                await lease.guard(self._drive(approval), self.stopping.is_set)
            except (LostLease, Drained, Refused) as why:
                lease.held = not isinstance(why, LostLease)
                log.warning("action.left", why=f"{type(why).__name__}: {why}"[:300])
            finally:
                await _release(lease)

    async def _drive(self, approval: str) -> None:
        mark = await self.index.begin(approval, RETRY)
        try:
            seen = await self.ledger.record(approval)
        except NotFound:
            await self.index.settle(approval, mark, None)
            return
        seen, progress, held = await self._moved(seen)
        if seen.state not in OPEN and seen.state is not State.EXECUTING:
            await self._deliver(seen, progress)
        shown = await self._tell(seen, held)
        at = self._next(seen, shown, IncidentRows(await self.state_of(seen.action.incident)).quiet_until)
        if seen.state in TERMINAL and at is None:
            await self.threads.tidy(approval, KEEP_THREAD)
        await self.index.settle(approval, mark, at)

    async def _moved(self, seen: Record) -> "tuple[Record, ActionProgress, str]":
        """The record after everything that can be done now, the thread's notes, and why it waits where it does."""
        now = self.clock.now()
        due = seen.due()
        if seen.state in OPEN and due is not None and now > due:
            with suppress(Refused):
                await self.ledger.end(seen.approval, Transition.EXPIRE, "rackmedic", _too_late(seen))
            seen = await self.ledger.record(seen.approval)
        if seen.state is State.PENDING:
            await self.threads.wait(seen)
            return seen, {}, ""
        if seen.state is State.EXECUTING and seen.beat_until is not None and now <= seen.beat_until:
            return seen, {}, ""
        progress, held = await self._through(seen)
        return await self.ledger.record(seen.approval), progress, held

    async def _through(self, seen: Record) -> "tuple[ActionProgress, str]":
        """Its claim may make others needless: their cards lose their buttons now, or soon where we die over the claim."""
        needless = await self.ledger.covered(seen) if seen.state is State.APPROVED else []
        for name in needless:
            await self.index.look_at(name, self.clock.now() + RETRY_SHOWING)
        try:
            return await self.threads.go_on(seen), ""
        except NotNow as why:
            log.info("action.not_now", why=str(why))
            return {}, str(why)
        except StillRunning:
            return {}, ""
        finally:
            for name in needless:
                await self.index.look_at(name)

    async def _deliver(self, seen: Record, progress: "ActionProgress") -> None:
        key = f"action:{seen.approval}:{seen.state.value}"
        who = await self.name_of(seen.ended_by) if seen.state in (State.DENIED, State.REVOKED) and seen.ended_by else ""
        by = await self._approved_by(seen) if seen.action.remedy == HOLDS else ""
        result = result_of(seen, progress, self.clock.now(), who) | {"by": by}
        if mends_host(seen):
            await self.index.note_treatment(seen, datetime.fromisoformat(result["since"]))
        if await self.deliver.send(seen.action.incident, key, result):
            log.info("action.result", state=seen.state.value, outcome=seen.outcome, says=seen.says)

    async def _approved_by(self, seen: Record) -> str:
        """The names of those whose word let it run."""
        voters = [vote.voter for vote in seen.votes if vote.verdict == "approve"]
        return " and ".join([await self.name_of(voter) for voter in voters])

    async def _tell(self, seen: Record, held: str) -> bool:
        """Whether people see everything there is to see."""
        try:
            for what, said, show in await self._news(seen, held):
                await show()
                await self.index.tell(seen.approval, what, said)
        except RedisError:
            raise
        except Exception as why:
            log.warning("action.not_shown", error=f"{type(why).__name__}: {why}"[:300])  # whoever shows it may be away; it is tried again
            return False
        return True

    async def _news(self, seen: Record, held: str) -> list[tuple[str, str, Callable[[], Awaitable[None]]]]:
        """What people were not told yet, in order: kind, what it says, how it is shown."""
        told = await self.index.told(seen.approval)
        state = await self.state_of(seen.action.incident)
        over = seen.state not in OPEN and seen.state is not State.EXECUTING
        queued = behind(await self.index.told(seen.action.incident), seen.action.proves, [seen.approval])
        looks, carded, now = f"{seen.state.value} {len(seen.votes)} {seen.outcome}{queued}", "card" in told, self.clock.now()
        known = told.get("changed", told.get("card"))
        reminds = now >= remind_at(seen) and not IncidentRows(state).paused(now)
        rows: list[tuple[str, str, bool, Callable[[], Awaitable[None]]]] = [
            ("card", looks, seen.state in OPEN and not carded, lambda: self.show.approval(seen, state)),
            ("changed", looks, carded and known != looks, lambda: self.show.changed(seen)),
            ("held", held, bool(held), lambda: self.show.held(seen, held)),
            ("remind", "done", reminds and can_still_be_decided(seen, now), lambda: self.show.remind(seen)),
            ("outcome", f"{seen.state.value} {seen.outcome}", over, lambda: self.show.outcome(seen)),
        ]
        return [(what, said, show) for what, said, wanted, show in rows if wanted and told.get(what) != said]

    def _next(self, seen: Record, shown: bool, quiet: datetime | None) -> datetime | None:
        """When to look again; None when nothing is owed. `quiet`: nobody is reminded before."""
        now = self.clock.now()
        times = [] if shown else [now + RETRY_SHOWING]
        match seen.state:
            case State.PENDING:
                reminder, over = max(filter(None, (remind_at(seen), quiet))), seen.decide_by + timedelta(seconds=1)
                times.append(reminder if now < reminder < over else over)
            case State.APPROVED:
                times.append(now + RETRY)
            case State.EXECUTING:
                times.append((seen.beat_until or now) + timedelta(seconds=1))
        return min(times, default=None)


def remind_at(seen: Record) -> datetime:
    """Shortly before the time to decide is over."""
    return seen.decide_by - min(REMIND_BEFORE, (seen.decide_by - seen.proposed_at) / 3)


def result_of(seen: Record, progress: "ActionProgress", now: datetime, who: str = "") -> dict[str, Any]:
    """What the incident hears of an action that is over (or in doubt); `who` ended it, by name."""
    began = seen.state in (State.DONE, State.FAILED, State.UNKNOWN)
    return {
        "event": seen.state.value,
        "approval": seen.approval,
        "remedy": seen.action.remedy,
        "outcome": seen.outcome if began else _why(seen, progress),
        "says": _says(seen, progress, who),
        "ran": ran(seen) or seen.state is State.UNKNOWN,
        "since": (progress.get("since") or claimed_at(seen, now).isoformat()) if ran(seen) or seen.state is State.UNKNOWN else "",
        "facts": progress.get("facts", ""),
        "replaced_by": seen.replaced_by,
    }


def _says(seen: Record, progress: "ActionProgress", who: str) -> str:
    words = progress.get("says") if seen.state is State.DONE else ""
    return f"{words or seen.says}{f' ({who})' if who else ''}"


def _why(seen: Record, progress: "ActionProgress") -> str:
    """Why it was superseded, as a word for the ladder."""
    if seen.state is not State.SUPERSEDED:
        return ""
    return "covered" if seen.covered_by else progress.get("why", "")


def _too_late(seen: Record) -> str:
    return "nobody decided in time" if seen.state is State.PENDING else "approved, but it could not start in time"


async def _release(lease: Lease) -> None:
    if lease.held:
        with suppress(RedisError):
            await lease.release()
