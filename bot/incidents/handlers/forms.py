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
    """Open the chosen form with the present belief."""
    async with guard_store():
        state = await services.context.load_state(click.incident)
    report = IncidentView(state).report
    best = max(report.root_causes if report else (), key=lambda cause: cause.confidence, default=None)
    match click.does:
        case "assign_form":
            view = incident_menu.render_assign_form(click.incident, str(state.get("owner") or ""))
        case "correct_form":
            view = incident_menu.render_correction_form(click.incident, services.label_choices, best.label if best else "")
        case _:
            raise OldButton
    await services.context.client.views_open(trigger_id=trigger, view=view)


async def handle_assign_form(services: IncidentFormServices, payload: Payload) -> None:
    """Store an assignment. Raises BadForm."""
    incident, person = incident_menu.parse_assign_form(payload)
    team, _ = await authorize_form_sender(services.context, payload, incident)
    named = await services.context.people.get_person(person)
    if not named.human or named.team != team:
        raise BadForm({incident_menu.PERSON_BLOCK_ID: "Choose a full member of this workspace, not a guest, an app or a former member."})
    await _store_statement(services, payload, incident, ParsedMessage(intent=Intent.ASSIGN, person=person))


async def handle_correct_form(services: IncidentFormServices, payload: Payload) -> None:
    """Store a correction. Raises BadForm."""
    said = incident_menu.parse_correction_form(payload)
    await _store_statement(services, payload, said.incident, ParsedMessage(intent=Intent.CORRECT, text=said.words, labels=(said.label,)))


async def authorize_form_sender(context: HandlerContext, payload: Payload, incident: str) -> tuple[str, str]:
    """Return (team, user). Raises a refusal unless the sender may speak where the incident lives."""
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
        new = await services.context.inbox.enqueue(item, key)
    if new:
        services.context.notify_stored(incident)
