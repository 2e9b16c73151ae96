"""What a card shows besides the record. Stored with the incident's cards, so that every process shows the same."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from bot.remediation.cards import card_parts, side_effects
from bot.remediation.cards.approval_card import ApprovalCardView
from bot.remediation.waves import find_queue_note
from bot.slack.people import People
from bot.slack.posted_messages import OriginLookup, PostedCards
from graph.state import Origin
from kb.needle_search import split_lines
from kb.redact import redact
from tools.action import Action
from tools.clock import Clock
from tools.evidence import EvidenceStore
from tools.execution.conditions import ConditionResult
from tools.execution.previews import CancelPreview, DeletePreview, NodeJobs
from tools.fact import Fact
from tools.inventory.inventory import ChannelRow
from tools.ledger.brakes import Brakes
from tools.ledger.record import ActionRecord, list_requesters
from tools.ledger.states import State

MAX_TAIL_LINES = 12


async def get_no_notes(incident: str) -> Mapping[str, str]:
    return {}


async def get_no_facts(incident: str) -> Sequence[Fact]:
    return ()


async def get_no_cancels(action: Action) -> CancelPreview | None:
    return None


async def get_no_jobs(action: Action) -> NodeJobs | None:
    return None


async def get_no_deletes(action: Action) -> DeletePreview | None:
    return None


@dataclass(frozen=True, slots=True)
class IncidentKnowledge:
    """Lookups by incident: `told` returns its notes (here the wave queue), `facts_of` its facts."""

    told: Callable[[str], Awaitable[Mapping[str, str]]] = get_no_notes
    facts_of: Callable[[str], Awaitable[Sequence[Fact]]] = get_no_facts


@dataclass(frozen=True, slots=True)
class ApprovalCardSources:
    """Sources of the cards. `group_of` returns the approver group to mention; `warning` appears on every card."""

    record_of: Callable[[str], Awaitable[ActionRecord]]
    of_incident: Callable[[str], Awaitable[list[ActionRecord]]]
    origin_of: OriginLookup
    bound: Mapping[str, ChannelRow]
    group_of: Callable[[Origin, Sequence[str]], str]
    evidence: EvidenceStore
    clock: Clock
    dry_run: Callable[[Action], Awaitable[Sequence[ConditionResult]]]
    would_delete: Callable[[Action], Awaitable[DeletePreview | None]] = get_no_deletes
    would_cancel: Callable[[Action], Awaitable[CancelPreview | None]] = get_no_cancels
    node_jobs: Callable[[Action], Awaitable[NodeJobs | None]] = get_no_jobs
    known: IncidentKnowledge = field(default_factory=IncidentKnowledge)
    brakes: Brakes = field(default_factory=Brakes)
    warning: str = ""


WAITING_NOTES: Final = {State.APPROVED: "held", State.EXECUTING: "contact"}  # The note that says why an action waits.


@dataclass(frozen=True, slots=True)
class ApprovalCardLoader:
    """Loads card data and notes."""

    cards: PostedCards
    people: People
    sources: ApprovalCardSources

    async def load_card_data(self, origin: Origin, record: ActionRecord) -> ApprovalCardView:
        condition_rows, at = _parse_seen(await self.get_note(record, "seen"))
        return ApprovalCardView(
            record,
            group=self.sources.group_of(origin, record.terms.sets),
            names=await self._get_names(record),
            seen=condition_rows,
            seen_at=at,
            began=await self._get_start_time(record),
            held=await self.get_note(record, note) if (note := WAITING_NOTES.get(record.state)) else "",
            tail=await self._read_output_tail(record),
            known=json.loads(await self.get_note(record, "known") or "[]"),
            warning=self.sources.warning,
        )

    async def get_queued(self, records: Sequence[ActionRecord]) -> card_parts.QueuedHosts | None:
        """Return the wave queue behind these actions."""
        first = records[0].action
        return card_parts.parse_queue_note(
            find_queue_note(await self.sources.known.told(first.incident), first.proves, [record.approval for record in records])
        )

    async def gather_preview(self, record: ActionRecord) -> None:
        """Store, once, a dry run of the conditions and the affected jobs, process or files."""
        await asyncio.gather(self._note_known_effects(record), self._note_dry_run(record))

    async def _note_known_effects(self, record: ActionRecord) -> None:
        if await self.get_note(record, "known"):
            return
        jobs = await self.sources.node_jobs(record.action)
        effects = [*(side_effects.build_job_rows(jobs) if jobs is not None else ()), *await self._list_known_effects(record.action)]
        if effects:
            await self.set_note(record, "known", json.dumps(effects))

    async def _list_known_effects(self, action: Action) -> side_effects.KnownRows:
        if action.remedy in side_effects.PROCESS_REMEDIES:
            return side_effects.build_process_rows(action, await self.sources.known.facts_of(action.incident))
        if (preview := await self.sources.would_delete(action)) is not None:
            return side_effects.build_file_rows(preview)
        ends = await self.sources.would_cancel(action)
        return side_effects.build_task_rows(ends) if ends is not None else ()

    async def _note_dry_run(self, record: ActionRecord) -> None:
        if not await self.get_note(record, "seen"):
            rows = await self.sources.dry_run(record.action)
            at = self.sources.clock.now().isoformat()
            await self.set_note(record, "seen", json.dumps({"at": at, "rows": [[row.says, row.ok, redact(row.saw)[:200]] for row in rows]}))

    async def get_note(self, record: ActionRecord, name: str) -> str:
        """Return the note, or an empty string."""
        return await self.cards.get(record.action.incident, f"{name}:{record.approval}")

    async def set_note(self, record: ActionRecord, name: str, value: str) -> None:
        await self.cards.set(record.action.incident, f"{name}:{record.approval}", value)

    async def _get_names(self, record: ActionRecord) -> dict[str, str]:
        policy_deciders = set(card_parts.list_policy_deciders(record)[: card_parts.MAX_NAMED_PEOPLE])
        people = {vote.voter for vote in record.votes} | policy_deciders | list_requesters(record.action) | {record.ended_by}
        return {person: await self.people.get_name(person.partition(":")[2]) for person in sorted(people) if ":" in person}

    async def _get_start_time(self, record: ActionRecord) -> datetime | None:
        """Return when the action was first seen running."""
        if record.state is not State.EXECUTING:
            return None
        if not (start_note := await self.get_note(record, "began")):
            await self.set_note(record, "began", start_note := self.sources.clock.now().isoformat())
        return datetime.fromisoformat(start_note)

    async def _read_output_tail(self, record: ActionRecord) -> list[str]:
        text = await self.sources.evidence.get_text(record.output) if record.output else None
        return [line for line in split_lines(text or "") if line.strip()][-MAX_TAIL_LINES:]


def _parse_seen(note: str) -> tuple[list[ConditionResult], datetime | None]:
    if not note:
        return [], None
    stored: dict[str, Any] = json.loads(note)
    return [ConditionResult(sentence, ok, saw) for sentence, ok, saw in stored["rows"]], datetime.fromisoformat(stored["at"])
