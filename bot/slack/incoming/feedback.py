"""What people think of a diagnosis: a click, or a click and a form. It changes no incident and is answered to whoever clicked alone."""

from dataclasses import replace

from bot.cards.buttons import OldButton
from bot.cards.incidents import feedback
from bot.desk.course import Feedback
from bot.slack.context import Surface, storing
from bot.slack.incoming.forms import sender
from bot.slack.incoming.payloads import Payload
from graph.rows import IncidentRows
from kb.redact import redact


async def vote(surface: Surface, payload: Payload, team: str, channel: str, user: str) -> None:
    """A click by somebody who may speak here. “Useful” is kept at once; “not useful” opens the form."""
    pressed = feedback.read(payload)
    if pressed.does == feedback.NOT_USEFUL:
        await surface.client.views_open(trigger_id=str(payload["trigger_id"]), view=feedback.form(pressed.incident, pressed.item))
        return
    await _keep(surface, Feedback(pressed.incident, f"{team}:{user}", True, surface.clock.now()))
    surface.tasks.spawn("thanks", _thank(surface, channel, user, payload))


async def complain(surface: Surface, payload: Payload) -> None:
    """The form, sent. Raises BadForm for what can be mended in it."""
    said = feedback.submitted(payload)
    team, user = await sender(surface, payload, said.incident)
    await _keep(surface, Feedback(said.incident, f"{team}:{user}", False, surface.clock.now(), said.reason, redact(said.words)))


async def _keep(surface: Surface, said: Feedback) -> None:
    if surface.courses is None:
        raise OldButton
    async with storing():
        report = IncidentRows(await surface.state_of(said.incident)).report
        labels = tuple(cause.label for cause in report.root_causes) if report else ()
        await surface.courses.say(replace(said, labels=labels))


async def _thank(surface: Surface, channel: str, user: str, payload: Payload) -> None:
    thread = str((payload.get("container") or {}).get("thread_ts") or (payload.get("message") or {}).get("thread_ts") or "")
    await surface.client.chat_postEphemeral(channel=channel, user=user, text=feedback.THANKS, thread_ts=thread or None)
