"""The buttons and forms of a tenant's card and of its internal thread, by id."""

from bot.slack.handlers import SlackHandlers, refuse_old_button
from bot.tenants.cards import internal_thread, tenant_card
from bot.tenants.handlers import TenantHandlers
from bot.tenants.tenant_updates import TenantUpdateHandlers


def build_tenant_click_handlers(handlers: TenantHandlers | None) -> SlackHandlers:
    """Return the table of the buttons on a tenant's card; where no tenant is served each is refused."""
    return SlackHandlers(clicks=dict.fromkeys(tenant_card.BUTTONS, handlers.handle_click if handlers else refuse_old_button))


def build_tenant_update_handlers(handlers: TenantUpdateHandlers) -> SlackHandlers:
    return SlackHandlers(
        clicks=dict.fromkeys(internal_thread.BUTTONS, handlers.handle_click),
        forms={
            internal_thread.TELL_FORM_CALLBACK_ID: handlers.build_preview,
            internal_thread.TELL_SEND_CALLBACK_ID: handlers.handle_send,
        },
    )
