"""Clicks, forms and shortcuts about incidents. Slack does not send these again, so each is stored or refused before it is acknowledged.

Who clicked is read from Slack's payload alone, and where: a button counts only in the thread of its own incident.
"""

from collections.abc import Callable, Mapping
from typing import Any

from bot.cards.buttons import BadForm, OldButton, Press
from bot.cards.incidents import close_modal, details, diagnosis, feedback, more, question, ticket
from bot.cards.incidents.close_modal import Closing
from bot.cards.incidents.handoff import allow
from bot.policy.channels import Place
from bot.refusal import Refusal
from bot.slack.context import Surface, storing
from bot.slack.incoming import grammar
from bot.slack.incoming.feedback import vote
from bot.slack.incoming.forms import open_form, sender
from bot.slack.incoming.intake import take_in
from bot.slack.incoming.payloads import Payload, moment, read_files, thread_of, whole_text
from bot.slack.manifest import SHORTCUT
from graph.rows import IncidentRows
from graph.state import Item, Origin, Ticket
from tools.inventory.ranges import fold

READERS: Mapping[str, Callable[[Payload], Press]] = {
    **dict.fromkeys(diagnosis.BUTTONS, diagnosis.read),
    **dict.fromkeys(question.CHOICES, question.read),
    **dict.fromkeys(ticket.BUTTONS, ticket.read),
    feedback.VOTE: feedback.read,
    more.MENU: more.read,
}
"""Action id → the view that made the button."""

NO_PAGES = "Nothing is written down here; `rackmedic report INCIDENT` does it in a terminal."
ALREADY = "I am on this thread already. Reply there, or say `status` in it."


async def press(surface: Surface, payload: Payload) -> None:
    """A click in a message."""
    action = payload["actions"][0]
    reader = READERS.get(action.get("action_id", ""))
    if reader is None:
        raise OldButton
    pressed = reader(payload)
    team, channel, user = _where(payload)
    await surface.admit(Place(team, channel), user)
    await surface.allow(f"button.{action['action_id']}", user, channel)
    async with storing():
        if await surface.inbox.find(team, channel, thread_of(payload)) != pressed.incident:
            raise OldButton
    if action.get("action_id") == feedback.VOTE:
        await vote(surface, payload, team, channel, user)
        return
    if pressed.does in ("take", "wait", "close_form"):
        async with storing():
            allow(IncidentRows(await surface.state_of(pressed.incident)).ticket or Ticket(), pressed.does)
    if await _shown(surface, pressed, payload):
        return
    ts = str(action.get("action_ts") or payload.get("trigger_id"))
    key = f"{team}.{channel}.{thread_of(payload)}.{action['action_id']}.{user}.{ts}"
    await _store(surface, key, pressed.does, pressed.incident, user, {"report": pressed.item} if pressed.item else {}, pressed.chosen)


async def _shown(surface: Surface, pressed: Press, payload: Payload) -> bool:
    """Whether the button only shows something: a form, what is behind a diagnosis, or the incident written down. Nothing is stored."""
    if pressed.does == "details":
        await _open_details(surface, pressed, str(payload["trigger_id"]))
    elif pressed.does == "close_form":
        await _open_form(surface, pressed.incident, str(payload["trigger_id"]))
    elif pressed.does == "report":
        _write_down(surface, pressed.incident, payload)
    elif pressed.does in more.FORMS:
        await open_form(surface, pressed, str(payload["trigger_id"]))
    else:
        return False
    return True


def _write_down(surface: Surface, incident: str, payload: Payload) -> None:
    """Drawing it takes longer than Slack waits, so it is begun here and comes as a file. Raises Refusal where it is begun already."""
    if surface.writing is None:
        raise Refusal(NO_PAGES)
    team, channel, user = _where(payload)
    surface.writing.begin(incident, Origin(kind="slack", team=team, channel=channel, thread_ts=thread_of(payload), user=user))


