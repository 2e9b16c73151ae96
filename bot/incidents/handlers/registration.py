"""The buttons, forms, shortcut and events of incidents, by id."""

from functools import partial

import structlog

from bot.incidents.cards import feedback, incident_menu, report_rows
from bot.incidents.direct_messages import DirectMessages
from bot.incidents.handlers import forms, home, incident_clicks
from bot.incidents.handlers.incident_clicks import handle_feedback_form
from bot.incidents.handlers.message_events import MessageEvents
from bot.incidents.handlers.services import HomeServices, IncidentFormServices, MessageServices
from bot.slack.handlers import SlackHandlers
from bot.slack.manifest import SHORTCUT
from bot.slack.payloads import Payload
from bot.slack.people import People
from bot.store.unreachable import guard_store
from bot.tenants.cards import quota_waiting

log = structlog.get_logger()


def build_incident_handlers(
    services: IncidentFormServices, home_services: HomeServices, message_services: MessageServices, events: MessageEvents
) -> SlackHandlers:
    return SlackHandlers(
        clicks={
            **dict.fromkeys(incident_clicks.CLICK_PARSERS, partial(incident_clicks.handle_click, services)),
            **dict.fromkeys(report_rows.BUTTONS, partial(home.handle_return_click, home_services)),
            **dict.fromkeys(quota_waiting.BUTTONS, partial(home.handle_quota_waiver, home_services)),
        },
        forms={
            incident_menu.CLOSE_CALLBACK_ID: partial(incident_clicks.handle_close_form, services),
            feedback.CALLBACK_ID: partial(handle_feedback_form, services),
            incident_menu.ASSIGN_CALLBACK_ID: partial(forms.handle_assign_form, services),
            incident_menu.CORRECT_CALLBACK_ID: partial(forms.handle_correct_form, services),
        },
        shortcuts={SHORTCUT: partial(incident_clicks.handle_diagnose_shortcut, message_services)},
        events={
            "message": events.handle,
            "app_mention": events.handle,
            "app_home_opened": partial(_handle_home_opened, home_services, message_services.direct_messages),
            "assistant_thread_started": partial(_handle_assistant_thread, message_services.direct_messages),
            **dict.fromkeys(("channel_shared", "channel_unshared"), partial(_record_sharing, services.context.people)),
        },
    )


async def _handle_home_opened(services: HomeServices, direct_messages: DirectMessages, body: Payload, us: str) -> None:
    """Publish the Home tab, or greet the user on the tab of messages."""
    event = body["event"]
    if event.get("tab", "home") == "home":
        work = home.publish_home_tab(services, str(event["user"]), str(body.get("team_id", "")))
        services.context.tasks.spawn_task("home", work)
    elif event["tab"] == "messages":
        direct_messages.greet(str(event["channel"]))


async def _handle_assistant_thread(direct_messages: DirectMessages, body: Payload, us: str) -> None:
    thread = body["event"]["assistant_thread"]
    direct_messages.greet(str(thread["channel_id"]), str(thread["thread_ts"]))


async def _record_sharing(people: People, body: Payload, us: str) -> None:
    """Record whether a channel is shared: a shared operator channel is not served.

    A channel that one organisation left may still be shared (`is_ext_shared`).
    """
    event = body["event"]
    shared = event["type"] == "channel_shared" or event.get("is_ext_shared") is not False
    log.warning("listeners.sharing", channel=event.get("channel"), shared=shared)
    async with guard_store():
        await people.record_sharing(str(event.get("channel") or ""), shared=shared)
