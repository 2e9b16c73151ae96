"""Slack events over HTTP, if the signing secret is set."""

from collections.abc import Sequence

from bot.inbound import MAX_CLOCK_SKEW, InboundRoute
from bot.settings import Settings
from bot.slack.client import SlackClient
from bot.slack.http.delivery import SlackEventsEndpoint
from bot.slack.registry import SlackRegistry
from bot.slack.socket_mode import build_app_or_refuse
from bot.store.replay_guard import ReplayGuard
from bot.store.store import Store
from tools.clock import Clock


async def build_slack_routes(
    settings: Settings, store: Store, client: SlackClient, registry: SlackRegistry, clock: Clock
) -> Sequence[InboundRoute]:
    """Return the routes. Raises Refusal if Slack rejects the app."""
    app = await build_app_or_refuse(client, registry)
    replay_guard = ReplayGuard(store.redis, 3 * MAX_CLOCK_SKEW)
    return SlackEventsEndpoint(app, settings.slack_signing_secret.get_secret_value(), replay_guard, clock).routes
