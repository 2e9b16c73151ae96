"""Clicks, forms and shortcuts. Slack does not resend them, so each is stored or refused before the acknowledgement.

User and place come only from Slack's payload; a button counts only in its own incident's thread.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from bot.cards.buttons import BadForm, ButtonClick, OldButton
from bot.incidents.cards import details, diagnosis, feedback, handoff_card, incident_menu
from bot.incidents.cards.handoff_content import require_unresolved_ticket
from bot.incidents.cards.incident_menu import IncidentClosure
from bot.incidents.dispatch.metrics import Feedback
from bot.incidents.handlers import slack_markup
from bot.incidents.handlers.forms import authorize_form_sender, open_form
from bot.incidents.handlers.open_or_join import open_or_join_incident
from bot.incidents.handlers.services import IncidentFormServices, MessageServices
from bot.policy.channels import SlackPlace
from bot.refusal import Refusal
from bot.slack.manifest import SHORTCUT
from bot.slack.payloads import Payload, get_full_text, get_thread_ts, parse_files, parse_slack_timestamp
from bot.store.unreachable import guard_store
from graph.incident_view import IncidentView
from graph.state import HandoffTicket, InboxItem, Origin
from kb.redact import redact
from tools.inventory.host_ranges import fold_host_names

# Feedback on a diagnosis. It changes no incident, and only its author sees the answer.


async def handle_vote(services: IncidentFormServices, payload: Payload, team: str, channel: str, user: str) -> None:
    """Store “Useful”, or open the form. The caller has authorised the user."""
    pressed = feedback.parse_feedback_click(payload)
    if pressed.does == feedback.NOT_USEFUL:
        await services.context.client.views_open(
            trigger_id=str(payload["trigger_id"]), view=feedback.render_feedback_form(pressed.incident, pressed.item)
        )
        return
    await _store_feedback(services, Feedback(pressed.incident, f"{team}:{user}", True, services.context.clock.now()))
    services.context.tasks.spawn_task("thanks", _post_thanks(services, channel, user, payload))


async def handle_feedback_form(services: IncidentFormServices, payload: Payload) -> None:
    """Store a submitted form. Raises BadForm."""
    said = feedback.parse_feedback_form(payload)
    team, user = await authorize_form_sender(services.context, payload, said.incident)
    await _store_feedback(
        services, Feedback(said.incident, f"{team}:{user}", False, services.context.clock.now(), said.reason, redact(said.words))
    )


async def _store_feedback(services: IncidentFormServices, said: Feedback) -> None:
    async with guard_store():
        report = IncidentView(await services.context.load_state(said.incident)).report
        labels = tuple(cause.label for cause in report.root_causes) if report else ()
        await services.incident_metrics.add_feedback(replace(said, labels=labels))


async def _post_thanks(services: IncidentFormServices, channel: str, user: str, payload: Payload) -> None:
    thread = str((payload.get("container") or {}).get("thread_ts") or (payload.get("message") or {}).get("thread_ts") or "")
    await services.context.client.chat_postEphemeral(channel=channel, user=user, text=feedback.THANKS_TEXT, thread_ts=thread or None)


# Action id → parser of its card.
CLICK_PARSERS: Mapping[str, Callable[[Payload], ButtonClick]] = {
    **dict.fromkeys(diagnosis.BUTTONS, diagnosis.parse_diagnosis_click),
    **dict.fromkeys(diagnosis.SELECT_ACTIONS, diagnosis.parse_host_choice),
    **dict.fromkeys(handoff_card.BUTTONS, handoff_card.parse_ticket_click),
    feedback.VOTE_ACTION_ID: feedback.parse_feedback_click,
    incident_menu.MENU_ACTION_ID: incident_menu.parse_menu_choice,
}
ALREADY_OPEN = "I am on this thread already. Reply there, or say `status` in it."


async def handle_click(services: IncidentFormServices, payload: Payload) -> None:
    """Handle a click in a message."""
    action = payload["actions"][0]
    reader = CLICK_PARSERS.get(action.get("action_id", ""))
    if reader is None:
        raise OldButton
    pressed = reader(payload)
    team, channel, user = _parse_location(payload)
    await services.context.admit_user(SlackPlace(team, channel), user)
    await services.context.require_permission(f"button.{action['action_id']}", user, channel)
    async with guard_store():
        if await services.context.inbox.find_incident(team, channel, get_thread_ts(payload)) != pressed.incident:
            raise OldButton
    if action.get("action_id") == feedback.VOTE_ACTION_ID:
        await handle_vote(services, payload, team, channel, user)
        return
    if pressed.does in ("take", "wait", "close_form"):
        async with guard_store():
            require_unresolved_ticket(
                IncidentView(await services.context.load_state(pressed.incident)).ticket or HandoffTicket(), pressed.does
            )
    if await _open_if_view_only(services, pressed, payload):
        return
    ts = str(action.get("action_ts") or payload.get("trigger_id"))
    key = f"{team}.{channel}.{get_thread_ts(payload)}.{action['action_id']}.{user}.{ts}"
    await _store_item(services, key, pressed.does, pressed.incident, user, {"report": pressed.item} if pressed.item else {}, pressed.chosen)


async def _open_if_view_only(services: IncidentFormServices, click: ButtonClick, payload: Payload) -> bool:
    """Open a form, details or report and return True; store nothing."""
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
    """Start the report; rendering outlasts Slack's timeout."""
    team, channel, user = _parse_location(payload)
    services.report_writer.begin_report(
        incident, Origin(kind="slack", team=team, channel=channel, thread_ts=get_thread_ts(payload), user=user)
    )


