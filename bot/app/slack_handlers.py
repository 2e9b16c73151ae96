"""Registers every feature's handlers with Slack. Imports Bolt, which a worker does not need."""

import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from typing import Final

from bot.app.http.server import run_inbound_server
from bot.cards.blocks import Card
from bot.inbound import MAX_CLOCK_SKEW, InboundRoute
from bot.incidents.cards import notes
from bot.incidents.context import HandlerContext, render_refusal
from bot.incidents.handlers.commands import handle_command
from bot.incidents.handlers.message_events import MessageEvents
from bot.incidents.handlers.registration import build_incident_handlers
from bot.incidents.handlers.services import HomeServices, IncidentFormServices, MessageServices
from bot.lessons.handlers import LessonHandlers, build_lesson_handlers
from bot.provider.handlers import ProviderHandlers, build_provider_handlers
from bot.refusal import Refusal
from bot.remediation.approval_buttons import build_approval_handlers
from bot.settings import Settings
from bot.slack.client import SlackClient
from bot.slack.handlers import BugEffects, ErrorCardLookup, ErrorCards
from bot.slack.http.delivery import SlackEventsEndpoint
from bot.slack.registry import SlackRegistry
from bot.slack.socket_mode import build_app_or_refuse, run_socket_mode
from bot.store.replay_guard import ReplayGuard
from bot.store.store import Store
from bot.tenants.handlers import TenantHandlers, build_tenant_click_handlers
from bot.tenants.tenant_updates import TenantUpdateHandlers, build_tenant_update_handlers
from bot.trackers.handlers import TrackerHandlers, build_tracker_handlers
from tools.clock import Clock

# What an operator reads after a failed message, click or command.

BUG_NOTES: Final = {"decision": notes.DECISION_ERROR_TEXT, "command": notes.COMMAND_ERROR_TEXT, "message": notes.MESSAGE_ERROR_TEXT}


class OperatorErrorCards:
    def render_refusal(self, no: Refusal) -> Card:
        return render_refusal(no)

    def render_not_stored(self, *, will_retry: bool) -> Card:
        return notes.render_not_stored(will_retry)

    def render_bug(self, reference: str, effects: BugEffects) -> Card:
        return notes.render_internal_error(reference, BUG_NOTES[effects])


def build_error_card_lookup(tenants: TenantHandlers | None) -> ErrorCardLookup:
    """Return the error cards by channel: a tenant's channel has its own, if tenants' channels are served."""
    operators = OperatorErrorCards()

    def find_error_cards(channel: str) -> ErrorCards:
        return (tenants.get_error_cards(channel) if tenants else None) or operators

    return find_error_cards


# Slack events over HTTP, if the signing secret is set.


async def build_slack_routes(
    settings: Settings, store: Store, client: SlackClient, registry: SlackRegistry, clock: Clock
) -> Sequence[InboundRoute]:
    """Return the routes. Raises Refusal if Slack rejects the app."""
    app = await build_app_or_refuse(client, registry)
    replay_guard = ReplayGuard(store.redis, 3 * MAX_CLOCK_SKEW)
    return SlackEventsEndpoint(app, settings.slack_signing_secret.get_secret_value(), replay_guard, clock).routes


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
    """Receive Slack events and webhooks. Stopped first."""
    if settings.slack_signing_secret:
        slack_routes = await build_slack_routes(settings, store, context.client, registry, context.clock)
        async with run_inbound_server(settings, (*routes, *slack_routes)):
            yield
        return
    async with (
        run_socket_mode(context.client, registry, settings.slack_app_token.get_secret_value()),
        run_inbound_server(settings, routes),
    ):
        yield
