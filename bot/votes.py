"""Clicks and forms on approval cards. Carries them to the ledger's side; decides nothing but who may speak at all.

Who it is comes from the user in Slack's own payload and nowhere else: team and id together, active, human, no guest, of the incident's
own workspace, in a channel that nobody else reads at this moment. Text, reactions and replies approve nothing.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bot import policy
from bot.decisions import Approvals, Decisions
from bot.policy import Place
from bot.refusal import Refusal
from bot.surface import Surface, storing
from bot.views import approval, edit_modal, reject_modal
from bot.views.approval import Click, Stale
from graph.state import Origin
from tools.ledger.record import NotAnApprover, Record, Refused, WrongDigest
from tools.ledger.states import State
from tools.remedy import BadArgument

Payload = Mapping[str, Any]

NOT_SET_UP = "Approving is not set up here, so nothing can be run. Whoever runs me finds out why with `rackmedic doctor`."
TAKEN_BACK = "taken back from its card"


class LedgerSays(Refusal):
    """The ledger's own refusal, as the person who clicked is told it."""

    def __init__(self, no: Refused) -> None:
        super().__init__(str(no) or str(type(no).__doc__))


@dataclass(frozen=True, slots=True)
class Voter:
    """Somebody who clicked, from the payload's user alone."""

    team: str
    user: str

    def __str__(self) -> str:
        return f"{self.team}:{self.user}"


@dataclass(frozen=True, slots=True)
class Pressed:
    """A click by somebody who may speak, on a card of this thread."""

    surface: Surface
    decisions: Decisions
    record: Record
    click: Click
    voter: Voter
    payload: Payload


async def press(surface: Surface, payload: Payload) -> None:
    """A click on a card. Raises a Refusal that says why nothing was changed."""
    click = approval.read(payload)
    decisions, voter = approvals_of(surface).decisions, _voter(payload)
    record, origin = await _about(surface, click.approval)
    if (str((payload.get("channel") or {}).get("id", "")), _thread(payload)) != (origin.channel, origin.thread_ts):
        raise Stale
    async with _painted(surface, record):
        await _admit(surface, voter, origin)
        if click.does == "approve" and voter.user not in await approvers_in(surface, origin.channel):
            raise LedgerSays(NotAnApprover(NotAnApprover.__doc__))
        await _DOES[click.does](Pressed(surface, decisions, record, click, voter, payload))


async def reject(surface: Surface, payload: Payload) -> None:
    """The reason for a no. Raises BadForm for what can be mended in the form."""
    said = reject_modal.read(payload)
    record, voter = await _form(surface, payload, said.approval)
    async with _painted(surface, record), storing(), ledger():
        await approvals_of(surface).decisions.vote(
            said.approval, said.digest, str(voter), "deny", delivery=f"view.{payload['view']['id']}.{voter}", reason=said.reason
        )


async def edit(surface: Surface, payload: Payload) -> None:
    """Other arguments. Raises BadForm with what is wrong under each field."""
    asked = edit_modal.read(payload)
    record, voter = await _form(surface, payload, asked.approval)
    _same(record, asked.digest)
    args = edit_modal.check(asked, record.action)
    async with _painted(surface, record), storing(), ledger():
        try:
            await approvals_of(surface).decisions.edit(asked.approval, asked.digest, str(voter), args)
        except BadArgument as wrong:
            raise edit_modal.refused(record.action, str(wrong)) from wrong


def approvals_of(surface: Surface) -> Approvals:
    """What clicks are carried to; a Refusal where nothing can be approved."""
    if surface.approvals is None:
        raise Refusal(NOT_SET_UP)
    return surface.approvals


async def approvers_in(surface: Surface, channel: str) -> frozenset[str]:
    """User ids that may approve there as of now. The ledger froze who might when it was asked; whoever left the group since may not."""
    row = surface.bound.get(channel)
    members = await surface.people.members(row.approvers) if row and row.approvers else frozenset()
    return members | approvals_of(surface).always


@asynccontextmanager
async def ledger() -> AsyncIterator[None]:
    """A refusal of the ledger becomes what the person is told."""
    try:
        yield
    except Refused as no:
        raise LedgerSays(no) from no


