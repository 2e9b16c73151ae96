"""A record as its card shows it: people by name, what a dry run saw, since when it runs, why it waits, the end of its output.

What is known beside the ledger is noted with the incident's cards, so that every process shows the same.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from bot.actions.queue import behind
from bot.cards.approvals import files, node_jobs, parts, process, tasks, waiting
from bot.cards.approvals.card import Shown
from bot.slack.outgoing.posts import OriginOf, PostedCards
from bot.slack.people import People
from graph.state import Origin
from kb.redact import redact
from kb.scan import lines_in
from tools.acting.cancels import Cancels
from tools.acting.conditions import ConditionSeen
from tools.acting.deletes import Deletes
from tools.acting.jobs import NodeJobs
from tools.action import Action
from tools.clock import Clock
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.inventory.hosts import ChannelRow
from tools.ledger.brakes import Brakes
from tools.ledger.record import Record, requesters_of
from tools.ledger.states import State

MOST_TAIL = 12


async def nothing_told(incident: str) -> Mapping[str, str]:
    """Nobody waits."""
    return {}


async def nothing_known(incident: str) -> Sequence[Fact]:
    """No facts."""
    return ()


async def cancels_nothing(action: Action) -> Cancels | None:
    """No action cancels anything."""
    return None


async def reads_no_jobs(action: Action) -> NodeJobs | None:
    """No action disturbs a job."""
    return None


async def deletes_nothing(action: Action) -> Deletes | None:
    """No action deletes anything."""
    return None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an incident: `told` what is noted of it (here what waits for its turn), `facts_of` what it stands on."""

    told: Callable[[str], Awaitable[Mapping[str, str]]] = nothing_told
    facts_of: Callable[[str], Awaitable[Sequence[Fact]]] = nothing_known


@dataclass(frozen=True, slots=True)
class Sources:
    """What the cards are rendered from. `group_of` is the approver group of a place, or of the sets that decide instead; `warning` stands on every card."""

    record_of: Callable[[str], Awaitable[Record]]
    of_incident: Callable[[str], Awaitable[list[Record]]]
    origin_of: OriginOf
    bound: Mapping[str, ChannelRow]
    group_of: Callable[[Origin, Sequence[str]], str]
    evidence: EvidenceStore
    clock: Clock
    dry_run: Callable[[Action], Awaitable[Sequence[ConditionSeen]]]
    would_delete: Callable[[Action], Awaitable[Deletes | None]] = deletes_nothing
    would_cancel: Callable[[Action], Awaitable[Cancels | None]] = cancels_nothing
    node_jobs: Callable[[Action], Awaitable[NodeJobs | None]] = reads_no_jobs
    known: Known = field(default_factory=Known)
    brakes: Brakes = field(default_factory=Brakes)
    warning: str = ""


WAITING_NOTES: Final = {State.APPROVED: "held", State.EXECUTING: "contact"}
"""What is noted of an action that waits: to start, or for its host to answer."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """`shown` of any record; `note` and `keep` are about one action."""

    cards: PostedCards
    people: People
    sources: Sources

    async def shown(self, origin: Origin, record: Record) -> Shown:
        """Everything that a card of this action shows."""
        seen, at = _read_seen(await self.note(record, "seen"))
        return Shown(
            record,
            group=self.sources.group_of(origin, record.terms.sets),
            names=await self._names(record),
            seen=seen,
            seen_at=at,
            began=await self._began(record),
            held=await self.note(record, note) if (note := WAITING_NOTES.get(record.state)) else "",
            tail=await self._tail(record),
            known=json.loads(await self.note(record, "known") or "[]"),
            warning=self.sources.warning,
        )

    async def queued(self, records: Sequence[Record]) -> waiting.Queued | None:
        """What waits for its turn behind a card with these actions."""
        first = records[0].action
        return waiting.read(behind(await self.sources.known.told(first.incident), first.proves, [record.approval for record in records]))

    async def look(self, record: Record) -> None:
        """A dry run of its conditions, and what is known of the jobs, the process or the files that it hits; once."""
        await asyncio.gather(self._look_beside(record), self._rehearse(record))

    async def _look_beside(self, record: Record) -> None:
        if await self.note(record, "known"):
            return
        jobs = await self.sources.node_jobs(record.action)
        known = [*(node_jobs.known_of(jobs) if jobs is not None else ()), *await self._known_of(record.action)]
        if known:
            await self.keep(record, "known", json.dumps(known))

    async def _known_of(self, action: Action) -> process.Rows:
        """What only a remedy of its kind has to tell: its process, its files or its tasks."""
        if action.remedy in process.ENDS:
            return process.known_of(action, await self.sources.known.facts_of(action.incident))
        if (seen := await self.sources.would_delete(action)) is not None:
            return files.known_of(seen)
        ends = await self.sources.would_cancel(action)
        return tasks.known_of(ends) if ends is not None else ()

    async def _rehearse(self, record: Record) -> None:
        if not await self.note(record, "seen"):
            rows = await self.sources.dry_run(record.action)
            at = self.sources.clock.now().isoformat()
            await self.keep(record, "seen", json.dumps({"at": at, "rows": [[row.says, row.ok, redact(row.saw)[:200]] for row in rows]}))

    async def note(self, record: Record, name: str) -> str:
        """What is noted of it; empty where nothing is."""
        return await self.cards.get(record.action.incident, f"{name}:{record.approval}")

    async def keep(self, record: Record, name: str, value: str) -> None:
        """Note it."""
        await self.cards.set(record.action.incident, f"{name}:{record.approval}", value)

    async def _names(self, record: Record) -> dict[str, str]:
        asked = set(parts.deciders(record)[: parts.MOST_NAMED])
        people = {vote.voter for vote in record.votes} | asked | requesters_of(record.action) | {record.ended_by}
        return {who: await self.people.name(who.partition(":")[2]) for who in sorted(people) if ":" in who}

    async def _began(self, record: Record) -> datetime | None:
        """When it was first seen running."""
        if record.state is not State.EXECUTING:
            return None
        if not (began := await self.note(record, "began")):
            await self.keep(record, "began", began := self.sources.clock.now().isoformat())
        return datetime.fromisoformat(began)

    async def _tail(self, record: Record) -> list[str]:
        text = await self.sources.evidence.get(record.output) if record.output else None
        return [line for line in lines_in(text or "") if line.strip()][-MOST_TAIL:]


def _read_seen(note: str) -> tuple[list[ConditionSeen], datetime | None]:
    if not note:
        return [], None
    kept: dict[str, Any] = json.loads(note)
    return [ConditionSeen(says, ok, saw) for says, ok, saw in kept["rows"]], datetime.fromisoformat(kept["at"])
