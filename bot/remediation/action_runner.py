"""Run one action from its state in the ledger to its decision, execution, proof and result event.

A lease keeps two workers apart; if it fails, the ledger's claim does. A result is delivered once per (approval, state).
Cards are updated afterwards and may fail without harm.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from redis.exceptions import RedisError

from bot.incidents.dispatch.lease import Lease, Leases
from bot.policy.approvals import can_still_be_decided
from bot.remediation.action_index import ActionIndex, is_host_repair
from bot.remediation.wave_scheduler import find_queue_note
from graph.checkpoints.fence import LostLease, WorkerStopping
from graph.execution.action_effects import ActionDeferred, StillRunning, estimate_claim_time, has_started
from graph.incident_view import IncidentView
from graph.state import InboxItem, IncidentState
from tools.clock import Clock
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord
from tools.ledger.refusals import NotFound, Refused
from tools.ledger.states import OPEN_STATES, TERMINAL_STATES, State, Transition

if TYPE_CHECKING:
    from graph.execution.action_graph import ActionProgress, ActionThreads  # needs LangGraph, which a front end does not load

log = structlog.get_logger()
REMIND_BEFORE = timedelta(minutes=5)
RETRY_INTERVAL = timedelta(seconds=10)
CARD_RETRY_INTERVAL = timedelta(seconds=30)
THREAD_RETENTION = timedelta(days=30)
DRAIN_REMEDY_ID = "drain_node"  # Its incident records who approved it.
IncidentStateLoader = Callable[[str], Awaitable[IncidentState]]


class ActionCardPublisher(Protocol):
    """Shows actions as cards in the incident's thread. The ledger's record is the truth.

    Every method is idempotent, because a crash may fall between showing and recording. Slack errors are retried or
    raised.
    """

    async def post_approval_card(self, record: ActionRecord, incident_state: IncidentState) -> None:
        """Post the approval card and mention the approver group; once per approval id."""
        ...

    async def update_card(self, record: ActionRecord) -> None:
        """Update the card after the record changed."""
        ...

    async def post_outcome(self, record: ActionRecord) -> None:
        """Post the proof's result or the end without one; once per (approval, outcome)."""
        ...

    async def post_reminder(self, record: ActionRecord) -> None:
        """Mention the approver group shortly before the deadline; once per approval id."""
        ...

    async def list_known_rows(self, record: ActionRecord) -> Sequence[tuple[str, str]]:
        """Return the (name, value) rows beside the action, such as files that it deletes."""
        ...

    async def show_wait_reason(self, record: ActionRecord, reason: str) -> None:
        """Show why an approved action cannot start yet; the runner retries it."""
        ...

    async def show_contact_state(self, record: ActionRecord, says: str) -> None:
        """Show `says` while the host does not answer; empty once it does."""
        ...


class ActionInbox(Protocol):
    async def enqueue(self, item: InboxItem, dedupe_key: str) -> bool: ...

    async def list_waiting(self, incident: str) -> list[InboxItem]: ...


