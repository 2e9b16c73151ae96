"""Which of many fixes of one fault are put up for decision now: a wave, as large as the brakes leave; the others wait for it. Pure.

A wave is never larger than what may run, so nobody approves ten where four is the limit. The next one comes when the last has passed and
the allowance is back. Where one did not pass, a human lets the next one go.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from graph.state import Ladder
from tools.inventory.hosts import Inventory
from tools.ledger.brakes import Brakes, Used
from tools.ledger.record import Record, targets_of
from tools.ledger.states import OPEN, State

QUEUE = 3
"""Hosts of a small group that may be approved together though fewer may run at once: the ledger starts them one after the other."""
Why = Literal["wave", "allowance", "failed"]
"""Why the rest waits: the last wave goes on, the brakes leave too little room, or one did not pass and a human must look."""
NOT_PASSED = frozenset({"ticket", "denied", "undecided", "unknown", "stopped", "recurred"})
PROVED_BAD = frozenset({"unchanged", "worse", "recurred"})


@dataclass(frozen=True, slots=True)
class Allowance:
    """The brakes, and what of them is used up; `used` by group."""

    brakes: Brakes
    inventory: Inventory
    used: Mapping[str, Used] = field(default_factory=dict)

    def group(self, host: str) -> str:
        """The group that the ledger counts a host in."""
        row = self.inventory.hosts.get(host)
        return row.group if row else ""

    def size(self, group: str) -> int:
        """How many hosts it has."""
        return len(self.inventory.groups.get(group, ()))


@dataclass(frozen=True, slots=True)
class Queue:
    """Whose turn it is among the fixes of one cause. `now` are ladders' ids to be put up; the numbers are hosts."""

    now: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    """Ladders' ids that wait for it."""
    begun: int = 0
    """Put up before these."""
    next: int = 0
    """The size of the wave after these."""
    why: Why = "wave"
    failed: tuple[str, ...] = ()
    """Hosts that did not pass."""
    at: datetime | None = None
    """When the allowance is back."""
    newest: str = ""
    """The approval id of the latest action of this cause: its card tells of the turn."""

    def text(self) -> str:
        """What is noted of it for its card (`bot.cards.approvals.waiting.read`); empty where nobody waits."""
        row = {
            "waits": self.waits,
            "begun": self.begun + len(self.now),
            "next": self.next,
            "why": self.why,
            "failed": list(self.failed),
            "at": self.at.isoformat() if self.at else "",
            "newest": self.newest,
            "late": list(self.late),
        }
        return json.dumps(row, separators=(",", ":")) if self.waits else ""

    @property
    def waits(self) -> int:
        """Still waiting after these."""
        return len(self.late)


def queues(
    ladders: Sequence[Ladder], records: Collection[Record], room: Allowance, let_go: Mapping[str, Collection[str]], now: datetime
) -> dict[str, Queue]:
    """For each cause whose turn it is. `let_go`: for each cause the failed hosts after which a human let the next wave go."""
    found: dict[str, Queue] = {}
    taken = {host for row in records if row.terms.changes and _goes_on(row) for host in targets_of(row.action)}
    for label in dict.fromkeys(row.label for row in ladders):
        own = [row for row in ladders if row.label == label and not _looks(row)]
        acts = [row for row in records if row.action.proves == label and row.terms.changes]
        queue = _queue(own, acts, taken, room, let_go.get(label, ()), now)
        taken |= {row.target for row in own if row.id in queue.now}
        found[label] = queue
    return found


