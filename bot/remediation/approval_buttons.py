"""Handlers of buttons and forms on approval cards.

Text, reactions and replies approve nothing: only an action's own buttons and forms change it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from bot.cards.buttons import StaleCard
from bot.incidents.context import HandlerContext, LedgerSays, require_approvals
from bot.refusal import Refusal
from bot.remediation.approval_clicks import (
    ApprovalClick,
    Voter,
    admit_voter,
    build_not_approver_error,
    load_approval_click,
    post_ephemeral,
    repaint_after,
    run_decision,
)
from bot.remediation.cards import approval_card, modals, vote_summary
from bot.remediation.cards.approval_card import CardClick
from bot.slack.payloads import Payload
from bot.store.unreachable import guard_store
from tools.ledger.record import ActionRecord
from tools.ledger.refusals import Refused, WrongDigest
from tools.ledger.states import State
from tools.remedies.remedy import BadArgument

REVOKED_FROM_CARD = "revoked on its card"


async def handle_click(context: HandlerContext, payload: Payload) -> None:
    """Handle a button. Raise a Refusal that says why nothing changed."""
    click = approval_card.parse_card_click(payload)
    on = await load_approval_click(context, payload, click.approval)
    if (str((payload.get("channel") or {}).get("id", "")), _get_thread_ts(payload)) != (on.origin.channel, on.origin.thread_ts):
        raise StaleCard
    async with repaint_after(on):
        await admit_voter(on)
        await context.require_permission(f"button.{payload['actions'][0]['action_id']}", on.voter.user, on.origin.channel, on.origin)
        await _CLICK_HANDLERS[click.does](on, click)


async def handle_reject_form(context: HandlerContext, payload: Payload) -> None:
    """Handle the reject form. Raise BadForm for correctable errors."""
    rejection = modals.parse_reject_form(payload)
    on = await load_approval_click(context, payload, rejection.approval)
    delivery = f"view.{payload['view']['id']}.{on.voter}"
    async with repaint_after(on):
        await admit_voter(on)
        await run_decision(
            on,
            on.decisions.cast_vote(rejection.approval, rejection.digest, str(on.voter), "deny", delivery=delivery, reason=rejection.reason),
        )


async def handle_edit_form(context: HandlerContext, payload: Payload) -> None:
    """Handle the edit form. Raise BadForm with an error for each wrong field."""
    asked = modals.parse_edit_form(payload)
    on = await load_approval_click(context, payload, asked.approval)
    async with repaint_after(on):
        await admit_voter(on)
        await context.require_permission(f"form.{modals.EDIT_CALLBACK_ID}", on.voter.user, on.origin.channel, on.origin)
        _require_same_digest(on.record, asked.digest)
        args = modals.validate_edit(asked, on.record.action)
        await run_decision(on, _apply_edit(on, asked.digest, args))


async def _apply_edit(click: ApprovalClick, digest: str, args: Mapping[str, str]) -> None:
    try:
        await click.decisions.edit_action(click.record.approval, digest, str(click.voter), args)
    except BadArgument as error:
        raise modals.build_edit_error(click.record.action, str(error)) from error


def _get_thread_ts(payload: Payload) -> str:
    return str((payload.get("container") or {}).get("thread_ts") or "")


def _require_same_digest(record: ActionRecord, digest: str) -> None:
    if record.digest != digest:
        raise LedgerSays(WrongDigest())


def _require_state(record: ActionRecord, *states: State) -> None:
    """Refuse before the voter fills in a form; the ledger checks again."""
    if record.state not in states:
        raise Refusal(f"The action is {record.state} by now; nothing was changed.")


async def _approve(on: ApprovalClick, click: CardClick) -> None:
    delivery = _build_delivery_id(on.payload, on.voter)
    await run_decision(on, on.decisions.cast_vote(click.approval, click.digest, str(on.voter), "approve", delivery=delivery))


async def _approve_all(on: ApprovalClick, click: CardClick) -> None:
    await run_decision(on, _approve_each(on, click))


async def _approve_each(on: ApprovalClick, click: CardClick) -> None:
    """Vote on each action separately, and report the votes that did not count."""
    votes = await on.decisions.approve_actions(click.each, str(on.voter), delivery=_build_delivery_id(on.payload, on.voter))
    if any(vote.refusal is not None for vote in votes):
        on.context.tasks.spawn_task("told", post_ephemeral(on, vote_summary.render_vote_summary(votes)))


async def _show_all(on: ApprovalClick, click: CardClick) -> None:
    records: list[ActionRecord] = []
    known: dict[str, Sequence[tuple[str, str]]] = {}
    approvals = require_approvals(on.context)
    async with guard_store():
        for name, _ in click.each:
            with suppress(Refused):  # what cannot be read is not on the card either
                records.append(await approvals.brakes.get_record(name))
                known[name] = await approvals.cards.list_known_rows(records[-1])
    if any(record.action.incident != on.record.action.incident for record in records):
        raise StaleCard
    await on.context.client.views_open(trigger_id=str(on.payload["trigger_id"]), view=modals.render_all_actions(records, known))


async def _open_reject_form(on: ApprovalClick, click: CardClick) -> None:
    _require_same_digest(on.record, click.digest)
    _require_state(on.record, State.PENDING)
    if str(on.voter) not in on.record.terms.approvers:
        raise LedgerSays(await build_not_approver_error(on))
    await on.context.client.views_open(trigger_id=str(on.payload["trigger_id"]), view=modals.render_reject_form(on.record))


async def _open_edit_form(on: ApprovalClick, click: CardClick) -> None:
    _require_same_digest(on.record, click.digest)
    _require_state(on.record, State.PENDING)
    await on.context.client.views_open(trigger_id=str(on.payload["trigger_id"]), view=modals.render_edit_form(on.record))


async def _revoke(on: ApprovalClick, click: CardClick) -> None:
    _require_same_digest(on.record, click.digest)
    await run_decision(on, on.decisions.revoke_action(click.approval, click.digest, str(on.voter), REVOKED_FROM_CARD))


async def _request_again(on: ApprovalClick, click: CardClick) -> None:
    _require_same_digest(on.record, click.digest)
    _require_state(on.record, State.EXPIRED)
    await run_decision(on, on.decisions.propose_again(click.approval, click.digest, str(on.voter)))


async def _release_next_wave(on: ApprovalClick, click: CardClick) -> None:
    _require_same_digest(on.record, click.digest)
    await run_decision(on, on.decisions.release_next_wave(click.approval, click.digest, str(on.voter)))


async def _record_outcome(on: ApprovalClick, click: CardClick) -> None:
    _require_same_digest(on.record, click.digest)
    ran = click.does == "ran"
    note = f"pressed {'It ran' if ran else 'It did not run'} on its card"
    await run_decision(on, on.decisions.resolve_unknown_outcome(click.approval, click.digest, str(on.voter), ran, note))


def _build_delivery_id(payload: Payload, voter: Voter) -> str:
    """Return the click's id: the same if the payload is sent again."""
    action = payload["actions"][0]
    where = payload.get("container") or {}
    return f"{voter}.{where.get('channel_id')}.{where.get('message_ts')}.{action['action_id']}.{action['action_ts']}"


_CLICK_HANDLERS: Mapping[approval_card.ClickAction, Callable[[ApprovalClick, CardClick], Awaitable[None]]] = {
    "approve": _approve,
    "reject_form": _open_reject_form,
    "edit_form": _open_edit_form,
    "revoke": _revoke,
    "ask_again": _request_again,
    "ran": _record_outcome,
    "not_ran": _record_outcome,
    "approve_all": _approve_all,
    "show_all": _show_all,
    "let_go": _release_next_wave,
}
