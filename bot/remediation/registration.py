"""The buttons and forms of approval cards, by id."""

from functools import partial

from bot.incidents.context import HandlerContext
from bot.remediation.approval_buttons import handle_click, handle_edit_form, handle_reject_form
from bot.remediation.cards import approval_card, modals
from bot.slack.handlers import SlackHandlers


def build_approval_handlers(context: HandlerContext) -> SlackHandlers:
    return SlackHandlers(
        clicks=dict.fromkeys(approval_card.BUTTONS, partial(handle_click, context)),
        forms={
            modals.REJECT_CALLBACK_ID: partial(handle_reject_form, context),
            modals.EDIT_CALLBACK_ID: partial(handle_edit_form, context),
        },
        decides=True,
    )
