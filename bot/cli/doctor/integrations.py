"""Doctor's checks of channels, trackers, the provider link, the ticket intake and the alerts file."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from bot.alerts.config import AlertConfig
from bot.app.alerts import build_alert_routing, load_alert_site
from bot.app.diagnosis_runtime import WallClock
from bot.app.provider import load_intake_keys
from bot.app.trackers import open_site_trackers
from bot.cli.doctor.finding import Finding
from bot.inbound import parse_webhook_key
from bot.provider.link import HttpProviderLink, LinkRefused, LinkUnavailable, ProviderLink
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.slack.client import build_slack_client
from bot.slack.people import People
from bot.trackers.tracker import Tracker, TrackerRefused, TrackerUnavailable
from bot.trackers.tracker_kinds import is_readable_by_others
from kb.needle_search import split_lines
from tools.inventory.inventory import ChannelRow, Inventory

# Doctor's checks of channels. A shared operator channel is not served.

ChannelSharingLookup = Callable[[str], Awaitable[bool]]
NOT_SERVED_TEXT = "another organisation reads it or is invited to, so I do not answer there and start no incident there"
FIX_HINT = (
    "end the sharing in Slack, in the channel's settings, or bind a channel of your own in the inventory; from then on I answer by myself"
)


async def check_channels(settings: Settings, inventory: Inventory) -> list[Finding]:
    """Return one finding per channel; Slack is asked only with a token."""
    token = settings.slack_bot_token.get_secret_value()
    if not token:
        return [build_channel_finding(row) for row in inventory.channels]
    is_shared = People(build_slack_client(token, settings.slack_api_url)).is_shared
    return list(await asyncio.gather(*(check_channel(row, is_shared) for row in inventory.channels)))


async def check_channel(row: ChannelRow, shared: ChannelSharingLookup) -> Finding:
    """Check the sharing; a tenant's channel may be shared."""
    bound = build_channel_finding(row)
    if row.kind != "operators":
        return bound
    try:
        if await shared(row.channel):
            return Finding("channel", "fail", f"{row.name or row.channel}: {NOT_SERVED_TEXT}", FIX_HINT)
    except Refusal:
        unknown = f"{bound.says}; Slack does not say whether another organisation reads it, and until it does nothing is answered there"
        return Finding("channel", "warn", unknown, f"see whether it is there and the app is in it, and {ENV_PREFIX}SLACK_BOT_TOKEN")
    return bound


def build_channel_finding(row: ChannelRow) -> Finding:
    whose = f"customer {row.tenant}" if row.kind == "tenant" else "operators"
    hosts = f"groups {', '.join(row.groups)}" if row.groups else "all of its hosts" if row.tenant else "all hosts"
    answers = "answers mentions only" if row.mention_only else "answers what it is plainly asked in its threads"
    return Finding("channel", "ok", f"{row.name or row.channel}: {whose}, {hosts}, {answers}")


# Doctor's checks of trackers, without creating tickets.


async def check_trackers(settings: Settings) -> list[Finding]:
    if settings.trackers is None:
        return []
    try:
        trackers: Sequence[Tracker] = await asyncio.to_thread(open_site_trackers, settings)
    except Refusal as error:
        return [Finding("tracker", "fail", problem, "fix the file; nothing is served until then") for problem in split_lines(str(error))]
    findings = list(await asyncio.gather(*(_probe_tracker(tracker) for tracker in trackers)))
    if await asyncio.to_thread(is_readable_by_others, settings.trackers):
        findings.append(
            Finding("tracker", "warn", f"{settings.trackers}: others on this machine may read its keys", f"chmod 600 {settings.trackers}")
        )
    return findings


async def _probe_tracker(tracker: Tracker) -> Finding:
    try:
        return Finding("tracker", "ok", f"{tracker.name}: {await tracker.check_access()}")
    except TrackerUnavailable as error:
        return Finding(
            "tracker", "fail", f"{tracker.name}: {error}", "check its address and the network path; messages wait until it answers"
        )
    except TrackerRefused as error:
        return Finding("tracker", "fail", f"{tracker.name}: {error}", f"fix its row in {ENV_PREFIX}TRACKERS")


