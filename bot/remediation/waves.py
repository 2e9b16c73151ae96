"""Split the remediations of one cause into waves no larger than the brakes allow. Pure.

Approvers are never asked for more actions than may run. The next wave follows when the last has passed and the
allowance is back. After a failure, a person must release the next wave.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import structlog

from bot.remediation.action_index import ActionIndex
from graph.state import Remediation
from tools.clock import Clock
from tools.inventory.inventory import Inventory
from tools.ledger.brakes import Brakes, BrakeUsage
from tools.ledger.reader import LedgerReader
from tools.ledger.record import ActionRecord, list_targets
from tools.ledger.states import OPEN_STATES, State

# Hosts of a small group proposed together though fewer may run at once; the ledger runs them in turn.
MAX_SMALL_GROUP_HOSTS = 3
# The last wave is not over; the brakes leave too little; or a host failed and a person must look.
WaitReason = Literal["wave", "allowance", "failed"]
NOT_PASSED_OUTCOMES = frozenset({"ticket", "denied", "undecided", "unknown", "stopped", "recurred"})
FAILED_PROOF_OUTCOMES = frozenset({"unchanged", "worse", "recurred"})


@dataclass(frozen=True, slots=True)
class ChangeAllowance:
    """The brakes, and their usage by group."""

    brakes: Brakes
    inventory: Inventory
    used: Mapping[str, BrakeUsage] = field(default_factory=dict)

    def get_group(self, host: str) -> str:
        row = self.inventory.hosts.get(host)
        return row.group if row else ""

    def count_group_hosts(self, group: str) -> int:
        return len(self.inventory.groups.get(group, ()))


@dataclass(frozen=True, slots=True)
class WaveQueue:
    """The wave of one cause: `now` are the remediation ids to propose. Numbers are hosts."""

    now: tuple[str, ...] = ()
    late: tuple[str, ...] = ()  # Remediation ids that wait.
    begun: int = 0  # Hosts proposed before.
    next: int = 0  # Size of the next wave.
    why: WaitReason = "wave"
    failed: tuple[str, ...] = ()  # Hosts that did not pass.
    at: datetime | None = None  # When the allowance is back.
    newest: str = ""  # Approval id of the latest action of the cause; its card shows the queue.

    def format_note(self) -> str:
        """Return the note that `wave_queue.parse_queue_note` reads; empty if nothing waits."""
        row = {
            "waits": self.waiting_count,
            "begun": self.begun + len(self.now),
            "next": self.next,
            "why": self.why,
            "failed": list(self.failed),
            "at": self.at.isoformat() if self.at else "",
            "newest": self.newest,
            "late": list(self.late),
        }
        return json.dumps(row, separators=(",", ":")) if self.waiting_count else ""

    @property
    def waiting_count(self) -> int:
        return len(self.late)


def plan_waves(
    remediations: Sequence[Remediation],
    records: Collection[ActionRecord],
    allowance: ChangeAllowance,
    let_go: Mapping[str, Collection[str]],
    now: datetime,
) -> dict[str, WaveQueue]:
    """Return the wave of each cause. `let_go`: per cause the failed hosts that a person accepted."""
    queues: dict[str, WaveQueue] = {}
    active_hosts = {host for row in records if row.terms.changes and _is_active(row) for host in list_targets(row.action)}
    for label in dict.fromkeys(row.label for row in remediations):
        own = [row for row in remediations if row.label == label and not _is_check_only(row)]
        acts = [row for row in records if row.action.proves == label and row.terms.changes]
        queue = _plan_wave(own, acts, active_hosts, allowance, let_go.get(label, ()), now)
        active_hosts |= {row.target for row in own if row.id in queue.now}
        queues[label] = queue
    return queues


def _plan_wave(
    remediations: Sequence[Remediation],
    records: Sequence[ActionRecord],
    taken: Collection[str],
    allowance: ChangeAllowance,
    let_go: Collection[str],
    now: datetime,
) -> WaveQueue:
    queue = [row for row in remediations if is_waiting_for_turn(row, records)]
    started = [row for row in remediations if row not in queue and any(row.target in list_targets(act.action) for act in records)]
    blocked = [row for row in queue if row.target in taken]  # their host is being changed already: it makes no difference to the brakes
    fresh = [row for row in queue if row not in blocked]
    wave_size = len(_select_fitting(fresh, (), allowance, {}))
    failed = tuple(row.target for row in started if _has_failed(row, records) and row.target not in let_go)
    chosen, reason = _choose_wave(fresh, started, wave_size, _select_fitting(fresh, taken, allowance, allowance.used))
    chosen, reason = ([], "failed") if failed else (chosen, reason)
    late = tuple(row.id for row in fresh if row not in chosen)
    at = _get_allowance_return_time(fresh, min(wave_size, len(fresh)), taken, allowance, now) if reason == "allowance" else None
    newest = max(records, key=lambda row: row.proposed_at).approval if records else ""
    return WaveQueue(
        tuple(row.id for row in (*blocked, *chosen)), late, len(started), min(wave_size, len(late)), reason, failed, at, newest
    )


def _choose_wave(
    fresh: Sequence[Remediation], begun: Sequence[Remediation], whole: int, fits: list[Remediation]
) -> tuple[list[Remediation], WaitReason]:
    """Return the next wave and why the rest waits. Only the first may start incomplete; it is filled up later."""
    going = any(row.is_open and row.waiting_for != "proof" for row in begun)
    if going and len(begun) >= whole:
        return [], "wave"
    if begun and not going and len(fits) < min(whole, len(fresh)):
        return [], "allowance"
    chosen = fits[: whole - len(begun)] if going else fits[:whole]
    return chosen, "wave" if chosen or going else "allowance"


def is_waiting_for_turn(remediation: Remediation, records: Iterable[ActionRecord]) -> bool:
    """Return whether the remediation waits for approval and its host has no action of this cause yet."""
    return (
        remediation.is_open
        and remediation.waiting_for == "approval"
        and not any(remediation.target in list_targets(row.action) for row in records)
    )


def _is_check_only(remediation: Remediation) -> bool:
    """An exclusive check uses no allowance."""
    return any(step.remedy == "run_check" for step in remediation.rungs)


def _is_active(record: ActionRecord) -> bool:
    return record.state in OPEN_STATES or record.state is State.EXECUTING


def _has_failed(remediation: Remediation, records: Iterable[ActionRecord]) -> bool:
    own_records = [row for row in records if remediation.target in list_targets(row.action)]
    return remediation.outcome in NOT_PASSED_OUTCOMES or any(
        row.outcome in FAILED_PROOF_OUTCOMES or row.state is State.UNKNOWN for row in own_records
    )


def _select_fitting(
    queue: Sequence[Remediation], taken: Collection[str], allowance: ChangeAllowance, used: Mapping[str, BrakeUsage]
) -> list[Remediation]:
    """Return the first remediations whose hosts fit the brakes."""
    fits: list[Remediation] = []
    hosts = set(taken)
    for row in queue:
        if _has_room(row.target, hosts, allowance, used):
            fits.append(row)
            hosts.add(row.target)
    return fits


def _has_room(host: str, taken: Collection[str], allowance: ChangeAllowance, used: Mapping[str, BrakeUsage]) -> bool:
    group = allowance.get_group(host)
    active_in_group, brakes, size = (
        {name for name in taken if allowance.get_group(name) == group},
        allowance.brakes,
        allowance.count_group_hosts(group),
    )
    spent = used.get(group) or BrakeUsage({}, {}, frozenset())
    return (
        len({*spent.blast, *taken, host}) <= brakes.blast_hosts
        and len({*spent.window, *active_in_group, host}) <= brakes.get_max_in_window(size)
        and len({*spent.busy, *active_in_group, host}) <= max(MAX_SMALL_GROUP_HOSTS, brakes.get_max_at_once(size))
    )


def _get_allowance_return_time(
    queue: Sequence[Remediation], enough: int, taken: Collection[str], allowance: ChangeAllowance, now: datetime
) -> datetime | None:
    """Return the first time at which `enough` remediations fit the brakes."""
    times = {at for used in allowance.used.values() for at in (*used.blast.values(), *used.window.values()) if at > now}
    return next(
        (at for at in sorted(times) if len(_select_fitting(queue, taken, allowance, _get_used_after(allowance.used, at))) >= enough), None
    )


def _get_used_after(used: Mapping[str, BrakeUsage], at: datetime) -> dict[str, BrakeUsage]:
    return {
        group: BrakeUsage({h: t for h, t in row.blast.items() if t > at}, {h: t for h, t in row.window.items() if t > at}, row.busy)
        for group, row in used.items()
    }


# Plan the waves of an incident's remediations (`waves`), and note the queue for its card.

log = structlog.get_logger()
QUEUE_NOTE_PREFIX = "queue "  # prefixes of an incident's notes; the cause's label follows
RELEASE_NOTE_PREFIX = "let go "


@dataclass(frozen=True, slots=True)
class WaveScheduler:
    """Reads, plans and notes; proposes nothing."""

    book: LedgerReader
    index: ActionIndex
    inventory: Inventory
    clock: Clock

    async def list_waiting_remediations(
        self, incident: str, remediations: Sequence[Remediation], records: Collection[ActionRecord]
    ) -> frozenset[str]:
        """Return the ids of remediations not to be proposed now."""
        return frozenset(name for queue in (await self._plan_waves(incident, remediations, records)).values() for name in queue.late)

    async def record_queue_notes(self, incident: str, remediations: Sequence[Remediation]) -> list[str]:
        """Note the queue as of now. Return the approvals whose cards change."""
        shown_news = await self.index.get_shown_news(incident)
        new_notes: list[str] = []
        for label, queue in (await self._plan_waves(incident, remediations, await self.book.list_incident_records(incident))).items():
            before = shown_news.get(f"{QUEUE_NOTE_PREFIX}{label}", "")
            if before != queue.format_note():
                await self.index.record_shown_news(incident, f"{QUEUE_NOTE_PREFIX}{label}", queue.format_note())
                new_notes += filter(None, (_get_newest_approval(before), queue.newest))
        return new_notes

    async def release_next_wave(self, incident: str, label: str, remediations: Sequence[Remediation], by: str) -> None:
        """Release the next wave after failures, as a person decided. The audit log is written first."""
        queue = (await self._plan_waves(incident, remediations, await self.book.list_incident_records(incident))).get(label, WaveQueue())
        await self.book.record_continuation(incident, label, queue.failed, by)
        before = (await self.index.get_shown_news(incident)).get(f"{RELEASE_NOTE_PREFIX}{label}", "").split()
        await self.index.record_shown_news(incident, f"{RELEASE_NOTE_PREFIX}{label}", " ".join(sorted({*before, *queue.failed})))
        log.info("remediation.wave_released", incident=incident, label=label, by=by, failed=list(queue.failed), waits=queue.waiting_count)

    async def _plan_waves(
        self, incident: str, remediations: Sequence[Remediation], records: Collection[ActionRecord]
    ) -> dict[str, WaveQueue]:
        groups = {row.group for remediation in remediations if (row := self.inventory.hosts.get(remediation.target))}
        used = {group: await self.book.get_brake_usage(incident, group) for group in sorted(groups)}
        shown_news = await self.index.get_shown_news(incident)
        let_go = {
            name.removeprefix(RELEASE_NOTE_PREFIX): words.split()
            for name, words in shown_news.items()
            if name.startswith(RELEASE_NOTE_PREFIX)
        }
        return plan_waves(remediations, records, ChangeAllowance(self.book.brakes, self.inventory, used), let_go, self.clock.now())


@dataclass(frozen=True, slots=True)
class WaitingRemediationLookup:
    """Returns the ids of waiting remediations from the latest notes."""

    index: ActionIndex

    async def __call__(self, incident: str) -> frozenset[str]:
        shown_news = await self.index.get_shown_news(incident)
        notes = [json.loads(text) for name, text in shown_news.items() if name.startswith(QUEUE_NOTE_PREFIX) and text]
        return frozenset(name for note in notes for name in note.get("late", ()))


def find_queue_note(told: Mapping[str, str], label: str, approvals: Collection[str]) -> str:
    """Return the queue noted behind these actions; empty if another card shows it."""
    text = told.get(f"{QUEUE_NOTE_PREFIX}{label}", "")
    return text if _get_newest_approval(text) in approvals else ""


def _get_newest_approval(text: str) -> str:
    return str(json.loads(text)["newest"]) if text else ""
