"""A node's clock: chrony's or timedatectl's status, and the time shown. The fleet derives an offset from the time of the request.

C0A80001,192.0.2.1,3,1716174600.123,-0.000012,0.000004,0.00002,1.2,0.001,0.03,0.0012,0.0004,64.2,Normal
NTPSynchronized=yes
1716174603.512340000
"""

import re
from collections.abc import Sequence

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.fact import Fact

CHECK = "time"
_TRACKING_PATTERN = re.compile(
    r"[0-9A-F]{8},[^,\n]{0,80},\d{1,3},-?\d+\.\d+,(-?\d{1,12}\.\d{1,12}),(?:[^,\n]{0,40},){8}([A-Za-z ]{1,30})\s*$"
)
# chrony follows no source: the offset is then how far it has corrected, not a measurement (chrony 4.3).
_NO_SOURCE_PATTERN = re.compile(r"(?m)^(?:Reference ID\s*: )?0{8}(?:,| \(\))")
_OFFSET_PATTERN = re.compile(r"(?m)^System time\s*: (\d{1,12}\.\d{1,12}) seconds (slow|fast) of NTP time")
_LEAP_PATTERN = re.compile(r"(?m)^Leap status\s*: ([A-Za-z ]{1,30})")
_NO_DAEMON_PATTERN = re.compile(r"506 Cannot talk to daemon|Could not open connection to daemon")
_SYNCED_PATTERN = re.compile(r"(?m)^NTPSynchronized=(yes|no)\s*$")
_CLOCK_PATTERN = re.compile(r"\s*(\d{9,11}\.\d{1,9})\s*")


def is_tracking(text: str) -> bool:
    head = text[:2000]
    return bool(
        _NO_DAEMON_PATTERN.search(head)
        or _LEAP_PATTERN.search(head)
        or any(_TRACKING_PATTERN.match(line) for line in split_lines(head)[:3])
    )


def parse_tracking(text: str) -> Sequence[Fact]:
    """Return offset and synchronisation. A daemon that does not answer is not synchronised."""
    row = next(filter(None, map(_TRACKING_PATTERN.match, split_lines(text))), None)
    measured = not _NO_SOURCE_PATTERN.search(text)
    if row:
        return _build_tracking_facts(float(row[1]) if measured else None, row[2].strip(), row[0].strip())
    leap, offset = _LEAP_PATTERN.search(text), _OFFSET_PATTERN.search(text) if measured else None
    if leap:
        sign = -1 if offset and offset[2] == "slow" else 1
        return _build_tracking_facts(sign * float(offset[1]) if offset else None, leap[1].strip(), offset[0] if offset else leap[0])
    if silent := _NO_DAEMON_PATTERN.search(text):
        return [Fact(CHECK, "time.synchronised", False, line=silent[0], attrs={"by": "chrony"})]
    raise Unreadable("neither a row of tracking nor a complaint")


def _build_tracking_facts(offset: float | None, leap: str, line: str) -> list[Fact]:
    facts = [Fact(CHECK, "time.synchronised", leap != "Not synchronised", line=f"{line}; leap status {leap}"[:300], attrs={"by": "chrony"})]
    if offset is not None:
        facts.append(Fact(CHECK, "time.offset", offset, unit="s", line=line[:300], attrs={"against": "time source"}))
    return facts


def is_timedatectl(text: str) -> bool:
    return _SYNCED_PATTERN.search(text[:2000]) is not None


def parse_timedatectl(text: str) -> Sequence[Fact]:
    match = _SYNCED_PATTERN.search(text)
    if match is None:
        raise Unreadable("no NTPSynchronized")
    return [Fact(CHECK, "time.synchronised", match[1] == "yes", line=match[0].strip(), attrs={"by": "timedatectl"})]


def is_clock(text: str) -> bool:
    return _CLOCK_PATTERN.fullmatch(text) is not None


def parse_clock(text: str) -> Sequence[Fact]:
    return [Fact(CHECK, "time.clock", float(text), unit="s", line=f"date: {text.strip()}")]


def merge_sync_facts(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Return synchronised if chrony or timedatectl says so: a site may run ntpd or PTP beside either."""
    sync_facts = [fact for fact in facts if fact.key == "time.synchronised"]
    synchronised = next((fact for fact in sync_facts if fact.value is True), None)
    chosen = synchronised or (sync_facts[0] if sync_facts else None)
    other_facts = [fact for fact in facts if fact.key != "time.synchronised"]
    if chosen is None and not any(fact.status.blind for fact in facts):
        chosen = Fact(CHECK, "check.skipped", "no_tool", line="neither chronyc nor timedatectl says whether the clock is kept")
    return [*other_facts, chosen] if chosen else other_facts


CHECKS = (
    Check(
        id="time",
        asks="Is the clock right, and does something keep it right?",
        commands=(
            Command("tracking", ("chronyc", "-c", "-n", "tracking"), optional=True),
            Command("sync", ("timedatectl", "show", "-p", "NTP", "-p", "NTPSynchronized"), optional=True),
            Command("clock", ("date", "-u", "+%s.%N")),
        ),
        formats=(
            Format("chronyc tracking", is_tracking, parse_tracking),
            Format("timedatectl show", is_timedatectl, parse_timedatectl),
            Format("date", is_clock, parse_clock),
        ),
        establishes=("time.synchronised", "time.offset", "time.clock", "check.skipped"),
        seconds=1.0,
        settle=merge_sync_facts,
    ),
)
