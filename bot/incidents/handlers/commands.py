"""`/rackmedic help`, `status`, `stop`, `resume`, and answers to direct messages. Any operator may stop; only an
approver may resume.
"""

from bot.cards.blocks import Block, Card, build_card
from bot.incidents.cards import direct_messages, home
from bot.incidents.context import require_approvals, translate_ledger_errors
from bot.incidents.handlers import slack_markup
from bot.incidents.handlers.home import require_operator
from bot.incidents.handlers.open_work import get_brake_status, list_open_incidents, list_pending_actions, render_quota_waits
from bot.incidents.handlers.services import OpenWorkServices
from bot.policy import channels as policy
from bot.policy.channels import SlackPlace
from bot.refusal import Refusal
from bot.remediation.cards import brakes
from bot.slack.payloads import Payload
from bot.store.unreachable import guard_store
from bot.tenants.cards.phrases import get_phrase
from graph.state import Origin

NO_SUCH_BREAKER = "No breaker of that group is open. `/rackmedic status` lists those that are."
UNKNOWN_COMMAND = (
    "I know `/rackmedic status`, `/rackmedic stop [why]`, `/rackmedic resume` and `/rackmedic help`. "
    "To begin a diagnosis, mention me in the incident channel."
)


async def handle_command(services: OpenWorkServices, payload: Payload) -> Card:
    """Handle `/rackmedic …`. Return the card that its user sees."""
    command, _, argument = slack_markup.render_plain_text(str(payload.get("text") or "")).strip().partition(" ")
    match command.lower(), argument.strip():
        case ("" | "help", _):
            return home.render_help(slack_markup.list_help_rows())
        case ("stop", reason):
            return await _handle_stop(services, payload, reason)
        case ("resume", group):
            return await _handle_resume(services, payload, group)
        case ("status", ""):
            return await _handle_status(services, payload)
        case _:
            raise Refusal(UNKNOWN_COMMAND)


async def answer_direct_message(services: OpenWorkServices, team: str, user: str, request: direct_messages.DirectRequest) -> Card:
    """Answer a direct message. Raises ChannelNotServed for strangers. Tenants are pointed to their channels."""
    person = await services.context.people.get_person(user)
    is_colleague = person.human and person.team == team
    if tenant_channels := await _list_tenant_channels(services, user, is_colleague=is_colleague):
        language = services.context.channel_bindings[tenant_channels[0]].language
        return direct_messages.render_other_channels(get_phrase("direct", language), tenant_channels)
    if not is_colleague:
        raise policy.ChannelNotServed("im")
    channels = policy.list_operator_channels(services.context.channel_bindings)[: policy.MAX_NAMED_CHANNELS]
    match request:
        case "help":
            return direct_messages.render_direct_help(channels)
        case "status":
            await require_operator(services.context, user, team)
            return await _render_own_status(services, user)
        case "approvals":
            await require_operator(services.context, user, team)
            actions = await list_pending_actions(services, f"{team}:{user}")
            approvals = brakes.render_waiting_approvals(actions, "No action waits for your decision.")
            return direct_messages.render_direct_approvals(approvals)
        case _:
            return direct_messages.render_not_answered_here(policy.REFUSAL_TEXTS["im"], channels)


async def _list_tenant_channels(services: OpenWorkServices, user: str, *, is_colleague: bool) -> list[str]:
    """Return the tenant channels that the user is in. A colleague who is in an operators' channel is treated as an operator."""
    context = services.context
    if not context.tenant_channels:
        return []
    if is_colleague and await context.people.is_in_any(user, policy.list_operator_channels(context.channel_bindings)):
        return []
    return [channel for channel in context.tenant_channels if await context.people.is_in_any(user, (channel,))]


async def _render_own_status(services: OpenWorkServices, user: str) -> Card:
    rows = await list_open_incidents(services)
    may = {channel for channel in {row.channel for row in rows} if channel and await services.context.people.is_in_any(user, (channel,))}
    mine = [row for row in rows if user in row.owners | {row.opened_by}]
    others = [row for row in rows if row not in mine and row.channel in may]
    return direct_messages.render_direct_status(
        mine, others, services.context.clock.now(), await render_quota_waits(services, buttons=False)
    )


async def _handle_status(services: OpenWorkServices, payload: Payload) -> Card:
    await services.context.admit_user(SlackPlace(str(payload["team_id"]), str(payload["channel_id"])), str(payload["user_id"]))
    await services.context.require_permission("command.status", str(payload["user_id"]), str(payload["channel_id"]))
    listed = home.render_incident_list(
        await list_open_incidents(services), services.context.clock.now(), await render_quota_waits(services)
    )
    return build_card("Open incidents", [*listed, *await _render_remediation_status(services)])


async def _handle_stop(services: OpenWorkServices, payload: Payload, reason: str) -> Card:
    """Stop all remedies and announce it."""
    who, user = await _authorize_command(services, payload, "stop")
    async with guard_store(), translate_ledger_errors():
        await require_approvals(services.context).brakes.stop(who, reason)
    return await _announce_to_operators(services, payload, brakes.render_stop_notice(await services.context.people.get_name(user), reason))


async def _handle_resume(services: OpenWorkServices, payload: Payload, group: str) -> Card:
    """Resume remedies; with a group, reset its breaker."""
    who, user = await _authorize_command(services, payload, "resume")
    ledger_brakes = require_approvals(services.context).brakes
    async with guard_store(), translate_ledger_errors():
        if group and group not in (await ledger_brakes.get_brake_status()).breakers:
            raise Refusal(NO_SUCH_BREAKER)
        await (ledger_brakes.reset_breaker(group, who) if group else ledger_brakes.resume(who))
    return await _announce_to_operators(services, payload, brakes.render_resume_notice(await services.context.people.get_name(user), group))


async def _render_remediation_status(services: OpenWorkServices) -> list[Block]:
    now = await get_brake_status(services)
    if now is None:
        return []
    return [
        *brakes.render_brake_status(now),
        *brakes.render_waiting_approvals(await list_pending_actions(services), "No action is waiting for approval."),
    ]


async def _authorize_command(services: OpenWorkServices, payload: Payload, word: str) -> tuple[str, str]:
    """Return (`TEAM:USER`, user). Raises Refusal if the user may not use the command."""
    team, user, channel = (str(payload[name]) for name in ("team_id", "user_id", "channel_id"))
    await services.context.admit_user(SlackPlace(team, channel), user, fresh=True)
    await services.context.require_permission(f"command.{word}", user, channel)
    return f"{team}:{user}", user


async def _announce_to_operators(services: OpenWorkServices, payload: Payload, note: Card) -> Card:
    for channel in policy.list_operator_channels(services.context.channel_bindings):
        key = f"{channel} brakes {payload.get('trigger_id') or services.context.clock.now().isoformat()}"
        await services.context.queue_reply(Origin(kind="slack", team=str(payload["team_id"]), channel=channel), key, note)
    return note
