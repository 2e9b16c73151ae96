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
from bot.incidents.cards import home, notes, return_buttons
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
from bot.incidents.handlers.services import HomeServices
from bot.policy import channels as policy
from bot.policy.channels import SlackPlace
from bot.refusal import Refusal
from bot.remediation.approval_clicks import DECISION_TIMEOUT_SECONDS, Voter, parse_voter
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


async def publish_home_tab(services: HomeServices, user: str, team: str, note: str = "") -> None:
    """Publish a user's tab; non-operators get one sentence. `note` is shown first."""
    try:
        await require_operator(services.context, user, team)
        view = home.render_home_tab(await _build_home_tab(services, user, team, note), services.context.clock.now())
    except Refusal as error:
        view = home.render_refused_home(str(error))
    except StoreUnreachable:
        view = home.render_refused_home("My store does not answer, so I cannot say what is open. Try again in a minute.")
    await services.context.client.views_publish(user_id=user, view=view)


async def require_operator(context: HandlerContext, user: str, team: str) -> None:
    """Raise a refusal unless the user may see incidents."""
    policy.require_colleague(await context.people.get_person(user), team)
    if not await context.people.is_in_any(user, policy.list_operator_channels(context.channel_bindings)):
        raise policy.NotAllowed(policy.NOT_A_MEMBER_TEXT)


async def _build_home_tab(services: HomeServices, user: str, team: str, note: str) -> HomeTab:
    incidents = await list_open_and_drained(services.open_work)
    titles = {label: title for rows in services.label_choices.values() for label, title in rows}
    pending_approvals, brake_status = await _render_remediation_status(services, f"{team}:{user}", incidents)
    return HomeTab(
        incidents,
        user,
        titles,
        pending_approvals=pending_approvals,
        quota_waits=await render_quota_waits(services.open_work),
        brakes=brake_status,
        note=note,
        fleet=await _render_fleet(services, incidents, titles),
        unserved_channels=await _list_unserved_channels(services),
    )


async def _render_fleet(services: HomeServices, incidents: list[OpenIncident], titles: Mapping[str, str]) -> list[Block]:
    async with guard_store():
        metrics, _ = await services.incident_metrics.list_since(services.context.clock.now() - FLEET_HISTORY_WINDOW)
    groups = home.summarize_groups(services.host_groups, incidents)
    cause_counts = home.count_causes((metric.labels for metric in metrics), titles)
    counted_incidents = MAX_INCIDENTS if len(incidents) >= MAX_INCIDENTS else 0
    return home.render_fleet(groups, cause_counts, FLEET_HISTORY_WINDOW.days, counted_incidents)


async def _list_unserved_channels(services: HomeServices) -> dict[str, bool | None]:
    """Return the operator channels that another organisation reads (True), or for which Slack does not say (None)."""

    async def load_sharing(channel: str) -> bool | None:
        try:
            return await services.context.people.is_shared(channel)
        except Refusal:
            return None

    channels = policy.list_operator_channels(services.context.channel_bindings)
    sharing = await asyncio.gather(*(load_sharing(channel) for channel in channels))
    return {channel: is_shared for channel, is_shared in zip(channels, sharing, strict=True) if is_shared is not False}


async def _render_remediation_status(services: HomeServices, voter: str, incidents: list[OpenIncident]) -> tuple[list[Block], list[Block]]:
    """Return the approvals that wait for this voter, and the state of the brakes. Both are empty where nothing can be approved."""
    brake_status = await get_brake_status(services.open_work)
    allowance = await get_remaining_room(services.open_work, incidents)
    if brake_status is None or allowance is None:
        return [], []
    pending_actions = await list_pending_actions(services.open_work, voter)
    pending_approvals = brakes.render_waiting_approvals(pending_actions, "No action waits for your decision.")
    return pending_approvals, [*brakes.render_brake_status(brake_status), *brakes.render_change_allowance(allowance)]


@dataclass(frozen=True, slots=True)
class ReturnRequest:
    """A click that asks for a node's return."""

    services: HomeServices
    click: ButtonClick
    origin: Origin
    voter: Voter
    at_home: bool

    async def notify_requester(self, card: Card) -> None:
        if self.at_home:
            await publish_home_tab(self.services, self.voter.user, self.voter.team, note=card.text)
            return
        channel, thread = self.origin.channel, self.origin.thread_ts
        await self.services.context.client.chat_postEphemeral(
            channel=channel, user=self.voter.user, thread_ts=thread, **build_message_args(card)
        )


