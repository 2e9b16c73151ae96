"""Links from a report to other incidents' threads."""

from collections.abc import Mapping

from bot.cards.text import Part, thread_link
from bot.incidents.cards import diagnosis
from bot.policy import channels as policy
from bot.slack.posted_messages import OriginLookup
from graph.report import Report
from graph.state import Origin
from tools.inventory.inventory import ChannelRow

NO_CHANNELS: Mapping[str, ChannelRow] = {}


async def build_thread_links(report: Report, origin: Origin, origin_of: OriginLookup, bound: Mapping[str, ChannelRow]) -> dict[str, Part]:
    """Return incident → link, only for threads that the readers may open."""
    found: dict[str, Part] = {}
    for incident in dict.fromkeys(row.incident for row in report.shared):
        other = await origin_of(incident)
        if other is not None and policy.can_follow_thread(origin, other, bound):
            found[incident] = thread_link(other.team, other.channel, other.thread_ts, diagnosis.OTHER_THREAD_TEXT)
    for row in report.threads:
        other = await origin_of(row.incident)
        if other is not None and policy.can_follow_thread(origin, other, bound):
            found[row.incident] = thread_link(other.team, other.channel, other.thread_ts, f"{row.opened:%Y-%m-%d}")
    return found