@dataclass(frozen=True, slots=True)
class EventDelivery:
    """Sends results to an incident's inbox and wakes it."""

    inbox: ActionInbox
    wake: Callable[[str], Awaitable[None]]
    clock: Clock

    async def count_waiting_items(self, incident: str) -> int:
        """Return how many inbox items precede the next one sent."""
        return len(await self.inbox.list_waiting(incident))

    async def send_event(self, incident: str, key: str, data: dict[str, Any]) -> bool:
        """Store the event once per key and wake the incident. Return whether it is new."""
        item = InboxItem(
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
class ActionRunner:
    """Advances actions. `run` is idempotent and safe to call concurrently."""

    ledger: Ledger
    threads: "ActionThreads"
    leases: Leases
    index: ActionIndex
    deliver: EventDelivery
    show: ActionCardPublisher
    state_of: IncidentStateLoader
    name_of: Callable[[str], Awaitable[str]]  # `TEAM:USER` → display name
    clock: Clock
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, approval: str) -> None:
        """Advance the action as far as possible now."""
        lease = await self.leases.acquire(approval)
        if lease is None:
            await self.index.schedule_check(approval)
            return
        with structlog.contextvars.bound_contextvars(approval=approval):
            try:
                await lease.guard(self._run_under_lease(approval), self.stopping.is_set)
            except (LostLease, WorkerStopping, Refused) as error:
                lease.held = not isinstance(error, LostLease)
                log.warning("action.left", why=f"{type(error).__name__}: {error}"[:300])
            finally:
                await _release_lease(lease)

    async def _run_under_lease(self, approval: str) -> None:
        mark = await self.index.begin_check(approval, RETRY_INTERVAL)
        try:
            record = await self.ledger.get_record(approval)
        except NotFound:
            await self.index.finish_check(approval, mark, None)
            return
        record, progress, held_back = await self._advance_record(record)
        if record.state not in OPEN_STATES and record.state is not State.EXECUTING:
            await self._deliver_result(record, progress)
        is_shown = await self._update_cards(record, held_back)
        at = self._get_next_check_time(record, is_shown, IncidentView(await self.state_of(record.action.incident)).reminders_from)
        if record.state in TERMINAL_STATES and at is None:
            await self.threads.prune_thread(approval, THREAD_RETENTION)
        await self.index.finish_check(approval, mark, at)

    async def _advance_record(self, record: ActionRecord) -> "tuple[ActionRecord, ActionProgress, str]":
        """Return the advanced record, its graph progress, and why it waits."""
        now = self.clock.now()
        due_at = record.get_due_time()
        if record.state in OPEN_STATES and due_at is not None and now > due_at:
            with suppress(Refused):
                await self.ledger.end_action(record.approval, Transition.EXPIRE, "rackmedic", _get_expiry_reason(record))
            record = await self.ledger.get_record(record.approval)
        if record.state is State.PENDING:
            await self.threads.ensure_waiting(record)
            return record, {}, ""
        if record.state is State.EXECUTING and record.beat_until is not None and now <= record.beat_until:
            return record, {}, ""
        progress, held_back = await self._advance_thread(record)
        return await self.ledger.get_record(record.approval), progress, held_back

    async def _advance_thread(self, record: ActionRecord) -> "tuple[ActionProgress, str]":
        """Resume the graph. The claim may supersede other actions: check them now, or later if this worker dies."""
        needless = await self.ledger.list_covered(record) if record.state is State.APPROVED else []
        for name in needless:
            await self.index.schedule_check(name, self.clock.now() + CARD_RETRY_INTERVAL)
        try:
            return await self.threads.resume_action(record), ""
        except ActionDeferred as error:
            log.info("action.not_now", why=str(error))
            return {}, str(error)
        except StillRunning:
            return {}, ""
        finally:
            for name in needless:
                await self.index.schedule_check(name)

    async def _deliver_result(self, record: ActionRecord, progress: "ActionProgress") -> None:
        key = f"action:{record.approval}:{record.state.value}"
        ended_by = await self.name_of(record.ended_by) if record.state in (State.DENIED, State.REVOKED) and record.ended_by else ""
        approver_names = await self._format_approver_names(record) if record.action.remedy == DRAIN_REMEDY_ID else ""
        result = build_result_event(record, progress, self.clock.now(), ended_by) | {"by": approver_names}
        if is_host_repair(record):
            await self.index.record_treatment(record, datetime.fromisoformat(result["since"]))
        if await self.deliver.send_event(record.action.incident, key, result):
            log.info("action.result", state=record.state.value, outcome=record.outcome, says=record.says)

    async def _format_approver_names(self, record: ActionRecord) -> str:
        voters = [vote.voter for vote in record.votes if vote.verdict == "approve"]
        return " and ".join([await self.name_of(voter) for voter in voters])

    async def _update_cards(self, record: ActionRecord, held: str) -> bool:
        """Return whether everything was shown."""
        try:
            for update, state_text, show in await self._list_card_updates(record, held):
                await show()
                await self.index.record_shown_news(record.approval, update, state_text)
        except RedisError:
            raise
        except Exception as error:
            log.warning("action.not_shown", error=f"{type(error).__name__}: {error}"[:300])  # Slack may be down; the next check retries
            return False
        return True

    async def _list_card_updates(self, record: ActionRecord, held: str) -> list[tuple[str, str, Callable[[], Awaitable[None]]]]:
        """Return the updates not shown yet, in order: kind, text, publisher."""
        shown_news = await self.index.get_shown_news(record.approval)
        state = await self.state_of(record.action.incident)
        over = record.state not in OPEN_STATES and record.state is not State.EXECUTING
        queued = find_queue_note(await self.index.get_shown_news(record.action.incident), record.action.proves, [record.approval])
        card_state, carded, now = (
            f"{record.state.value} {len(record.votes)} {record.outcome}{queued}",
            "card" in shown_news,
            self.clock.now(),
        )
        known_state = shown_news.get("changed", shown_news.get("card"))
        reminds = now >= get_reminder_time(record) and not IncidentView(state).is_muted(now)
        rows: list[tuple[str, str, bool, Callable[[], Awaitable[None]]]] = [
            ("card", card_state, record.state in OPEN_STATES and not carded, lambda: self.show.post_approval_card(record, state)),
            ("changed", card_state, carded and known_state != card_state, lambda: self.show.update_card(record)),
            ("held", held, bool(held), lambda: self.show.show_wait_reason(record, held)),
            ("remind", "done", reminds and can_still_be_decided(record, now), lambda: self.show.post_reminder(record)),
            ("outcome", f"{record.state.value} {record.outcome}", over, lambda: self.show.post_outcome(record)),
        ]
        return [
            (update, state_text, show) for update, state_text, is_wanted, show in rows if is_wanted and shown_news.get(update) != state_text
        ]

    def _get_next_check_time(self, record: ActionRecord, shown: bool, quiet: datetime | None) -> datetime | None:
        """Return the next check, or None. No reminder is due before `quiet`."""
        now = self.clock.now()
        times = [] if shown else [now + CARD_RETRY_INTERVAL]
        match record.state:
            case State.PENDING:
                reminder, over = max(filter(None, (get_reminder_time(record), quiet))), record.decide_by + timedelta(seconds=1)
                times.append(reminder if now < reminder < over else over)
            case State.APPROVED:
                times.append(now + RETRY_INTERVAL)
            case State.EXECUTING:
                times.append((record.beat_until or now) + timedelta(seconds=1))
        return min(times, default=None)


