"""Clicks, forms and shortcuts. Slack does not resend them, so each is stored or refused before the acknowledgement.

User and place come only from Slack's payload; a button counts only in its own incident's thread.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bot.cards.buttons import BadForm, ButtonClick, OldButton
from bot.incidents.cards import close_form, details, diagnosis, feedback, handoff_card, incident_menu, meant_buttons, questions
from bot.incidents.cards.close_form import IncidentClosure
from bot.incidents.cards.handoff_content import require_unresolved_ticket
from bot.incidents.handlers import slack_markup
from bot.incidents.handlers.feedback_clicks import handle_vote
from bot.incidents.handlers.forms import authorize_form_sender, open_form
from bot.incidents.handlers.open_or_join import open_or_join_incident
from bot.incidents.handlers.services import IncidentFormServices, MessageServices
from bot.policy.channels import SlackPlace
from bot.refusal import Refusal
from bot.slack.manifest import SHORTCUT
from bot.slack.payloads import Payload, get_full_text, get_thread_ts, parse_files, parse_slack_timestamp
from bot.store.unreachable import guard_store
from graph.dialogue.guessed import NEEDS
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage, get_parsed_message
from graph.incident_view import IncidentView
from graph.state import HandoffTicket, InboxItem, Origin
from tools.inventory.host_ranges import fold_host_names

CLICK_PARSERS: Mapping[str, Callable[[Payload], ButtonClick]] = {  # action id → the parser of its card
    **dict.fromkeys(diagnosis.BUTTONS, diagnosis.parse_diagnosis_click),
    **dict.fromkeys(questions.SELECT_ACTIONS, questions.parse_host_choice),
    **dict.fromkeys(handoff_card.BUTTONS, handoff_card.parse_ticket_click),
    feedback.VOTE_ACTION_ID: feedback.parse_feedback_click,
    incident_menu.MENU_ACTION_ID: incident_menu.parse_menu_choice,
    meant_buttons.MEANT_ACTION_ID: meant_buttons.parse_meant_click,
}
WRITE_AGAIN_TEXT = "I need the host, cause or fix for that, and other messages came since. Please write it in one line."
ALREADY_OPEN = "I am on this thread already. Reply there, or say `status` in it."


async def handle_click(services: IncidentFormServices, payload: Payload) -> None:
    """Store the click as an item of its incident's inbox, or open what it only shows. Raises Refusal if the user may not click."""
    action = payload["actions"][0]
    parse_click = CLICK_PARSERS.get(action.get("action_id", ""))
    if parse_click is None:
        raise OldButton
    click = parse_click(payload)
    team, channel, user = _parse_location(payload)
    await services.context.admit_user(SlackPlace(team, channel), user)
    await services.context.require_permission(f"button.{action['action_id']}", user, channel)
    async with guard_store():
        if await services.context.inbox.find_incident(team, channel, get_thread_ts(payload)) != click.incident:
            raise OldButton
    if action.get("action_id") == feedback.VOTE_ACTION_ID:
        await handle_vote(services, payload, team, channel, user)
        return
    if click.does == "meant":
        await _store_meant(services, click, payload)
        return
    if click.does in ("take", "wait", "close_form"):
        async with guard_store():
            state = await services.context.load_state(click.incident)
        require_unresolved_ticket(IncidentView(state).ticket or HandoffTicket(), click.does)
    if await _open_if_view_only(services, click, payload):
        return
    ts = str(action.get("action_ts") or payload.get("trigger_id"))
    key = f"{team}.{channel}.{get_thread_ts(payload)}.{action['action_id']}.{user}.{ts}"
    data = {"report": click.item} if click.item else {}
    await _store_item(services, key, click.does, click.incident, user, data, click.chosen)


async def _store_meant(services: IncidentFormServices, click: ButtonClick, payload: Payload) -> None:
    """Store the message that the click stands for, with the names of the message it answers while that is the latest one.

    Raises Refusal if the names that the intent needs are not known any more.
    """
    team, channel, user = _parse_location(payload)
    intent = Intent(click.chosen)
    await services.context.require_permission(f"intent.{intent}", user, channel)
    async with guard_store():
        latest = IncidentView(await services.context.load_state(click.incident)).item
    said = get_parsed_message(latest) if latest.id == click.item else None
    message = (said or ParsedMessage()).model_copy(update={"intent": intent, "sure": True, "suggestions": ()})
    if intent in NEEDS and not NEEDS[intent](message):
        raise Refusal(WRITE_AGAIN_TEXT)
    key = f"{team}.{channel}.{get_thread_ts(payload)}.{meant_buttons.MEANT_ACTION_ID}.{user}.{click.item}.{intent}"
    await _store_item(services, key, message.kind, click.incident, user, message.build_item_data(), message.text)


async def _open_if_view_only(services: IncidentFormServices, click: ButtonClick, payload: Payload) -> bool:
    """Open what the click only shows, and return True. Return False for a click that must be stored."""
    if click.does == "details":
        await _open_details(services, click, str(payload["trigger_id"]))
    elif click.does == "close_form":
        await _open_close_form(services, click.incident, str(payload["trigger_id"]))
    elif click.does == "report":
        _begin_report(services, click.incident, payload)
    elif click.does in incident_menu.FORM_CHOICES:
        await open_form(services, click, str(payload["trigger_id"]))
    else:
        return False
    return True


