"""Who clicked on which action, and carrying their word to the ledger's side while Slack waits.

Who it is comes from the user in Slack's own payload and nowhere else: team and id together, active, human, no guest, of the incident's
own workspace, in a channel that nobody else reads at this moment.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from bot.actions.decisions import Decisions
from bot.actions.repaint import repaint
from bot.cards.blocks import Card
from bot.cards.buttons import BadForm, Stale
from bot.cards.incidents import notes
from bot.policy import channels
from bot.policy.channels import Place
from bot.refusal import Refusal
from bot.slack.client import said
from bot.slack.context import StoreAway, Surface, approvals_of, ledger, storing
from bot.slack.incoming.payloads import Payload
from graph.state import Origin
from tools.ledger.record import NotAnApprover, Record

log = structlog.get_logger()
NOT_YET = "I am at it, and ask the host first. The card will show it; I say here if it cannot be done."
MOST_NAMED = 5
LONGEST = 120.0
"""Seconds after which the store counts as away, once Slack has its answer."""


@dataclass(frozen=True, slots=True)
class Voter:
    """Somebody who clicked, from the payload's user alone."""

    team: str
    user: str

    def __str__(self) -> str:
        return f"{self.team}:{self.user}"


@dataclass(frozen=True, slots=True)
class Pressed:
    """A click or form by somebody who may speak, on an action of this thread."""

    surface: Surface
    decisions: Decisions
    record: Record
    origin: Origin
    voter: Voter
    payload: Payload


@asynccontextmanager
async def painted(on: Pressed) -> AsyncIterator[None]:
    """Whatever comes of it, the card shows what the ledger holds: also a click that changed nothing came from an old card."""
    try:
        yield
    finally:
        _paint(on)


def _paint(on: Pressed) -> None:
    on.surface.tasks.spawn("approval_card", repaint(approvals_of(on.surface).cards, on.record))


async def decide(on: Pressed, work: Awaitable[object]) -> None:
    """Wait as long as Slack waits for us. What takes longer (a host is asked) goes on by itself, and is told if it is refused."""
    task = asyncio.ensure_future(_patiently(on, work))
    await asyncio.wait({task}, timeout=on.surface.patience)
    if task.done():
        task.result()
    else:
        on.surface.tasks.spawn("told", whisper(on, notes.goes_on(NOT_YET)))
        on.surface.tasks.spawn("decision", _later(on, task))


async def _patiently(on: Pressed, work: Awaitable[object]) -> None:
    async with storing(LONGEST), ledger():
        try:
            await work
        except NotAnApprover as no:
            raise await not_an_approver(on) from no


async def not_an_approver(on: Pressed) -> NotAnApprover:
    """The refusal, and who may instead: by name, which mentions nobody."""
    users = sorted(who.partition(":")[2] for who in on.record.terms.approvers - {str(on.voter)})
    names = [await on.surface.people.name(user) for user in users[:MOST_NAMED]]
    rest = [f"{len(users) - MOST_NAMED} more"] if len(users) > MOST_NAMED else []
    may = f" Those who may: {', '.join(names + rest)}." if names else ""
    return NotAnApprover(f"{NotAnApprover.__doc__}{may}")


async def _later(on: Pressed, task: Awaitable[None]) -> None:
    try:
        await task
    except (Refusal, BadForm) as no:
        await whisper(on, notes.refused(str(no)))
    except StoreAway:
        await whisper(on, notes.not_stored(will_retry=False))
    except Exception:
        reference = secrets.token_hex(4)
        log.exception("clicker.bug", reference=reference, approval=on.record.approval)
        await whisper(on, notes.bug(reference, notes.A_DECISION))
    finally:
        _paint(on)


async def whisper(on: Pressed, card: Card) -> None:
    """Tell whoever clicked, and nobody else."""
    await on.surface.client.chat_postEphemeral(channel=on.origin.channel, user=on.voter.user, thread_ts=on.origin.thread_ts, **said(card))


async def about(surface: Surface, payload: Payload, name: str) -> Pressed:
    """Who speaks about which record, and the thread of Slack that it belongs to. A form has no channel: it counts in that thread."""
    approvals, voter = approvals_of(surface), voter_of(payload)
    async with storing(), ledger():
        record = await approvals.book.record(name)
        origin = await surface.inbox.origin(record.action.incident)
    if origin is None or origin.kind != "slack":
        raise Stale
    return Pressed(surface, approvals.decisions, record, origin, voter, payload)


async def admit(on: Pressed) -> None:
    if on.voter.team != on.origin.team:
        raise channels.NotAllowed(channels.NOT_OURS)
    await on.surface.admit(Place(on.voter.team, on.origin.channel), on.voter.user, fresh=True)


def voter_of(payload: Payload) -> Voter:
    """Never from the context that Bolt makes up, never from what a text says."""
    user = payload.get("user") or {}
    if not user.get("id") or not user.get("team_id"):
        raise channels.NotAllowed(channels.NOT_OURS)
    return Voter(str(user["team_id"]), str(user["id"]))
