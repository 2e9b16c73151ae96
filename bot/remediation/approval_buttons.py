"""Handlers of approval cards: identify the voter, decide while Slack waits, update the card."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import structlog

from bot.cards.blocks import Card
from bot.cards.buttons import BadForm, StaleCard
from bot.incidents.cards import notes
from bot.incidents.context import HandlerContext, LedgerSays, require_approvals, translate_ledger_errors
from bot.policy import channels
from bot.policy.channels import SlackPlace
from bot.refusal import Refusal
from bot.remediation.action_runner import ActionCardPublisher
from bot.remediation.approval_decisions import ApprovalDecisions
from bot.remediation.cards import approval_card, modals, outcomes
from bot.remediation.cards.approval_card import CardClick
from bot.slack.client import build_message_args
from bot.slack.handlers import SlackHandlers
from bot.slack.payloads import Payload
from bot.store.unreachable import StoreUnreachable, guard_store
from graph.state import Origin
from tools.ledger.record import ActionRecord, NotAnApprover, Refused, WrongDigest
from tools.ledger.states import State
from tools.remedies.remedy import BadArgument

# Update a card with retries when Slack fails.

log = structlog.get_logger()
# After the last try only the runner's next update corrects the card.
RETRY_DELAYS_SECONDS = (1.0, 3.0, 10.0, 20.0, 30.0)


async def update_card_with_retries(
    show: ActionCardPublisher, record: ActionRecord, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> bool:
    """Return whether the card was updated in the end."""
    for seconds in (*RETRY_DELAYS_SECONDS, None):
        try:
            await show.update_card(record)
        except Exception as error:
            log.warning(
                "card.not_painted", approval=record.approval, error=f"{type(error).__name__}: {error}"[:300]
            )  # any error may be temporary
        else:
            return True
        if seconds is not None:
            await pause(seconds)
    return False


# Identify the voter of a click, and run the decision while Slack waits.
#
# The voter comes only from Slack's own payload: an active human full member of the incident's own workspace, in a channel
# not shared at this moment.

DECISION_PENDING = "I am at it, and ask the host first. The card will show it; I say here if it cannot be done."
MAX_NAMED_APPROVERS = 5
DECISION_TIMEOUT_SECONDS = 120.0  # After this the store counts as unreachable.


@dataclass(frozen=True, slots=True)
class Voter:
    """Who clicked, from the payload's user only."""

    team: str
    user: str

    def __str__(self) -> str:
        return f"{self.team}:{self.user}"


@dataclass(frozen=True, slots=True)
class ApprovalClick:
    """A click or form on an action of this thread."""

    context: HandlerContext
    decisions: ApprovalDecisions
    record: ActionRecord
    origin: Origin
    voter: Voter
    payload: Payload


@asynccontextmanager
async def repaint_after(click: ApprovalClick) -> AsyncIterator[None]:
    """Update the card in any case: a click that changed nothing came from an outdated card."""
    try:
        yield
    finally:
        _spawn_repaint(click)


def _spawn_repaint(click: ApprovalClick) -> None:
    click.context.tasks.spawn_task("approval_card", update_card_with_retries(require_approvals(click.context).cards, click.record))


async def run_decision(click: ApprovalClick, work: Awaitable[object]) -> None:
    """Wait as long as Slack waits. A longer decision continues in the background and reports refusals."""
    task = asyncio.ensure_future(_await_decision(click, work))
    await asyncio.wait({task}, timeout=require_approvals(click.context).patience)
    if task.done():
        task.result()
    else:
        click.context.tasks.spawn_task("told", post_ephemeral(click, notes.render_in_progress(DECISION_PENDING)))
        click.context.tasks.spawn_task("decision", _finish_in_background(click, task))


async def _await_decision(click: ApprovalClick, work: Awaitable[object]) -> None:
    async with guard_store(DECISION_TIMEOUT_SECONDS), translate_ledger_errors():
        try:
            await work
        except NotAnApprover as error:
            raise await build_not_approver_error(click) from error


