"""Slack's events over the HTTP port, where the settings name the app's signing secret."""

from collections.abc import Sequence

from bot.inbound.routes import InboundRoute
from bot.inbound.webhook import FRESH
from bot.settings import Settings
from bot.slack.context import Surface
from bot.slack.customers.door import CustomerDoor
from bot.store.heard import HeardOnce
from bot.store.store import Store


async def slack_routes(settings: Settings, store: Store, surface: Surface, door: CustomerDoor | None) -> Sequence[InboundRoute]:
    """Raises Refusal where Slack does not let us in."""
    from bot.slack.http.delivery import SlackRequests  # Bolt: a worker needs none of it
    from bot.slack.incoming.socket import ready_app

    heard = HeardOnce(store.redis, 3 * FRESH)
    app = await ready_app(surface, door)
    return SlackRequests(app, settings.slack_signing_secret.get_secret_value(), heard, surface.clock).routes
