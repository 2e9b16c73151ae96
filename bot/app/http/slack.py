"""Slack events over HTTP, if the signing secret is set."""

from collections.abc import Sequence

from bot.inbound.routes import InboundRoute
from bot.inbound.webhook import MAX_CLOCK_SKEW
from bot.incidents.context import HandlerContext
from bot.settings import Settings
from bot.store.replay_guard import ReplayGuard
from bot.store.store import Store
from bot.tenants.handlers import TenantHandlers


async def build_slack_routes(
    settings: Settings, store: Store, handler_context: HandlerContext, door: TenantHandlers | None
) -> Sequence[InboundRoute]:
    """Return the routes. Raises Refusal if Slack rejects the app."""
    from bot.app.socket_mode import build_app_or_refuse
    from bot.slack.http.delivery import SlackEventsEndpoint  # Bolt: a worker needs none of it

    heard = ReplayGuard(store.redis, 3 * MAX_CLOCK_SKEW)
    app = await build_app_or_refuse(handler_context, door)
    return SlackEventsEndpoint(app, settings.slack_signing_secret.get_secret_value(), heard, handler_context.clock).routes