async def handle_return_click(services: HomeServices, payload: Payload) -> None:
    """Start a return request in the background. Raises Refusal without approvals or for an old button."""
    click, voter = return_buttons.parse_return_click(payload), parse_voter(payload)
    require_approvals(services.context)
    async with guard_store():
        origin = await services.context.inbox.get_origin(click.incident)
    if origin is None or origin.kind != "slack":
        raise OldButton
    services.context.tasks.spawn_task(
        "return", _request_return(ReturnRequest(services, click, origin, voter, _is_home_tab(payload)), _get_thread(payload))
    )


async def _request_return(request: ReturnRequest, thread: tuple[str, str]) -> None:
    try:
        await _authorize_return(request, thread)
        await request.notify_requester(notes.render_in_progress(LOOKING_AT_NODE))
        async with guard_store(DECISION_TIMEOUT_SECONDS), translate_ledger_errors():
            record = await require_approvals(request.services.context).decisions.propose_return(
                request.click.incident, request.click.item, str(request.voter)
            )
        card = notes.render_in_progress(
            f"{record.action.target} no longer shows its fault: its return to service waits for approval in the incident's thread."
        )
    except Refusal as error:
        card = notes.render_refusal(str(error))
    except StoreUnreachable:
        card = notes.render_not_stored(will_retry=False)
    except Exception:
        reference = secrets.token_hex(4)
        log.exception("home.bug", reference=reference, incident=request.click.incident)
        card = notes.render_internal_error(reference, notes.DECISION_ERROR_TEXT)
    await request.notify_requester(card)


async def _authorize_return(request: ReturnRequest, thread: tuple[str, str]) -> None:
    """Accept a click in the incident's thread, or on an operator's Home tab."""
    if request.voter.team != request.origin.team:
        raise policy.NotAllowed(policy.NOT_FULL_MEMBER_TEXT)
    await request.services.context.admit_user(SlackPlace(request.voter.team, request.origin.channel), request.voter.user, fresh=True)
    await request.services.context.require_permission(
        f"button.{return_buttons.ASK_RETURN_ACTION_ID}", request.voter.user, request.origin.channel, request.origin
    )
    if request.at_home:
        await require_operator(request.services.context, request.voter.user, request.voter.team)
    elif thread != (request.origin.channel, request.origin.thread_ts):
        raise OldButton


async def handle_quota_waiver(services: HomeServices, payload: Payload) -> None:
    """Let a tenant's waiting incident begin. A refusal is raised, or shown on the Home tab."""
    click, voter = quota_waiting.parse_let_in_click(payload), parse_voter(payload)
    channel = "" if _is_home_tab(payload) else str((payload.get("channel") or {}).get("id", ""))
    try:
        text = await _waive_quota(services, click.incident, voter, channel)
    except Refusal as error:
        if channel:
            raise
        text = str(error)
    if channel:
        thread = (payload.get("container") or {}).get("thread_ts")
        post = services.context.client.chat_postEphemeral(
            channel=channel, user=voter.user, thread_ts=thread, **build_message_args(notes.render_in_progress(text))
        )
        services.context.tasks.spawn_task("let_in", post)
    else:
        services.context.tasks.spawn_task("let_in", publish_home_tab(services, voter.user, voter.team, note=text))


async def _waive_quota(services: HomeServices, incident: str, voter: Voter, channel: str) -> str:
    async with guard_store():
        origin = await services.context.inbox.get_origin(incident)
    if origin is None or not origin.tenant:
        raise OldButton
    if voter.team != (origin.team or str((await services.context.client.auth_test())["team_id"])):  # a ticket has no thread yet
        raise policy.NotAllowed(policy.NOT_FULL_MEMBER_TEXT)
    if not channel:
        await require_operator(services.context, voter.user, voter.team)
    await services.context.admit_user(SlackPlace(voter.team, channel or origin.channel), voter.user, fresh=True)
    await services.context.require_permission(f"button.{quota_waiting.LET_IN_ACTION_ID}", voter.user, channel or origin.channel)
    async with guard_store():
        if not await services.open_work.quota_waiting_list.let_in_incident(origin.tenant, incident):
            raise Refusal(ALREADY_BEGUN)
    log.info("quota.let_in", incident=incident, tenant=origin.tenant, by=str(voter))
    services.context.notify_stored(incident)
    return QUOTA_WAIVED.format(tenant=origin.tenant)


def _is_home_tab(payload: Payload) -> bool:
    return str((payload.get("container") or {}).get("type", "")) == "view"


def _get_thread(payload: Payload) -> tuple[str, str]:
    """Return channel and thread of the clicked message."""
    container = payload.get("container") or {}
    channel = (payload.get("channel") or {}).get("id", "")
    return str(channel), str(container.get("thread_ts") or container.get("message_ts") or "")
