"""The Home tab, returns of drained nodes, and quota waivers.

Checking a node outlasts Slack's timeout, so the result comes later: as an ephemeral note, or above the list on the Home
tab.
"""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog

from bot.cards.blocks import Block, Card
from bot.cards.buttons import ButtonClick, OldButton
from bot.incidents.cards import drained_nodes, fleet, home, notes
from bot.incidents.cards.home import HomeTab, OpenIncident
from bot.incidents.context import HandlerContext, require_approvals, translate_ledger_errors
from bot.incidents.handlers.open_work import (
    MAX_INCIDENTS,
    get_brake_status,
    get_remaining_room,
    list_open_and_drained,
    list_pending_actions,
    render_quota_waits,
)
from bot.policy import channels as policy
from bot.policy.channels import SlackPlace
from bot.refusal import Refusal
from bot.remediation.approval_click import DECISION_TIMEOUT_SECONDS, Voter, parse_voter
from bot.remediation.cards import brakes
from bot.slack.client import build_message_args
from bot.slack.payloads import Payload
from bot.store.unreachable import StoreUnreachable, guard_store
from bot.tenants.cards import quota_waiting
from graph.state import Origin

log = structlog.get_logger()
FLEET_HISTORY_WINDOW = timedelta(days=30)  # for counting causes
LOOKING_AT_NODE = "I check the node first and report here."
QUOTA_WAIVED = "The report of {tenant} starts now, despite their limit."
ALREADY_BEGUN = "That report has already started. `status` lists the reports that still wait."


def handle_home_opened(handler_context: HandlerContext, payload: Payload) -> None:
    """Publish the Home tab, or greet the user on the tab of messages."""
    event = payload["event"]
    if event.get("tab", "home") == "home":
        work = publish_home_tab(handler_context, str(event["user"]), str(payload.get("team_id", "")))
        handler_context.tasks.spawn_task("home", work)
    elif event["tab"] == "messages":
        handler_context.direct.greet(str(event["channel"]))


async def publish_home_tab(handler_context: HandlerContext, user: str, team: str, note: str = "") -> None:
    """Publish a user's tab; non-operators get one sentence. `note` is shown first."""
    try:
        await require_operator(handler_context, user, team)
        view = home.render_home_tab(await _build_home_tab(handler_context, user, team, note), handler_context.clock.now())
    except Refusal as error:
        view = home.render_refused_home(str(error))
    except StoreUnreachable:
        view = home.render_refused_home("My store does not answer, so I cannot say what is open. Try again in a minute.")
    await handler_context.client.views_publish(user_id=user, view=view)


async def require_operator(handler_context: HandlerContext, user: str, team: str) -> None:
    """Raise a refusal unless the user may see incidents."""
    policy.require_colleague(await handler_context.people.get_person(user), team)
    if not await handler_context.people.is_in_any(user, policy.list_operator_channels(handler_context.bound)):
        raise policy.NotAllowed(policy.NOT_A_MEMBER_TEXT)


async def _build_home_tab(handler_context: HandlerContext, user: str, team: str, note: str) -> HomeTab:
    incidents = await list_open_and_drained(handler_context)
    titles = {label: title for rows in handler_context.offered.values() for label, title in rows}
    mine, standing = await _render_remediation_status(handler_context, f"{team}:{user}", incidents)
    glance = await _render_fleet(handler_context, incidents, titles)
    return HomeTab(
        incidents,
        user,
        titles,
        mine,
        await render_quota_waits(handler_context),
        standing,
        note,
        glance,
        await _list_unserved_channels(handler_context),
    )


async def _render_fleet(handler_context: HandlerContext, incidents: list[OpenIncident], titles: Mapping[str, str]) -> list[Block]:
    found = None
    if handler_context.courses is not None:
        async with guard_store():
            courses, _ = await handler_context.courses.list_since(handler_context.clock.now() - FLEET_HISTORY_WINDOW)
        found = fleet.count_causes((row.labels for row in courses), titles)
    oldest = MAX_INCIDENTS if len(incidents) >= MAX_INCIDENTS else 0
    return fleet.render_fleet(fleet.summarize_groups(handler_context.groups, incidents), found, FLEET_HISTORY_WINDOW.days, oldest)


async def _list_unserved_channels(handler_context: HandlerContext) -> dict[str, bool | None]:
    """Return operator channels that others read (True) or may read (None)."""

    async def shared(channel: str) -> bool | None:
        try:
            return await handler_context.people.is_shared(channel)
        except Refusal:
            return None

    ours = policy.list_operator_channels(handler_context.bound)
    found = await asyncio.gather(*(shared(channel) for channel in ours))
    return {channel: by_others for channel, by_others in zip(ours, found, strict=True) if by_others is not False}


async def _render_remediation_status(
    handler_context: HandlerContext, voter: str, incidents: list[OpenIncident]
) -> tuple[list[Block], list[Block]]:
    now, room = await get_brake_status(handler_context), await get_remaining_room(handler_context, incidents)
    if now is None or room is None:
        return [], []
    mine = brakes.render_waiting_approvals(await list_pending_actions(handler_context, voter), "No action waits for your decision.")
    return mine, [*brakes.render_brake_status(now), *brakes.render_change_allowance(room)]


