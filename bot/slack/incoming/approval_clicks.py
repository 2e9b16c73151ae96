"""Clicks and forms on approval cards. Carries them to the ledger's side; decides nothing but who may speak at all.

Text, reactions and replies approve nothing: an action is moved by its own buttons and forms alone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from bot.cards.approvals import card as approval
from bot.cards.approvals import edit_modal, reject_modal, tally, whole
from bot.cards.approvals.card import Click
from bot.cards.buttons import Stale
from bot.refusal import Refusal
from bot.slack.context import LedgerSays, Surface, approvals_of, storing
from bot.slack.incoming.clicker import Pressed, Voter, about, admit, decide, not_an_approver, painted, whisper
from bot.slack.incoming.payloads import Payload
from tools.ledger.record import Record, Refused, WrongDigest
from tools.ledger.states import State
from tools.remedies.row import BadArgument

TAKEN_BACK = "taken back from its card"


async def press(surface: Surface, payload: Payload) -> None:
    """A click on a card. Raises a Refusal that says why nothing was changed."""
    click = approval.read(payload)
    on = await about(surface, payload, click.approval)
    if (str((payload.get("channel") or {}).get("id", "")), _thread(payload)) != (on.origin.channel, on.origin.thread_ts):
        raise Stale
    async with painted(on):
        await admit(on)
        await surface.allow(f"button.{payload['actions'][0]['action_id']}", on.voter.user, on.origin.channel, on.origin)
        await _DOES[click.does](on, click)


async def reject(surface: Surface, payload: Payload) -> None:
    """The reason for a no. Raises BadForm for what can be mended in the form."""
    rejection = reject_modal.read(payload)
    on = await about(surface, payload, rejection.approval)
    delivery = f"view.{payload['view']['id']}.{on.voter}"
    async with painted(on):
        await admit(on)
        await decide(
            on, on.decisions.vote(rejection.approval, rejection.digest, str(on.voter), "deny", delivery=delivery, reason=rejection.reason)
        )


async def edit(surface: Surface, payload: Payload) -> None:
    """Other arguments. Raises BadForm with what is wrong under each field."""
    asked = edit_modal.read(payload)
    on = await about(surface, payload, asked.approval)
    async with painted(on):
        await admit(on)
        await surface.allow(f"form.{edit_modal.CALLBACK}", on.voter.user, on.origin.channel, on.origin)
        _same(on.record, asked.digest)
        args = edit_modal.check(asked, on.record.action)
        await decide(on, _edit(on, asked.digest, args))


async def _edit(on: Pressed, digest: str, args: Mapping[str, str]) -> None:
    try:
        await on.decisions.edit(on.record.approval, digest, str(on.voter), args)
    except BadArgument as wrong:
        raise edit_modal.refused(on.record.action, str(wrong)) from wrong


def _thread(payload: Payload) -> str:
    return str((payload.get("container") or {}).get("thread_ts") or "")


def _same(record: Record, digest: str) -> None:
    if record.digest != digest:
        raise LedgerSays(WrongDigest(WrongDigest.__doc__))


def _open(record: Record, *states: State) -> None:
    """Refuse before a form is filled in vain; the ledger checks again."""
    if record.state not in states:
        raise Refusal(f"The action is {record.state} by now; nothing was changed.")


async def _approve(on: Pressed, click: Click) -> None:
    delivery = _delivery(on.payload, on.voter)
    await decide(on, on.decisions.vote(click.approval, click.digest, str(on.voter), "approve", delivery=delivery))


async def _approve_all(on: Pressed, click: Click) -> None:
    await decide(on, _counted(on, click))


async def _counted(on: Pressed, click: Click) -> None:
    """Every vote by itself; whoever pressed hears of those that did not count. What did is on the card."""
    votes = await on.decisions.approve_each(click.each, str(on.voter), delivery=_delivery(on.payload, on.voter))
    if any(vote.no is not None for vote in votes):
        on.surface.tasks.spawn("told", whisper(on, tally.render(votes)))


async def _show_all(on: Pressed, click: Click) -> None:
    records: list[Record] = []
    known: dict[str, Sequence[tuple[str, str]]] = {}
    approvals = approvals_of(on.surface)
    async with storing():
        for name, _ in click.each:
            with suppress(Refused):  # what cannot be read is not on the card either
                records.append(await approvals.book.record(name))
                known[name] = await approvals.cards.known(records[-1])
    if any(record.action.incident != on.record.action.incident for record in records):
        raise Stale
    await on.surface.client.views_open(trigger_id=str(on.payload["trigger_id"]), view=whole.render(records, known))


async def _reject_form(on: Pressed, click: Click) -> None:
    _same(on.record, click.digest)
    _open(on.record, State.PENDING)
    if str(on.voter) not in on.record.terms.approvers:
        raise LedgerSays(await not_an_approver(on))
    await on.surface.client.views_open(trigger_id=str(on.payload["trigger_id"]), view=reject_modal.render(on.record))


async def _edit_form(on: Pressed, click: Click) -> None:
    _same(on.record, click.digest)
    _open(on.record, State.PENDING)
    await on.surface.client.views_open(trigger_id=str(on.payload["trigger_id"]), view=edit_modal.render(on.record))


async def _revoke(on: Pressed, click: Click) -> None:
    _same(on.record, click.digest)
    await decide(on, on.decisions.revoke(click.approval, click.digest, str(on.voter), TAKEN_BACK))


async def _ask_again(on: Pressed, click: Click) -> None:
    _same(on.record, click.digest)
    _open(on.record, State.EXPIRED)
    await decide(on, on.decisions.ask_again(click.approval, click.digest, str(on.voter)))


async def _let_go(on: Pressed, click: Click) -> None:
    _same(on.record, click.digest)
    await decide(on, on.decisions.let_go(click.approval, click.digest, str(on.voter)))


async def _reconcile(on: Pressed, click: Click) -> None:
    _same(on.record, click.digest)
    ran = click.does == "ran"
    note = f"pressed {'It ran' if ran else 'It did not run'} on its card"
    await decide(on, on.decisions.reconcile(click.approval, click.digest, str(on.voter), ran, note))


def _delivery(payload: Payload, voter: Voter) -> str:
    """The click's own id: the same when Slack, or anybody, sends the payload again."""
    action = payload["actions"][0]
    where = payload.get("container") or {}
    return f"{voter}.{where.get('channel_id')}.{where.get('message_ts')}.{action['action_id']}.{action['action_ts']}"


_DOES: Mapping[approval.Does, Callable[[Pressed, Click], Awaitable[None]]] = {
    "approve": _approve,
    "reject_form": _reject_form,
    "edit_form": _edit_form,
    "revoke": _revoke,
    "ask_again": _ask_again,
    "ran": _reconcile,
    "not_ran": _reconcile,
    "approve_all": _approve_all,
    "show_all": _show_all,
    "let_go": _let_go,
}
