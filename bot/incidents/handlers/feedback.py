"""Feedback on a diagnosis. It changes no incident, and only its author sees the answer."""

from dataclasses import replace

from bot.cards.buttons import OldButton
from bot.incidents.cards import feedback
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.metrics import Feedback
from bot.incidents.handlers.forms import authorize_form_sender
from bot.slack.payloads import Payload
from bot.store.unreachable import guard_store
from graph.incident_view import IncidentView
from kb.redact import redact


async def handle_vote(handler_context: HandlerContext, payload: Payload, team: str, channel: str, user: str) -> None:
    """Store “Useful”, or open the form. The caller has authorised the user."""
    pressed = feedback.parse_feedback_click(payload)
    if pressed.does == feedback.NOT_USEFUL:
        await handler_context.client.views_open(
            trigger_id=str(payload["trigger_id"]), view=feedback.render_feedback_form(pressed.incident, pressed.item)
        )
        return
    await _store_feedback(handler_context, Feedback(pressed.incident, f"{team}:{user}", True, handler_context.clock.now()))
    handler_context.tasks.spawn_task("thanks", _post_thanks(handler_context, channel, user, payload))


async def handle_feedback_form(handler_context: HandlerContext, payload: Payload) -> None:
    """Store a submitted form. Raises BadForm."""
    said = feedback.parse_feedback_form(payload)
    team, user = await authorize_form_sender(handler_context, payload, said.incident)
    await _store_feedback(
        handler_context, Feedback(said.incident, f"{team}:{user}", False, handler_context.clock.now(), said.reason, redact(said.words))
    )


async def _store_feedback(handler_context: HandlerContext, said: Feedback) -> None:
    if handler_context.courses is None:
        raise OldButton
    async with guard_store():
        report = IncidentView(await handler_context.state_of(said.incident)).report
        labels = tuple(cause.label for cause in report.root_causes) if report else ()
        await handler_context.courses.add_feedback(replace(said, labels=labels))


async def _post_thanks(handler_context: HandlerContext, channel: str, user: str, payload: Payload) -> None:
    thread = str((payload.get("container") or {}).get("thread_ts") or (payload.get("message") or {}).get("thread_ts") or "")
    await handler_context.client.chat_postEphemeral(channel=channel, user=user, text=feedback.THANKS_TEXT, thread_ts=thread or None)