def _queue(
    ladders: Sequence[Ladder], records: Sequence[Record], taken: Collection[str], room: Allowance, let_go: Collection[str], now: datetime
) -> Queue:
    queue = [row for row in ladders if waits_its_turn(row, records)]
    begun = [row for row in ladders if row not in queue and any(row.target in targets_of(act.action) for act in records)]
    beside = [row for row in queue if row.target in taken]  # their host is being changed already: it makes no difference to the brakes
    fresh = [row for row in queue if row not in beside]
    whole = len(_fit(fresh, (), room, {}))
    failed = tuple(row.target for row in begun if _failed(row, records) and row.target not in let_go)
    chosen, why = _chosen(fresh, begun, whole, _fit(fresh, taken, room, room.used))
    chosen, why = ([], "failed") if failed else (chosen, why)
    late = tuple(row.id for row in fresh if row not in chosen)
    at = _back(fresh, min(whole, len(fresh)), taken, room, now) if why == "allowance" else None
    newest = max(records, key=lambda row: row.proposed_at).approval if records else ""
    return Queue(tuple(row.id for row in (*beside, *chosen)), late, len(begun), min(whole, len(late)), why, failed, at, newest)


def _chosen(fresh: Sequence[Ladder], begun: Sequence[Ladder], whole: int, fits: list[Ladder]) -> tuple[list[Ladder], Why]:
    """The next wave, and why the others wait. Only the first begins with less than a whole one, and is filled up while it goes on."""
    going = any(row.open and row.waiting_for != "proof" for row in begun)
    if going and len(begun) >= whole:
        return [], "wave"
    if begun and not going and len(fits) < min(whole, len(fresh)):
        return [], "allowance"
    chosen = fits[: whole - len(begun)] if going else fits[:whole]
    return chosen, "wave" if chosen or going else "allowance"


def waits_its_turn(ladder: Ladder, records: Iterable[Record]) -> bool:
    """Whether a ladder wants a decision and nothing was put up for its cause on its host before."""
    return ladder.open and ladder.waiting_for == "approval" and not any(ladder.target in targets_of(row.action) for row in records)


def _looks(ladder: Ladder) -> bool:
    """An exclusive check uses up no allowance."""
    return any(rung.remedy == "run_check" for rung in ladder.rungs)


def _goes_on(record: Record) -> bool:
    return record.state in OPEN or record.state is State.EXECUTING


def _failed(ladder: Ladder, records: Iterable[Record]) -> bool:
    mine = [row for row in records if ladder.target in targets_of(row.action)]
    return ladder.outcome in NOT_PASSED or any(row.outcome in PROVED_BAD or row.state is State.UNKNOWN for row in mine)


def _fit(queue: Sequence[Ladder], taken: Collection[str], room: Allowance, used: Mapping[str, Used]) -> list[Ladder]:
    """The first of the queue whose hosts the brakes have room for."""
    fits: list[Ladder] = []
    hosts = set(taken)
    for row in queue:
        if _has_room(row.target, hosts, room, used):
            fits.append(row)
            hosts.add(row.target)
    return fits


def _has_room(host: str, taken: Collection[str], room: Allowance, used: Mapping[str, Used]) -> bool:
    group = room.group(host)
    there, brakes, size = {name for name in taken if room.group(name) == group}, room.brakes, room.size(group)
    spent = used.get(group) or Used({}, {}, frozenset())
    return (
        len({*spent.blast, *taken, host}) <= brakes.blast_hosts
        and len({*spent.window, *there, host}) <= brakes.window_of(size)
        and len({*spent.busy, *there, host}) <= max(QUEUE, brakes.at_once_of(size))
    )


def _back(queue: Sequence[Ladder], enough: int, taken: Collection[str], room: Allowance, now: datetime) -> datetime | None:
    """When there is room for that many: the first time at which so much of what is used up counts no more."""
    times = {at for used in room.used.values() for at in (*used.blast.values(), *used.window.values()) if at > now}
    return next((at for at in sorted(times) if len(_fit(queue, taken, room, _after(room.used, at))) >= enough), None)


def _after(used: Mapping[str, Used], at: datetime) -> dict[str, Used]:
    return {
        group: Used({h: t for h, t in row.blast.items() if t > at}, {h: t for h, t in row.window.items() if t > at}, row.busy)
        for group, row in used.items()
    }