async def handle_close_form(services: IncidentFormServices, payload: Payload) -> None:
    """Store the closing form. Raises BadForm."""
    closing = incident_menu.parse_close_form(payload)
    team, user = await authorize_form_sender(services.context, payload, closing.incident)
    if unknown := await _list_unknown_hosts(services, closing):
        raise BadForm({incident_menu.HOSTS_BLOCK_ID: f"Not in the inventory: {fold_host_names(unknown)}."})
    data = {"label": closing.label, "root_cause": closing.root_cause, "hosts": list(closing.hosts)}
    await _store_item(services, f"{team}.view.{payload['view']['id']}", "close", closing.incident, user, data)


async def _list_unknown_hosts(services: IncidentFormServices, closing: IncidentClosure) -> list[str]:
    """Return hosts unknown to inventory and diagnosis: lessons would learn a typing error."""
    async with guard_store():
        origin = await services.context.inbox.get_origin(closing.incident)
    known = {
        *(services.hosts_of(origin) if origin else ()),
        *(await _build_closing_defaults(services, closing.incident)).hosts,
    }
    return [host for host in closing.hosts if host not in known]


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
    made = InboxItem(id=key, kind="mention", incident="", at=parse_slack_timestamp(ts), user=user, text=text, data=data)
    await open_or_join_incident(services, origin, key, text, lambda incident: made.model_copy(update={"incident": incident}))


async def _open_close_form(services: IncidentFormServices, incident: str, trigger: str) -> None:
    view = incident_menu.render_close_form(await _build_closing_defaults(services, incident), services.label_choices)
    await services.context.client.views_open(trigger_id=trigger, view=view)


async def _open_details(services: IncidentFormServices, click: ButtonClick, trigger: str) -> None:
    async with guard_store():
        rows = IncidentView(await services.context.load_state(click.incident))
        facts = await services.load_facts(click.incident)
    titles = {label: title for offered in services.label_choices.values() for label, title in offered}
    await services.context.client.views_open(
        trigger_id=trigger, view=details.render_details(rows, titles, details.find_boot_ids(facts), click.item, facts)
    )


async def _build_closing_defaults(services: IncidentFormServices, incident: str) -> IncidentClosure:
    """Return the most certain cause, or nothing."""
    async with guard_store():
        report = IncidentView(await services.context.load_state(incident)).report
    best = max(report.root_causes if report else (), key=lambda h: h.confidence, default=None)
    return IncidentClosure(incident, best.label, best.because, best.hosts) if best else IncidentClosure(incident, "", "")


async def _store_item(
    services: IncidentFormServices, key: str, kind: str, incident: str, user: str, data: dict[str, Any], text: str = ""
) -> None:
    row = {"id": key, "kind": kind, "incident": incident, "at": services.context.clock.now(), "user": user, "text": text, "data": data}
    async with guard_store():
        new = await services.context.inbox.enqueue(InboxItem.model_validate(row), key)
    if new:
        services.context.notify_stored(incident)


def _parse_location(payload: Payload) -> tuple[str, str, str]:
    return str(payload["team"]["id"]), str(payload["channel"]["id"]), str(payload["user"]["id"])
