"""Forms about an incident that people fill in: who is on it, what it really was. Submitted, each is a message of theirs like any other."""

from bot.cards.buttons import BadForm, OldButton, Press
from bot.cards.incidents import more
from bot.policy.channels import Place
from bot.slack.context import Surface, storing
from bot.slack.incoming.payloads import Payload
from graph.conversation.intents import Intent
from graph.conversation.said import Said
from graph.rows import IncidentRows
from graph.state import Item


async def open_form(surface: Surface, pressed: Press, trigger: str) -> None:
    """The form that a choice of the menu stands for, filled with what is believed so far."""
    async with storing():
        state = await surface.state_of(pressed.incident)
    report = IncidentRows(state).report
    best = max(report.root_causes if report else (), key=lambda cause: cause.confidence, default=None)
    match pressed.does:
        case "assign_form":
            view = more.assign_form(pressed.incident, str(state.get("owner") or ""))
        case "correct_form":
            view = more.correct_form(pressed.incident, surface.offered, best.label if best else "")
        case _:
            raise OldButton
    await surface.client.views_open(trigger_id=trigger, view=view)


async def assign(surface: Surface, payload: Payload) -> None:
    """Raises BadForm for what can be mended in it."""
    incident, person = more.assigned(payload)
    team, _ = await sender(surface, payload, incident)
    named = await surface.people.person(person)
    if not named.human or named.team != team:
        raise BadForm({more.PERSON: "Choose a full member of this workspace: no guest, no app, nobody who has left."})
    await _say(surface, payload, incident, Said(intent=Intent.ASSIGN, person=person))


async def correct(surface: Surface, payload: Payload) -> None:
    """Raises BadForm for what can be mended in it."""
    said = more.corrected(payload)
    await _say(surface, payload, said.incident, Said(intent=Intent.CORRECT, text=said.words, labels=(said.label,)))


async def send_to_tracker(surface: Surface, payload: Payload) -> None:
    """What is to leave for a tracker, confirmed. Raises BadForm for what can be mended in it."""
    if surface.tracking is None:
        raise OldButton
    await surface.tracking.submit(payload)


async def change_lesson(surface: Surface, payload: Payload) -> None:
    """The draft of a lesson, as somebody wants it. Raises BadForm for what can be mended in it."""
    if surface.teaching is None:
        raise OldButton
    await surface.teaching.submit(payload)


async def sender(surface: Surface, payload: Payload, incident: str) -> tuple[str, str]:
    """(team, user) of whoever sent a form about an incident, if they may speak where it lives; else the refusal."""
    team, user = str(payload["team"]["id"]), str(payload["user"]["id"])
    async with storing():
        origin = await surface.inbox.origin(incident)
    if origin is None or origin.team != team:
        raise OldButton
    await surface.admit(Place(team, origin.channel), user)
    await surface.allow(f"form.{payload['view']['callback_id']}", user, origin.channel, origin)
    return team, user


async def _say(surface: Surface, payload: Payload, incident: str, said: Said) -> None:
    """Store it."""
    team, user = await sender(surface, payload, incident)
    key = f"{team}.view.{payload['view']['id']}"
    item = Item(id=key, kind=said.kind, incident=incident, at=surface.clock.now(), user=user, text=said.text, data=said.data())
    async with storing():
        new = await surface.inbox.enqueue(item, key)
    if new:
        surface.stored(incident)
