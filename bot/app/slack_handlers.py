"""Registers every feature's handlers with Slack. Imports Bolt, which a worker does not need."""

import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial

from bot.app.http.server import run_inbound_server
from bot.inbound import InboundRoute
from bot.incidents.context import HandlerContext
from bot.incidents.handlers.commands import handle_command
from bot.incidents.handlers.message_events import MessageEvents, build_error_card_lookup
from bot.incidents.handlers.registration import build_incident_handlers
from bot.incidents.handlers.services import HomeServices, IncidentFormServices, MessageServices
from bot.lessons.handlers import LessonHandlers
from bot.lessons.registration import build_lesson_handlers
from bot.provider.handlers import ProviderHandlers
from bot.provider.registration import build_provider_handlers
from bot.remediation.registration import build_approval_handlers
from bot.settings import Settings
from bot.signed_messages import MAX_CLOCK_SKEW
from bot.slack.http.delivery import SlackEventsEndpoint
from bot.slack.registry import SlackRegistry
from bot.slack.socket_mode import build_app_or_refuse, run_socket_mode
from bot.store.replay_guard import ReplayGuard
from bot.store.store import Store
from bot.tenants.handlers import TenantHandlers
from bot.tenants.registration import build_tenant_click_handlers, build_tenant_update_handlers
from bot.tenants.tenant_updates import TenantUpdateHandlers
from bot.trackers.handlers import TrackerHandlers
from bot.trackers.registration import build_tracker_handlers


def build_slack_registry(
    services: IncidentFormServices,
    home: HomeServices,
    messages: MessageServices,
    *,
    lessons: LessonHandlers,
    tenant_updates: TenantUpdateHandlers,
    tenants: TenantHandlers | None,
    provider: ProviderHandlers | None,
    trackers: TrackerHandlers | None,
    alert_bots: Collection[str] = (),
) -> SlackRegistry:
    """Return all handlers. The ids of a feature that is switched off are registered too, and refused."""
    error_cards = build_error_card_lookup(tenants)
    context, events = services.context, MessageEvents(messages, tenants, error_cards, alert_bots)
    features = (
        build_incident_handlers(services, home, messages, events),
        build_approval_handlers(context),
        build_tenant_click_handlers(tenants),
        build_tenant_update_handlers(tenant_updates),
        build_provider_handlers(provider),
        build_tracker_handlers(trackers),
        build_lesson_handlers(lessons),
    )
    return SlackRegistry(features, partial(handle_command, messages.open_work), error_cards, events.answer_mention, context.tasks)


@contextlib.asynccontextmanager
async def run_listeners(
    settings: Settings, store: Store, context: HandlerContext, registry: SlackRegistry, routes: Sequence[InboundRoute]
) -> AsyncIterator[None]:
    """Receive Slack events, over HTTP if the signing secret is set, and webhooks. Stopped first. Raises Refusal if Slack rejects the app."""
    if settings.slack_signing_secret:
        app, secret = await build_app_or_refuse(context.client, registry), settings.slack_signing_secret.get_secret_value()
        endpoint = SlackEventsEndpoint(app, secret, ReplayGuard(store.redis, 3 * MAX_CLOCK_SKEW), context.clock)
        async with run_inbound_server(settings, (*routes, *endpoint.routes)):
            yield
        return
    async with (
        run_socket_mode(context.client, registry, settings.slack_app_token.get_secret_value()),
        run_inbound_server(settings, routes),
    ):
        yield
