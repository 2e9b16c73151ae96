"""Identify the voter of a click, run the decision while Slack waits, and update the card afterwards.

The voter comes only from Slack's own payload: an active human full member of the incident's own workspace, in a channel
that is not shared at this moment.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from bot.cards.blocks import Card
from bot.cards.buttons import BadForm, StaleCard
from bot.incidents.cards import notes
from bot.incidents.context import HandlerContext, require_approvals, translate_ledger_errors
from bot.policy import channels
from bot.policy.channels import SlackPlace
from bot.refusal import Refusal
from bot.remediation.action_runner import ActionCardPublisher
from bot.remediation.approval_decisions import ApprovalDecisions
from bot.slack.client import build_message_args
from bot.slack.payloads import Payload
from bot.store.unreachable import StoreUnreachable, guard_store
from graph.state import Origin
from tools.ledger.record import ActionRecord
from tools.ledger.refusals import NotAnApprover

log = structlog.get_logger()
# After the last try only the runner's next update corrects the card.
RETRY_DELAYS_SECONDS = (1.0, 3.0, 10.0, 20.0, 30.0)
DECISION_PENDING = "I am at it, and ask the host first. The card will show it; I say here if it cannot be done."
MAX_NAMED_APPROVERS = 5
DECISION_TIMEOUT_SECONDS = 120.0  # After this the store counts as unreachable.


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
    await asyncio.wait({task}, timeout=require_approvals(click.context).ack_timeout_seconds)
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
    return NotAnApprover(f"{NotAnApprover.message}{may}")


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
        record = await approvals.brakes.get_record(name)
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