# Doctor's checks of the provider link, the ticket intake and the alerts file.


async def check_provider_link(settings: Settings) -> list[Finding]:
    """Check the signature by asking for no ticket's state. Empty if not configured."""
    if not settings.provider_url:
        return []
    try:
        link = HttpProviderLink(settings.provider_url, parse_webhook_key(settings.provider_key.get_secret_value()), WallClock())
    except ValueError as error:
        return [Finding("provider", "fail", f"the key {error}", f"set {ENV_PREFIX}PROVIDER_KEY to the one that the provider gave you")]
    return [await _probe_provider(link, settings.provider_url)]


async def _probe_provider(link: ProviderLink, url: str) -> Finding:
    try:
        await link.fetch_states({})
    except LinkUnavailable as error:
        return Finding("provider", "fail", f"{url}: {error}", "check the address and the network path; messages wait until it answers")
    except LinkRefused as error:
        return Finding(
            "provider", "fail", f"{url}: {error}", f"compare {ENV_PREFIX}PROVIDER_KEY, the tenant in the address and both clocks"
        )
    return Finding("provider", "ok", f"{url} takes our signature")


def check_intake(settings: Settings, inventory: Inventory) -> list[Finding]:
    if settings.intake_keys is None:
        return []
    try:
        keys = load_intake_keys(settings.intake_keys, inventory)
    except Refusal as error:
        return [Finding("intake", "fail", problem, "fix the file; nothing is served until then") for problem in split_lines(str(error))]
    counts_text = ", ".join(f"{tenant} ({len(rows)})" for tenant, rows in sorted(keys.items()))
    return [Finding("intake", "ok", f"port {settings.http_port} of {settings.http_host}; keys of {counts_text}")]


async def check_alerts(settings: Settings, inventory: Inventory, shared: ChannelSharingLookup | None = None) -> list[Finding]:
    """Check the alerts file. `shared` asks Slack about a channel."""
    try:
        site = load_alert_site(settings, inventory)
    except Refusal as error:
        return [Finding("alerts", "fail", problem, "fix the file; nothing is served until then") for problem in split_lines(str(error))]
    if site is None:
        return []
    ways = ["Alertmanager"] * bool(site.user or site.token.get_secret_value()) + ["signed webhooks"] * bool(site.keys)
    elsewhere = sorted({row.channel for row in site.routes} - {site.channel})
    routed = f"; {len(site.routes)} routes to {', '.join(elsewhere) or site.channel}, all else" if site.routes else "; incidents"
    sentence = f"{' and '.join(ways)} on port {settings.http_port}{routed} {'opens' if site.routes else 'open'} in {site.channel}"
    return [Finding("alerts", "ok", sentence), *await _check_alert_routes(site, inventory, shared or _build_sharing_lookup(settings))]


async def _check_alert_routes(site: AlertConfig, inventory: Inventory, shared: ChannelSharingLookup | None) -> list[Finding]:
    """Warn of routes that fall back to the default channel."""
    lost = {at: "is not bound to the operators by the inventory" for at, _ in build_alert_routing(site, inventory).list_unbound_routes()}
    for at, row in enumerate(site.routes if shared else ()):
        if at not in lost and row.channel != site.channel and await _is_shared_channel(row.channel, shared):
            lost[at] = "is read by another organisation, or one is invited to it"
    mend = "bind the channel to the operators in the inventory, end its sharing in Slack, or name another in the route"
    return [
        Finding("alerts", "warn", f"route {at + 1}: {site.routes[at].channel} {reason}; its alerts open in {site.channel}", mend)
        for at, reason in sorted(lost.items())
    ]


async def _is_shared_channel(channel: str, shared: ChannelSharingLookup | None) -> bool:
    try:
        return shared is not None and await shared(channel)
    except Refusal:
        return False


def _build_sharing_lookup(settings: Settings) -> ChannelSharingLookup | None:
    token = settings.slack_bot_token.get_secret_value()
    return People(build_slack_client(token, settings.slack_api_url)).is_shared if token else None