async def build_not_approver_error(click: ApprovalClick) -> NotAnApprover:
    """Name the approvers without mentioning them."""
    users = sorted(who.partition(":")[2] for who in click.record.terms.approvers - {str(click.voter)})
    names = [await click.context.people.get_name(user) for user in users[:MAX_NAMED_APPROVERS]]
    rest = [f"{len(users) - MAX_NAMED_APPROVERS} more"] if len(users) > MAX_NAMED_APPROVERS else []
    may = f" Those who may: {', '.join(names + rest)}." if names else ""
    return NotAnApprover(f"{NotAnApprover.__doc__}{may}")


async def _finish_in_background(click: ApprovalClick, task: Awaitable[None]) -> None:
    try:
        await task
    except (Refusal, BadForm) as error:
        await post_ephemeral(click, notes.render_refusal(str(error)))
    except StoreUnreachable:
        await post_ephemeral(click, notes.render_not_stored(will_retry=False))
    except Exception:
        reference = secrets.token_hex(4)
        log.exception("approval_click.failed", reference=reference, approval=click.record.approval)
        await post_ephemeral(click, notes.render_internal_error(reference, notes.DECISION_ERROR_TEXT))
    finally:
        _spawn_repaint(click)


async def post_ephemeral(click: ApprovalClick, card: Card) -> None:
    await click.context.client.chat_postEphemeral(
        channel=click.origin.channel, user=click.voter.user, thread_ts=click.origin.thread_ts, **build_message_args(card)
    )


async def load_approval_click(context: HandlerContext, payload: Payload, name: str) -> ApprovalClick:
    """Load the record and its thread. A form has no channel; it counts in that thread."""
    approvals, voter = require_approvals(context), parse_voter(payload)
    async with guard_store(), translate_ledger_errors():
        record = await approvals.book.get_record(name)
        origin = await context.inbox.get_origin(record.action.incident)
    if origin is None or origin.kind != "slack":
        raise StaleCard
    return ApprovalClick(context, approvals.decisions, record, origin, voter, payload)


async def admit_voter(click: ApprovalClick) -> None:
    if click.voter.team != click.origin.team:
        raise channels.NotAllowed(channels.NOT_FULL_MEMBER_TEXT)
    await click.context.admit_user(SlackPlace(click.voter.team, click.origin.channel), click.voter.user, fresh=True)


def parse_voter(payload: Payload) -> Voter:
    """Return the payload's user. Never trust Bolt's context or any text."""
    user = payload.get("user") or {}
    if not user.get("id") or not user.get("team_id"):
        raise channels.NotAllowed(channels.NOT_FULL_MEMBER_TEXT)
    return Voter(str(user["team_id"]), str(user["id"]))


# Handlers of buttons and forms on approval cards.
#
# Text, reactions and replies approve nothing: only an action's own buttons and forms change it.

REVOKED_FROM_CARD = "revoked on its card"


def build_approval_handlers(context: HandlerContext) -> SlackHandlers:
    return SlackHandlers(
        clicks=dict.fromkeys(approval_card.BUTTONS, partial(handle_click, context)),
        forms={
            modals.REJECT_CALLBACK_ID: partial(handle_reject_form, context),
            modals.EDIT_CALLBACK_ID: partial(handle_edit_form, context),
        },
        decides=True,
    )


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
        raise LedgerSays(WrongDigest(WrongDigest.__doc__))


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
    if any(vote.no is not None for vote in votes):
        on.context.tasks.spawn_task("told", post_ephemeral(on, outcomes.render_vote_summary(votes)))


async def _show_all(on: ApprovalClick, click: CardClick) -> None:
    records: list[ActionRecord] = []
    known: dict[str, Sequence[tuple[str, str]]] = {}
    approvals = require_approvals(on.context)
    async with guard_store():
        for name, _ in click.each:
            with suppress(Refused):  # what cannot be read is not on the card either
                records.append(await approvals.book.get_record(name))
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