def _begin_report(services: IncidentFormServices, incident: str, payload: Payload) -> None:
    """Start the report in the background, because rendering outlasts Slack's timeout."""
    team, channel, user = _parse_location(payload)
    services.report_writer.begin_report(
        incident, Origin(kind="slack", team=team, channel=channel, thread_ts=get_thread_ts(payload), user=user)
    )


async def handle_close_form(services: IncidentFormServices, payload: Payload) -> None:
    """Store the closing form. Raises BadForm if it names hosts that do not exist."""
    closing = close_form.parse_close_form(payload)
    team, user = await authorize_form_sender(services.context, payload, closing.incident)
    if unknown_hosts := await _list_unknown_hosts(services, closing):
        raise BadForm({close_form.HOSTS_BLOCK_ID: f"Not in the inventory: {fold_host_names(unknown_hosts)}."})
    data = {"label": closing.label, "root_cause": closing.root_cause, "hosts": list(closing.hosts)}
    await _store_item(services, f"{team}.view.{payload['view']['id']}", "close", closing.incident, user, data)


async def _list_unknown_hosts(services: IncidentFormServices, closing: IncidentClosure) -> list[str]:
    """Return the hosts that neither the inventory nor the diagnosis knows. Lessons would learn a typing error."""
    async with guard_store():
        origin = await services.context.inbox.get_origin(closing.incident)
    visible_hosts = services.hosts_of(origin) if origin else ()
    diagnosed_hosts = (await _build_closing_defaults(services, closing.incident)).hosts
    known_hosts = {*visible_hosts, *diagnosed_hosts}
    return [host for host in closing.hosts if host not in known_hosts]


async def handle_diagnose_shortcut(services: MessageServices, payload: Payload) -> None:
    """Open an incident from a message, in its thread."""
    team, channel, user = _parse_location(payload)
    await services.context.admit_user(SlackPlace(team, channel), user)
    await services.context.require_permission(f"shortcut.{SHORTCUT}", user, channel)
    message = payload["message"]
    ts = str(message.get("ts") or payload["message_ts"])
    root = str(message.get("thread_ts") or ts)
    data: dict[str, Any] = {"files": [file.to_json() for file in parse_files(message)]}
    if root != ts:
        data["root"] = {"channel": channel, "ts": root, "upto": ts}
    key = f"{team}.{channel}.{ts}.diagnose"
    text = slack_markup.render_plain_text(get_full_text(message))
    async with guard_store():
        if await services.context.inbox.find_incident(team, channel, root):
            raise Refusal(ALREADY_OPEN)
    origin = Origin(kind="slack", team=team, channel=channel, thread_ts=root, user=user)
    item = InboxItem(id=key, kind="mention", incident="", at=parse_slack_timestamp(ts), user=user, text=text, data=data)
    await open_or_join_incident(services, origin, key, text, lambda incident: item.model_copy(update={"incident": incident}))


async def _open_close_form(services: IncidentFormServices, incident: str, trigger: str) -> None:
    view = close_form.render_close_form(await _build_closing_defaults(services, incident), services.label_choices)
    await services.context.client.views_open(trigger_id=trigger, view=view)


async def _open_details(services: IncidentFormServices, click: ButtonClick, trigger: str) -> None:
    async with guard_store():
        incident_view = IncidentView(await services.context.load_state(click.incident))
        facts = await services.load_facts(click.incident)
    titles = {label: title for choices in services.label_choices.values() for label, title in choices}
    view = details.render_details(incident_view, titles, details.find_boot_ids(facts), click.item, facts)
    await services.context.client.views_open(trigger_id=trigger, view=view)


async def _build_closing_defaults(services: IncidentFormServices, incident: str) -> IncidentClosure:
    """Return the form's defaults: the cause that is most certain, if there is one."""
    async with guard_store():
        report = IncidentView(await services.context.load_state(incident)).report
    likeliest = max(report.root_causes if report else (), key=lambda cause: cause.confidence, default=None)
    if likeliest is None:
        return IncidentClosure(incident, "", "")
    return IncidentClosure(incident, likeliest.label, likeliest.because, likeliest.hosts)


async def _store_item(
    services: IncidentFormServices, key: str, kind: str, incident: str, user: str, data: dict[str, Any], text: str = ""
) -> None:
    row = {"id": key, "kind": kind, "incident": incident, "at": services.context.clock.now(), "user": user, "text": text, "data": data}
    async with guard_store():
        is_new = await services.context.inbox.enqueue(InboxItem.model_validate(row), key)
    if is_new:
        services.context.notify_stored(incident)


def _parse_location(payload: Payload) -> tuple[str, str, str]:
    """Return the ids of team, channel and user."""
    return str(payload["team"]["id"]), str(payload["channel"]["id"]), str(payload["user"]["id"])
