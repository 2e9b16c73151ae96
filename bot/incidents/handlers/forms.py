"""Forms about an incident. A submitted menu form is stored as the user's message."""

from bot.cards.buttons import BadForm, ButtonClick, OldButton
from bot.incidents.cards import incident_menu
from bot.incidents.context import HandlerContext
from bot.incidents.handlers.services import IncidentFormServices
from bot.policy.channels import SlackPlace
from bot.slack.payloads import Payload
from bot.store.unreachable import guard_store
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage
from graph.incident_view import IncidentView
from graph.state import InboxItem


async def open_form(services: IncidentFormServices, click: ButtonClick, trigger: str) -> None:
    """Open the form of a menu choice, filled in with the current owner or cause."""
    async with guard_store():
        state = await services.context.load_state(click.incident)
    report = IncidentView(state).report
    likeliest = max(report.root_causes if report else (), key=lambda cause: cause.confidence, default=None)
    match click.does:
        case "assign_form":
            view = incident_menu.render_assign_form(click.incident, str(state.get("owner") or ""))
        case "correct_form":
            view = incident_menu.render_correction_form(click.incident, services.label_choices, likeliest.label if likeliest else "")
        case _:
            raise OldButton
    await services.context.client.views_open(trigger_id=trigger, view=view)


async def handle_assign_form(services: IncidentFormServices, payload: Payload) -> None:
    """Store an assignment. Raises BadForm if the assignee is no full member of the workspace."""
    incident, assignee = incident_menu.parse_assign_form(payload)
    team, _ = await authorize_form_sender(services.context, payload, incident)
    person = await services.context.people.get_person(assignee)
    if not person.human or person.team != team:
        raise BadForm({incident_menu.PERSON_BLOCK_ID: "Choose a full member of this workspace, not a guest, an app or a former member."})
    await _store_statement(services, payload, incident, ParsedMessage(intent=Intent.ASSIGN, person=assignee))


async def handle_correct_form(services: IncidentFormServices, payload: Payload) -> None:
    """Store a correction of the cause. Raises BadForm if no cause was chosen."""
    correction = incident_menu.parse_correction_form(payload)
    message = ParsedMessage(intent=Intent.CORRECT, text=correction.words, labels=(correction.label,))
    await _store_statement(services, payload, correction.incident, message)


async def authorize_form_sender(context: HandlerContext, payload: Payload, incident: str) -> tuple[str, str]:
    """Return the sender's team and user id. Raises Refusal unless the sender may write in the incident's channel."""
    team, user = str(payload["team"]["id"]), str(payload["user"]["id"])
    async with guard_store():
        origin = await context.inbox.get_origin(incident)
    if origin is None or origin.team != team:
        raise OldButton
    await context.admit_user(SlackPlace(team, origin.channel), user)
    await context.require_permission(f"form.{payload['view']['callback_id']}", user, origin.channel, origin)
    return team, user


async def _store_statement(services: IncidentFormServices, payload: Payload, incident: str, message: ParsedMessage) -> None:
    team, user = await authorize_form_sender(services.context, payload, incident)
    key = f"{team}.view.{payload['view']['id']}"
    item = InboxItem(
        id=key,
        kind=message.kind,
        incident=incident,
        at=services.context.clock.now(),
        user=user,
        text=message.text,
        data=message.build_item_data(),
    )
    async with guard_store():
        is_new = await services.context.inbox.enqueue(item, key)
    if is_new:
        services.context.notify_stored(incident)
