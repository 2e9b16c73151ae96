"""Doctor's checks of trackers, without creating tickets."""

import asyncio
from collections.abc import Sequence

from bot.app.trackers import open_site_trackers
from bot.cli.doctor.finding import Finding
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.trackers.tracker import Tracker, TrackerRefused, TrackerUnavailable
from bot.trackers.tracker_kinds import is_readable_by_others
from kb.scan import split_lines


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