def get_reminder_time(record: ActionRecord) -> datetime:
    return record.decide_by - min(REMIND_BEFORE, (record.decide_by - record.proposed_at) / 3)


def build_result_event(record: ActionRecord, progress: "ActionProgress", now: datetime, who: str = "") -> dict[str, Any]:
    """Return the event of an ended or unknown action; `who` is the name of the person who ended it."""
    has_begun = record.state in (State.DONE, State.FAILED, State.UNKNOWN)
    return {
        "event": record.state.value,
        "approval": record.approval,
        "remedy": record.action.remedy,
        "outcome": record.outcome if has_begun else _get_supersede_reason(record, progress),
        "says": _format_result_text(record, progress, who),
        "ran": has_started(record) or record.state is State.UNKNOWN,
        "since": (progress.get("since") or estimate_claim_time(record, now).isoformat())
        if has_started(record) or record.state is State.UNKNOWN
        else "",
        "facts": progress.get("facts", ""),
        "replaced_by": record.replaced_by,
    }


def _format_result_text(record: ActionRecord, progress: "ActionProgress", who: str) -> str:
    words = progress.get("says") if record.state is State.DONE else ""
    return f"{words or record.says}{f' ({who})' if who else ''}"


def _get_supersede_reason(record: ActionRecord, progress: "ActionProgress") -> str:
    if record.state is not State.SUPERSEDED:
        return ""
    return "covered" if record.covered_by else progress.get("why", "")


def _get_expiry_reason(record: ActionRecord) -> str:
    return "no decision in time" if record.state is State.PENDING else "approved, but it could not start in time"


async def _release_lease(lease: Lease) -> None:
    if lease.held:
        with suppress(RedisError):
            await lease.release()