@dataclass(frozen=True, slots=True)
class ReturnRequest:
    """A click that asks for a node's return."""

    surface: HandlerContext
    pressed: ButtonClick
    origin: Origin
    voter: Voter
    at_home: bool

    async def notify_requester(self, card: Card) -> None:
        if self.at_home:
            await publish_home_tab(self.surface, self.voter.user, self.voter.team, note=card.text)
            return
        channel, thread = self.origin.channel, self.origin.thread_ts
        await self.surface.client.chat_postEphemeral(channel=channel, user=self.voter.user, thread_ts=thread, **build_message_args(card))


async def handle_return_click(handler_context: HandlerContext, payload: Payload) -> None:
    """Start a return request in the background. Raises Refusal."""
    pressed, voter = drained_nodes.parse_return_click(payload), parse_voter(payload)
    require_approvals(handler_context)
    async with guard_store():
        origin = await handler_context.inbox.get_origin(pressed.incident)
    if origin is None or origin.kind != "slack":
        raise OldButton
    handler_context.tasks.spawn_task(
        "return", _request_return(ReturnRequest(handler_context, pressed, origin, voter, _is_home_tab(payload)), _get_thread(payload))
    )


async def _request_return(on: ReturnRequest, thread: tuple[str, str]) -> None:
    try:
        await _authorize_return(on, thread)
        await on.notify_requester(notes.render_in_progress(LOOKING_AT_NODE))
        async with guard_store(DECISION_TIMEOUT_SECONDS), translate_ledger_errors():
            found = await require_approvals(on.surface).decisions.propose_return(on.pressed.incident, on.pressed.item, str(on.voter))
        card = notes.render_in_progress(
            f"{found.action.target} no longer shows its fault: its return to service waits for approval in the incident's thread."
        )
    except Refusal as error:
        card = notes.render_refusal(str(error))
    except StoreUnreachable:
        card = notes.render_not_stored(will_retry=False)
    except Exception:
        reference = secrets.token_hex(4)
        log.exception("home.bug", reference=reference, incident=on.pressed.incident)
        card = notes.render_internal_error(reference, notes.DECISION_ERROR_TEXT)
    await on.notify_requester(card)


async def _authorize_return(on: ReturnRequest, thread: tuple[str, str]) -> None:
    """Accept a click in the incident's thread, or on an operator's Home tab."""
    if on.voter.team != on.origin.team:
        raise policy.NotAllowed(policy.NOT_FULL_MEMBER_TEXT)
    await on.surface.admit_user(SlackPlace(on.voter.team, on.origin.channel), on.voter.user, fresh=True)
    await on.surface.require_permission(f"button.{drained_nodes.ASK_RETURN_ACTION_ID}", on.voter.user, on.origin.channel, on.origin)
    if on.at_home:
        await require_operator(on.surface, on.voter.user, on.voter.team)
    elif thread != (on.origin.channel, on.origin.thread_ts):
        raise OldButton


async def handle_quota_waiver(handler_context: HandlerContext, payload: Payload) -> None:
    """Let a tenant's waiting incident begin. A refusal is raised, or shown on the Home tab."""
    pressed, voter = quota_waiting.parse_let_in_click(payload), parse_voter(payload)
    channel = "" if _is_home_tab(payload) else str((payload.get("channel") or {}).get("id", ""))
    try:
        words = await _waive_quota(handler_context, pressed.incident, voter, channel)
    except Refusal as error:
        if channel:
            raise
        words = str(error)
    if channel:
        thread = (payload.get("container") or {}).get("thread_ts")
        work = handler_context.client.chat_postEphemeral(
            channel=channel, user=voter.user, thread_ts=thread, **build_message_args(notes.render_in_progress(words))
        )
        handler_context.tasks.spawn_task("let_in", work)
    else:
        handler_context.tasks.spawn_task("let_in", publish_home_tab(handler_context, voter.user, voter.team, note=words))


async def _waive_quota(handler_context: HandlerContext, incident: str, voter: Voter, channel: str) -> str:
    async with guard_store():
        origin = await handler_context.inbox.get_origin(incident)
    if handler_context.waits is None or origin is None or not origin.tenant:
        raise OldButton
    if voter.team != (origin.team or str((await handler_context.client.auth_test())["team_id"])):  # a ticket has no thread yet
        raise policy.NotAllowed(policy.NOT_FULL_MEMBER_TEXT)
    if not channel:
        await require_operator(handler_context, voter.user, voter.team)
    await handler_context.admit_user(SlackPlace(voter.team, channel or origin.channel), voter.user, fresh=True)
    await handler_context.require_permission(f"button.{quota_waiting.LET_IN_ACTION_ID}", voter.user, channel or origin.channel)
    async with guard_store():
        if not await handler_context.waits.let_in_incident(origin.tenant, incident):
            raise Refusal(ALREADY_BEGUN)
    log.info("quota.let_in", incident=incident, tenant=origin.tenant, by=str(voter))
    handler_context.notify_stored(incident)
    return QUOTA_WAIVED.format(tenant=origin.tenant)


def _is_home_tab(payload: Payload) -> bool:
    return str((payload.get("container") or {}).get("type", "")) == "view"


def _get_thread(payload: Payload) -> tuple[str, str]:
    where = payload.get("container") or {}
    return str((payload.get("channel") or {}).get("id", "")), str(where.get("thread_ts") or where.get("message_ts") or "")
