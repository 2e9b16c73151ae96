"""The buttons, forms, shortcut and events of incidents, by id."""

from functools import partial

from bot.incidents.cards import close_modal, drained_nodes, feedback, incident_menu
from bot.incidents.context import HandlerContext
from bot.incidents.handlers import forms, home, incident_clicks
from bot.incidents.handlers.feedback import handle_feedback_form
from bot.incidents.handlers.message_events import MessageEvents, build_sharing_listener
from bot.slack.handlers import SlackHandlers
from bot.slack.manifest import SHORTCUT
from bot.slack.payloads import Payload
from bot.tenants.cards import quota_waiting


def build_incident_handlers(context: HandlerContext, messages: MessageEvents) -> SlackHandlers:
    async def open_home(body: Payload, us: str) -> None:
        home.handle_home_opened(context, body)

    async def open_assistant(body: Payload, us: str) -> None:
        thread = body["event"]["assistant_thread"]
        context.direct.greet(str(thread["channel_id"]), str(thread["thread_ts"]))

    return SlackHandlers(
        clicks={
            **dict.fromkeys(incident_clicks.CLICK_PARSERS, partial(incident_clicks.handle_click, context)),
            **dict.fromkeys(drained_nodes.BUTTONS, partial(home.handle_return_click, context)),
            **dict.fromkeys(quota_waiting.BUTTONS, partial(home.handle_quota_waiver, context)),
        },
        forms={
            close_modal.CALLBACK_ID: partial(incident_clicks.handle_close_form, context),
            feedback.CALLBACK_ID: partial(handle_feedback_form, context),
            incident_menu.ASSIGN_CALLBACK_ID: partial(forms.handle_assign_form, context),
            incident_menu.CORRECT_CALLBACK_ID: partial(forms.handle_correct_form, context),
        },
        shortcuts={SHORTCUT: partial(incident_clicks.handle_diagnose_shortcut, context)},
        events={
            "message": messages.handle,
            "app_mention": messages.handle,
            "app_home_opened": open_home,
            "assistant_thread_started": open_assistant,
            **dict.fromkeys(("channel_shared", "channel_unshared"), build_sharing_listener(context)),
        },
    )
