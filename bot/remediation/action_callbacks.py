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
    """Load an incident's facts; none when the evidence is gone."""

    evidence: EvidenceStore
    state_of: IncidentStateLoader

    async def __call__(self, incident: str) -> list[Fact]:
        try:
            return await self.evidence.get_facts((await self.state_of(incident)).get("facts", ""))
        except KeyError:
            return []


@dataclass(frozen=True, slots=True)
class ApproverLookup:
    """Return the current approvers. Raise ActionDeferred when Slack cannot be asked, so that nothing starts."""

    rights: ApprovalRights

    async def __call__(self, record: ActionRecord) -> frozenset[str]:
        try:
            return await self.rights.list_record_approvers(record)
        except Refusal as error:
            raise ActionDeferred(str(error)) from error


@dataclass(frozen=True, slots=True)
class ActionStartAnnouncer:
    """Update the card when the action starts, within `seconds`: the command must not wait for Slack."""

    book: LedgerReader
    show: ActionCardPublisher
    seconds: float = 5.0

    async def __call__(self, approval: str) -> None:
        try:
            async with asyncio.timeout(self.seconds):
                await self.show.update_card(await self.book.get_record(approval))
        except Exception as error:
            log.warning("action.not_shown", approval=approval, error=str(error)[:200])  # a missing update must not fail the action


@dataclass(frozen=True, slots=True)
class ContactLossNotifier:
    """Show on the card that a running action's host stopped or resumed answering. Never raises."""

    book: LedgerReader
    show: ActionCardPublisher
    seconds: float = 5.0

    async def __call__(self, action: Action, since: datetime | None) -> None:
        try:
            async with asyncio.timeout(self.seconds):
                await self.show.show_contact_state(await self.book.get_record(action.approval), format_contact_loss(action, since))
        except Exception as error:
            log.warning("action.contact_not_shown", approval=action.approval, error=str(error)[:200])


def format_contact_loss(action: Action, since: datetime | None) -> str:
    if since is None:
        return ""
    completion = REMEDIES[action.remedy].completion
    boots = f" A reboot may take {completion.seconds // 60} min." if completion.kind == "new_boot" else ""
    return f"{LOST_CONTACT_TEXT} with {action.via} at {since:%H:%M:%S} UTC: how far it is, is not known until the host answers.{boots} Nothing is repeated."
