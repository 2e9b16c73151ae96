"""Wiring of the alert intake and of alert threads."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from bot.alerts.alert_store import AlertStore
from bot.alerts.config import AlertConfig, AlertRouting, BadAlerts, load_alert_config
from bot.alerts.intake import AlertIntake
from bot.alerts.threads import AlertThreads
from bot.inbound import MAX_CLOCK_SKEW
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.slack.client import SlackClient
from bot.slack.people import People
from bot.slack.posted_messages import PostedCards
from bot.store.replay_guard import ReplayGuard
from bot.store.store import Store
from graph.incident.visibility import list_visible_hosts
from graph.state import InboxItem, Origin
from tools.inventory.inventory import Inventory


def load_alert_site(settings: Settings, inventory: Inventory | None = None) -> AlertConfig | None:
    """Return the alert configuration, if set. Raises Refusal with every problem."""
    if settings.alerts is None:
        return None
    try:
        return load_alert_config(settings.alerts, inventory)
    except BadAlerts as why:
        raise Refusal("\n".join([f"{ENV_PREFIX}ALERTS: the file cannot be used:", *why.problems]), 2) from why


def build_alert_intake(settings: Settings, store: Store, inventory: Inventory, context: HandlerContext) -> AlertIntake | None:
    """Return the intake, or None without alert sources. Raises Refusal."""
    site = load_alert_site(settings, inventory)
    if site is None and not settings.alert_bots:
        return None
    site = site or AlertConfig.model_validate({"channel": ""})
    book = AlertStore(store.redis, window=timedelta(minutes=site.minutes))
    heard, routing = ReplayGuard(store.redis, 3 * MAX_CLOCK_SKEW), build_alert_routing(site, inventory)
    shared = context.people.is_shared
    return AlertIntake(site, book, context.inbox, heard, context.clock, routing, context.channel_bindings, context.wake, shared)


def build_alert_routing(site: AlertConfig, inventory: Inventory) -> AlertRouting:
    """Return the site's routes over the operator channels."""
    ours = [row.channel for row in inventory.channels if row.kind == "operators"]
    hosts = {channel: frozenset(list_visible_hosts(inventory, Origin(kind="slack", channel=channel))) for channel in ours}
    return site.build_routing(hosts, frozenset(inventory.hosts))


def build_alert_threads(
    settings: Settings,
    store: Store,
    inventory: Inventory,
    posted: tuple[SlackClient, PostedCards, People],
    inbox: Inbox,
    people_in: Callable[[str], Awaitable[bool]],
    otherwise: Callable[[InboxItem], Awaitable[Origin | None]],
) -> AlertThreads:
    """Build the thread resolver, also without intake: incidents that alerts opened continue.

    An unusable file is ignored; `build_alert_intake` reports it.
    """
    try:
        site = load_alert_site(settings, inventory)
    except Refusal:
        site = None
    ours = frozenset(build_alert_routing(site, inventory).hosts) if site else ()
    return AlertThreads(*posted[:2], inbox, posted[2], AlertStore(store.redis), people_in, otherwise, ours, site.channel if site else "")