@asynccontextmanager
async def _painted(surface: Surface, record: Record) -> AsyncIterator[None]:
    """Whatever comes of it, the card shows what the ledger holds: also a click that changed nothing came from an old card."""
    try:
        yield
    finally:
        surface.tasks.spawn("approval_card", approvals_of(surface).cards.changed(record))


async def _about(surface: Surface, name: str) -> tuple[Record, Origin]:
    """The record, and the thread of Slack that it belongs to."""
    async with storing(), ledger():
        record = await approvals_of(surface).book.record(name)
        origin = await surface.intake.origin(record.action.incident)
    if origin is None or origin.kind != "slack":
        raise Stale
    return record, origin


async def _form(surface: Surface, payload: Payload, name: str) -> tuple[Record, Voter]:
    """A form has no channel: it counts in the thread of its own incident."""
    voter = _voter(payload)
    record, origin = await _about(surface, name)
    await _admit(surface, voter, origin)
    return record, voter


async def _admit(surface: Surface, voter: Voter, origin: Origin) -> None:
    if voter.team != origin.team:
        raise policy.NotAllowed(policy.NOT_OURS)
    await surface.admit(Place(voter.team, origin.channel), voter.user, fresh=True)


def _voter(payload: Payload) -> Voter:
    """Never from the context that Bolt makes up, never from what a text says."""
    user = payload.get("user") or {}
    if not user.get("id") or not user.get("team_id"):
        raise policy.NotAllowed(policy.NOT_OURS)
    return Voter(str(user["team_id"]), str(user["id"]))


def _thread(payload: Payload) -> str:
    return str((payload.get("container") or {}).get("thread_ts") or "")


def _same(record: Record, digest: str) -> None:
    if record.digest != digest:
        raise LedgerSays(WrongDigest(WrongDigest.__doc__))


def _open(record: Record, *states: State) -> None:
    """Refuse before a form is filled in vain; the ledger checks again."""
    if record.state not in states:
        raise Refusal(f"The action is {record.state} by now; nothing was changed.")


async def _approve(on: Pressed) -> None:
    async with storing(), ledger():
        await on.decisions.vote(on.click.approval, on.click.digest, str(on.voter), "approve", delivery=_delivery(on.payload, on.voter))


async def _reject_form(on: Pressed) -> None:
    _same(on.record, on.click.digest)
    _open(on.record, State.PENDING)
    _approver(on)
    await on.surface.client.views_open(trigger_id=str(on.payload["trigger_id"]), view=reject_modal.render(on.record))


async def _edit_form(on: Pressed) -> None:
    _same(on.record, on.click.digest)
    _open(on.record, State.PENDING)
    await on.surface.client.views_open(trigger_id=str(on.payload["trigger_id"]), view=edit_modal.render(on.record))


async def _revoke(on: Pressed) -> None:
    _same(on.record, on.click.digest)
    async with storing(), ledger():
        await on.decisions.revoke(on.click.approval, on.click.digest, str(on.voter), TAKEN_BACK)


async def _ask_again(on: Pressed) -> None:
    _same(on.record, on.click.digest)
    _open(on.record, State.EXPIRED)
    async with storing(), ledger():
        await on.decisions.ask_again(on.click.approval, on.click.digest, str(on.voter))


async def _reconcile(on: Pressed) -> None:
    _same(on.record, on.click.digest)
    _approver(on)
    ran = on.click.does == "ran"
    note = f"pressed {'It ran' if ran else 'It did not run'} on its card"
    async with storing(), ledger():
        await on.decisions.reconcile(on.click.approval, on.click.digest, str(on.voter), ran, note)


def _approver(on: Pressed) -> None:
    if str(on.voter) not in on.record.terms.approvers:
        raise LedgerSays(NotAnApprover(NotAnApprover.__doc__))


def _delivery(payload: Payload, voter: Voter) -> str:
    """The click's own id: the same when Slack, or anybody, sends the payload again."""
    action = payload["actions"][0]
    where = payload.get("container") or {}
    return f"{voter}.{where.get('channel_id')}.{where.get('message_ts')}.{action['action_id']}.{action['action_ts']}"


_DOES: Mapping[approval.Does, Callable[[Pressed], Awaitable[None]]] = {
    "approve": _approve,
    "reject_form": _reject_form,
    "edit_form": _edit_form,
    "revoke": _revoke,
    "ask_again": _ask_again,
    "ran": _reconcile,
    "not_ran": _reconcile,
}
