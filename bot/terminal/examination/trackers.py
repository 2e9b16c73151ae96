"""Trackers in which tickets may be opened: each is tried without making anything."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from redis.asyncio import Redis

from bot.refusal import Refusal
from bot.run.outward.trackers import site_trackers
from bot.run.world import WallClock
from bot.settings import PREFIX, Settings
from bot.terminal.examination.finding import Finding
from bot.trackers.hearing import HookedTickets
from bot.trackers.kinds import readable_by_others
from bot.trackers.tracker import Tracker, TrackerAway, TrackerRefused
from kb.scan import lines_in


async def tracker_findings(settings: Settings) -> list[Finding]:
    """Nothing where none is named."""
    if settings.trackers is None:
        return []
    try:
        trackers: Sequence[Tracker] = await asyncio.to_thread(site_trackers, settings)
    except Refusal as why:
        return [Finding("tracker", "fail", problem, "mend the file; nothing is served until then") for problem in lines_in(str(why))]
    found = list(await asyncio.gather(*(_tried(tracker) for tracker in trackers)))
    if await asyncio.to_thread(readable_by_others, settings.trackers):
        found.append(
            Finding("tracker", "warn", f"{settings.trackers}: others on this machine may read its keys", f"chmod 600 {settings.trackers}")
        )
    return found


async def hook_findings(settings: Settings, redis: Redis) -> list[Finding]:
    """Of each tracker that may tell us of news, whether it ever did. Nothing where the file cannot be used: `tracker_findings` says so."""
    try:
        trackers = await asyncio.to_thread(site_trackers, settings)
    except Refusal:
        return []
    tickets = HookedTickets(redis, WallClock())
    return [_heard(tracker, await tickets.last(tracker.name), settings.http_port) for tracker in trackers if tracker.hook]


def _heard(tracker: Tracker, at: datetime | None, port: int) -> Finding:
    where = f"{tracker.name}: news at /trackers/{tracker.name} on port {port}"
    if at is None:
        mend = f"set it up there (docs/trackers.md) and compare {tracker.name}.hook; until then it is asked, as ever"
        return Finding("tracker", "warn", f"{where}: nothing signed was heard yet", mend)
    return Finding("tracker", "ok", f"{where}, the last at {at:%Y-%m-%d %H:%M} UTC")


async def _tried(tracker: Tracker) -> Finding:
    try:
        return Finding("tracker", "ok", f"{tracker.name}: {await tracker.tried()}")
    except TrackerAway as why:
        return Finding(
            "tracker", "fail", f"{tracker.name}: {why}", "check its address and the way there; what is to be sent waits meanwhile"
        )
    except TrackerRefused as why:
        return Finding("tracker", "fail", f"{tracker.name}: {why}", f"mend its row in {PREFIX}TRACKERS")