async def close(surface: Surface, payload: Payload) -> None:
    """The closing form, submitted. Raises BadForm for what can be mended in it."""
    closing = close_modal.read(payload)
    team, user = await sender(surface, payload, closing.incident)
    if unknown := await _unknown(surface, closing):
        raise BadForm({close_modal.HOSTS: f"Not in the inventory: {fold(unknown)}."})
    data = {"label": closing.label, "root_cause": closing.root_cause, "hosts": list(closing.hosts)}
    await _store(surface, f"{team}.view.{payload['view']['id']}", "close", closing.incident, user, data)


async def _unknown(surface: Surface, closing: Closing) -> list[str]:
    """Hosts that nobody here knows: a slip of the finger would be learnt from. Those of the diagnosis may have left the inventory since."""
    async with storing():
        origin = await surface.inbox.origin(closing.incident)
    known = {*(surface.hosts_of(origin) if origin else ()), *(await _believed(surface, closing.incident)).hosts}
    return [host for host in closing.hosts if host not in known]


async def diagnose(surface: Surface, payload: Payload) -> None:
    """“Diagnose this” from a message's menu: the message opens an incident in its own thread, asked for by whoever clicked."""
    team, channel, user = _where(payload)
    await surface.admit(Place(team, channel), user)
    await surface.allow(f"shortcut.{SHORTCUT}", user, channel)
    message = payload["message"]
    ts = str(message.get("ts") or payload["message_ts"])
    root = str(message.get("thread_ts") or ts)
    data: dict[str, Any] = {"files": [file.to_json() for file in read_files(message)]}
    if root != ts:
        data["root"] = {"channel": channel, "ts": root, "upto": ts}
    key = f"{team}.{channel}.{ts}.diagnose"
    text = grammar.people_see(whole_text(message))
    async with storing():
        if await surface.inbox.find(team, channel, root):
            raise Refusal(ALREADY)
    origin = Origin(kind="slack", team=team, channel=channel, thread_ts=root, user=user)
    made = Item(id=key, kind="mention", incident="", at=moment(ts), user=user, text=text, data=data)
    await take_in(surface, origin, key, text, lambda incident: made.model_copy(update={"incident": incident}))


async def _open_form(surface: Surface, incident: str, trigger: str) -> None:
    view = close_modal.render(await _believed(surface, incident), surface.offered)
    await surface.client.views_open(trigger_id=trigger, view=view)


async def _open_details(surface: Surface, pressed: Press, trigger: str) -> None:
    """What is behind a diagnosis, for one reader. Nothing is stored: it only shows."""
    async with storing():
        rows = IncidentRows(await surface.state_of(pressed.incident))
        facts = await surface.facts_of(pressed.incident)
    titles = {label: title for offered in surface.offered.values() for label, title in offered}
    await surface.client.views_open(trigger_id=trigger, view=details.render(rows, titles, details.boots_of(facts), pressed.item, facts))


async def _believed(surface: Surface, incident: str) -> Closing:
    """The form's first filling: what was confirmed, or nothing."""
    async with storing():
        report = IncidentRows(await surface.state_of(incident)).report
    best = max(report.root_causes if report else (), key=lambda h: h.confidence, default=None)
    return Closing(incident, best.label, best.because, best.hosts) if best else Closing(incident, "", "")


async def _store(surface: Surface, key: str, kind: str, incident: str, user: str, data: dict[str, Any], text: str = "") -> None:
    row = {"id": key, "kind": kind, "incident": incident, "at": surface.clock.now(), "user": user, "text": text, "data": data}
    async with storing():
        new = await surface.inbox.enqueue(Item.model_validate(row), key)
    if new:
        surface.stored(incident)


def _where(payload: Payload) -> tuple[str, str, str]:
    return str(payload["team"]["id"]), str(payload["channel"]["id"]), str(payload["user"]["id"])
