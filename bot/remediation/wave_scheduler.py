"""Plan the waves of an incident's remediations, and note the queue for its card."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import structlog

from bot.remediation.action_index import ActionIndex
from bot.remediation.waves import ChangeAllowance, WaveQueue, plan_waves
from graph.state import Remediation
from tools.clock import Clock
from tools.inventory.inventory import Inventory
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord

log = structlog.get_logger()
QUEUE_NOTE_PREFIX = "queue "  # prefixes of an incident's notes; the cause's label follows
RELEASE_NOTE_PREFIX = "let go "


@dataclass(frozen=True, slots=True)
class WaveScheduler:
    """Reads, plans and notes; proposes nothing."""

    book: Ledger
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
