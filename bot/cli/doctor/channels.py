"""Doctor's checks of channels. A shared operator channel is not served."""

import asyncio
from collections.abc import Awaitable, Callable

from bot.cli.doctor.finding import Finding
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.slack.client import build_slack_client
from bot.slack.people import People
from tools.inventory.inventory import ChannelRow, Inventory

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
