"""Feedback on a diagnosis. It changes no incident, and only its author sees the answer."""

from dataclasses import replace

from bot.incidents.cards import feedback
from bot.incidents.dispatch.metrics import Feedback
from bot.incidents.handlers.forms import authorize_form_sender
from bot.incidents.handlers.services import IncidentFormServices
from bot.slack.payloads import Payload
from bot.store.unreachable import guard_store
from graph.incident_view import IncidentView
from kb.redact import redact


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


async def _store_feedback(services: IncidentFormServices, feedback: Feedback) -> None:
    async with guard_store():
        report = IncidentView(await services.context.load_state(feedback.incident)).report
        labels = tuple(cause.label for cause in report.root_causes) if report else ()
        await services.incident_metrics.add_feedback(replace(feedback, labels=labels))


async def _post_thanks(services: IncidentFormServices, channel: str, user: str, payload: Payload) -> None:
    thread = str((payload.get("container") or {}).get("thread_ts") or (payload.get("message") or {}).get("thread_ts") or "")
    await services.context.client.chat_postEphemeral(channel=channel, user=user, text=feedback.THANKS_TEXT, thread_ts=thread or None)
