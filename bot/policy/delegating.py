"""What an approver types to let somebody else use their right: `@name for 8h why` or `@name until 18:00 why`. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from bot.refusal import Refusal

HOW: Final = (
    "Say for whom and for how long: `/rackmedic delegate @name for 8h` or `/rackmedic delegate @name until 18:00`, and why, if you like."
)
_SHAPE = re.compile(
    r"<@(?P<user>[UW][A-Z0-9]+)(?:\|[^<>]*)?>\s+(?:for\s+(?P<number>\d{1,3})\s*(?P<unit>h|hours?|d|days?)"
    r"|until\s+(?:(?P<day>\d{4}-\d\d-\d\d)[ T])?(?P<hour>\d{1,2}):(?P<minute>\d\d))(?:\s+(?P<why>.*))?",
    re.DOTALL | re.IGNORECASE,
)


class NotSoDelegated(Refusal):
    """The text says how it is said, or why it cannot be."""


@dataclass(frozen=True, slots=True)
class DelegationAsked:
    """To whom, until when, and why."""

    user: str
    until: datetime
    why: str = ""


def asked_in(text: str, now: datetime, *, zone: str, most: timedelta) -> DelegationAsked:
    """What the words after `delegate` ask for, as Slack sends them; a clock is one of `zone`, the next time it shows that. Raises NotSoDelegated."""
    found = _SHAPE.fullmatch(text.strip()[:600])
    if found is None:
        raise NotSoDelegated(HOW)
    until = now + _span(found) if found["number"] else _moment(found, now, zone)
    if not now < until <= now + most:
        raise NotSoDelegated(f"That may last for {most.total_seconds() / 3600:g} hours at most, and must end after now.")
    return DelegationAsked(found["user"], until, " ".join((found["why"] or "").split()))


def _span(found: re.Match[str]) -> timedelta:
    number = int(found["number"])
    return timedelta(days=number) if found["unit"].lower().startswith("d") else timedelta(hours=number)


def _moment(found: re.Match[str], now: datetime, zone: str) -> datetime:
    there = now.astimezone(ZoneInfo(zone))
    try:
        day = datetime.fromisoformat(found["day"]) if found["day"] else there
        at = there.replace(
            year=day.year, month=day.month, day=day.day, hour=int(found["hour"]), minute=int(found["minute"]), second=0, microsecond=0
        )
    except ValueError as why:
        raise NotSoDelegated(HOW) from why
    return at if found["day"] or at > there else at + timedelta(days=1)
