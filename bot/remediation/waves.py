"""Split the remediations of one cause into waves no larger than the brakes allow.

Approvers are never asked for more actions than may run. The next wave follows when the last has passed and the
allowance is back. After a failure, a person must release the next wave.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from graph.state import Remediation
from tools.inventory.inventory import Inventory
from tools.ledger.brakes import Brakes, BrakeUsage
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
    """The wave of one cause, and what waits behind it. Each remediation is one host."""

    now: tuple[str, ...] = ()  # Remediation ids to propose.
    late: tuple[str, ...] = ()  # Remediation ids that wait.
    begun: int = 0  # Hosts proposed before.
    next: int = 0  # Size of the next wave.
    why: WaitReason = "wave"
    failed: tuple[str, ...] = ()  # Hosts that did not pass.
    at: datetime | None = None  # When the allowance is back.
    newest: str = ""  # Approval id of the latest action of the cause; its card shows the queue.

    def format_note(self) -> str:
        """Return the queue as JSON for the cards. It is empty if nothing waits."""
        if not self.late:
            return ""
        note = {
            "waits": self.waiting_count,
            "begun": self.begun + len(self.now),
            "next": self.next,
            "why": self.why,
            "failed": list(self.failed),
            "at": self.at.isoformat() if self.at else "",
            "newest": self.newest,
            "late": list(self.late),
        }
        return json.dumps(note, separators=(",", ":"))

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
    """Return the wave of each cause by its label.

    Args:
        remediations: all remediations of the incident.
        records: its actions in the ledger.
        allowance: the brakes and how much of them is used.
        let_go: by cause, the failed hosts despite which a person released the next wave.
        now: the current time.
    """
    queues: dict[str, WaveQueue] = {}
    active_hosts = {host for record in records if record.terms.changes and _is_active(record) for host in list_targets(record.action)}
    for label in dict.fromkeys(remediation.label for remediation in remediations):
        same_cause = [remediation for remediation in remediations if remediation.label == label and not _is_check_only(remediation)]
        cause_records = [record for record in records if record.action.proves == label and record.terms.changes]
        queue = _plan_wave(same_cause, cause_records, active_hosts, allowance, let_go.get(label, ()), now)
        active_hosts |= {remediation.target for remediation in same_cause if remediation.id in queue.now}
        queues[label] = queue
    return queues


def _plan_wave(
    remediations: Sequence[Remediation],
    records: Sequence[ActionRecord],
    active_hosts: Collection[str],
    allowance: ChangeAllowance,
    let_go: Collection[str],
    now: datetime,
) -> WaveQueue:
    queue = [remediation for remediation in remediations if is_waiting_for_turn(remediation, records)]
    started = [
        remediation
        for remediation in remediations
        if remediation not in queue and any(remediation.target in list_targets(record.action) for record in records)
    ]
    # These may be proposed at once: their host is being changed already, so the brakes count it anyway.
    on_active_hosts = [remediation for remediation in queue if remediation.target in active_hosts]
    on_idle_hosts = [remediation for remediation in queue if remediation.target not in active_hosts]
    wave_size = len(_select_fitting(on_idle_hosts, (), allowance, {}))
    failed = tuple(remediation.target for remediation in started if _has_failed(remediation, records) and remediation.target not in let_go)
    fitting = _select_fitting(on_idle_hosts, active_hosts, allowance, allowance.used)
    chosen, reason = _choose_wave(on_idle_hosts, started, wave_size, fitting)
    if failed:
        chosen, reason = [], "failed"
    late = tuple(remediation.id for remediation in on_idle_hosts if remediation not in chosen)
    returns_at = None
    if reason == "allowance":
        next_size = min(wave_size, len(on_idle_hosts))
        returns_at = _get_allowance_return_time(on_idle_hosts, next_size, active_hosts, allowance, now)
    return WaveQueue(
        now=tuple(remediation.id for remediation in (*on_active_hosts, *chosen)),
        late=late,
        begun=len(started),
        next=min(wave_size, len(late)),
        why=reason,
        failed=failed,
        at=returns_at,
        newest=max(records, key=lambda record: record.proposed_at).approval if records else "",
    )


def _choose_wave(
    waiting: Sequence[Remediation], started: Sequence[Remediation], wave_size: int, fitting: list[Remediation]
) -> tuple[list[Remediation], WaitReason]:
    """Return the next wave, and why the rest waits. Only the first wave may start incomplete; it is filled up later."""
    is_running = any(remediation.is_open and remediation.waiting_for != "proof" for remediation in started)
    if is_running:
        return fitting[: max(0, wave_size - len(started))], "wave"
    if started and len(fitting) < min(wave_size, len(waiting)):
        return [], "allowance"
    chosen = fitting[:wave_size]
    return chosen, "wave" if chosen else "allowance"


def is_waiting_for_turn(remediation: Remediation, records: Iterable[ActionRecord]) -> bool:
    """Return whether the remediation waits for approval and its host has no action of this cause yet."""
    return (
        remediation.is_open
        and remediation.waiting_for == "approval"
        and not any(remediation.target in list_targets(record.action) for record in records)
    )


def _is_check_only(remediation: Remediation) -> bool:
    """Return whether the remediation is an exclusive check, which uses no allowance."""
    return any(step.remedy == "run_check" for step in remediation.rungs)


def _is_active(record: ActionRecord) -> bool:
    return record.state in OPEN_STATES or record.state is State.EXECUTING


def _has_failed(remediation: Remediation, records: Iterable[ActionRecord]) -> bool:
    own_records = [record for record in records if remediation.target in list_targets(record.action)]
    return remediation.outcome in NOT_PASSED_OUTCOMES or any(
        record.outcome in FAILED_PROOF_OUTCOMES or record.state is State.UNKNOWN for record in own_records
    )


def _select_fitting(
    queue: Sequence[Remediation], active_hosts: Collection[str], allowance: ChangeAllowance, used: Mapping[str, BrakeUsage]
) -> list[Remediation]:
    """Return the first remediations whose hosts fit the brakes together with the active hosts."""
    fitting: list[Remediation] = []
    hosts = set(active_hosts)
    for remediation in queue:
        if _has_room(remediation.target, hosts, allowance, used):
            fitting.append(remediation)
            hosts.add(remediation.target)
    return fitting


def _has_room(host: str, active_hosts: Collection[str], allowance: ChangeAllowance, used: Mapping[str, BrakeUsage]) -> bool:
    brakes, group = allowance.brakes, allowance.get_group(host)
    group_size = allowance.count_group_hosts(group)
    active_in_group = {name for name in active_hosts if allowance.get_group(name) == group}
    usage = used.get(group) or BrakeUsage({}, {}, frozenset())
    if len({*usage.blast, *active_hosts, host}) > brakes.blast_hosts:
        return False
    if len({*usage.window, *active_in_group, host}) > brakes.get_max_in_window(group_size):
        return False
    return len({*usage.busy, *active_in_group, host}) <= max(MAX_SMALL_GROUP_HOSTS, brakes.get_max_at_once(group_size))


def _get_allowance_return_time(
    queue: Sequence[Remediation], wanted: int, active_hosts: Collection[str], allowance: ChangeAllowance, now: datetime
) -> datetime | None:
    """Return the first time at which the `wanted` number of remediations fits the brakes."""
    times = {at for usage in allowance.used.values() for at in (*usage.blast.values(), *usage.window.values()) if at > now}
    for at in sorted(times):
        fitting = _select_fitting(queue, active_hosts, allowance, _get_used_after(allowance.used, at))
        if len(fitting) >= wanted:
            return at
    return None


def _get_used_after(used: Mapping[str, BrakeUsage], at: datetime) -> dict[str, BrakeUsage]:
    """Return the usage that is left at a time, by group."""

    def select_later(hosts: Mapping[str, datetime]) -> dict[str, datetime]:
        return {host: until for host, until in hosts.items() if until > at}

    return {group: BrakeUsage(select_later(usage.blast), select_later(usage.window), usage.busy) for group, usage in used.items()}
