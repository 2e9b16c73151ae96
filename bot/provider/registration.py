"""The buttons of the provider message, by id."""

from bot.provider import cards as provider_ticket
from bot.provider.handlers import ProviderHandlers
from bot.slack.handlers import SlackHandlers, refuse_old_button


def build_provider_handlers(handlers: ProviderHandlers | None) -> SlackHandlers:
    """Return the table of the buttons; without a provider each is refused."""
    return SlackHandlers(clicks=dict.fromkeys(provider_ticket.BUTTONS, handlers.handle_click if handlers else refuse_old_button))
