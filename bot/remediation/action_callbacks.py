"""Callbacks of the action graph: incident facts, current approvers, card updates."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

import structlog

from bot.policy.approvals import ApprovalRights
from bot.refusal import Refusal
from bot.remediation.action_runner import ActionCardPublisher, IncidentStateLoader
from graph.execution.action_effects import ActionDeferred
from tools.action import Action
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.ledger.reader import LedgerReader
from tools.ledger.record import ActionRecord
from tools.remedies import REMEDIES

log = structlog.get_logger()
LOST_CONTACT_TEXT = "Lost contact"


@dataclass(frozen=True, slots=True)
class IncidentFactsLoader:
    """Load the facts of an incident. There are none if its evidence is no longer stored."""

    evidence: EvidenceStore
    state_of: IncidentStateLoader

    async def __call__(self, incident: str) -> list[Fact]:
        state = await self.state_of(incident)
        try:
            return await self.evidence.get_facts(state.get("facts", ""))
        except KeyError:
            return []


@dataclass(frozen=True, slots=True)
class ApproverLookup:
    """Look up who may approve an action now. Raises ActionDeferred if Slack cannot be asked, so that the action does not start."""

    rights: ApprovalRights

    async def __call__(self, record: ActionRecord) -> frozenset[str]:
        try:
            return await self.rights.list_record_approvers(record)
        except Refusal as error:
            raise ActionDeferred(str(error)) from error


@dataclass(frozen=True, slots=True)
class ActionStartAnnouncer:
    """Update the card when the action starts. It gives up after `seconds`: the command must not wait for Slack."""

    ledger: LedgerReader
    cards: ActionCardPublisher
    seconds: float = 5.0

    async def __call__(self, approval: str) -> None:
        try:
            async with asyncio.timeout(self.seconds):
                await self.cards.update_card(await self.ledger.get_record(approval))
        except Exception as error:
            log.warning("action.not_shown", approval=approval, error=str(error)[:200])  # a missing update must not fail the action


@dataclass(frozen=True, slots=True)
class ContactLossNotifier:
    """Show on the card that the host of a running action stopped answering, or answers again. Never raises."""

    ledger: LedgerReader
    cards: ActionCardPublisher
    seconds: float = 5.0

    async def __call__(self, action: Action, since: datetime | None) -> None:
        try:
            async with asyncio.timeout(self.seconds):
                record = await self.ledger.get_record(action.approval)
                await self.cards.show_contact_state(record, format_contact_loss(action, since))
        except Exception as error:
            log.warning("action.contact_not_shown", approval=action.approval, error=str(error)[:200])


def format_contact_loss(action: Action, since: datetime | None) -> str:
    """Return the note of the card. It is empty if the host answers (`since` is None)."""
    if since is None:
        return ""
    completion = REMEDIES[action.remedy].completion
    reboot_note = f" A reboot may take {completion.seconds // 60} min." if completion.kind == "new_boot" else ""
    lost = f"{LOST_CONTACT_TEXT} with {action.via} at {since:%H:%M:%S} UTC: how far it is, is not known until the host answers."
    return f"{lost}{reboot_note} Nothing is repeated."
