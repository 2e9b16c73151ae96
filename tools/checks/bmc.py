"""The BMC of a node: its event log, and its temperature, fan and power sensors.

   7 | 05/20/2026 | 03:01:22 | Power Supply PSU2 Status | Failure detected | Asserted
   1 |  Pre-Init  |0000027752| Power Supply #0x51 | Failure detected | Asserted
Inlet Temp       | 05h | ok  |  7.1 | 43 degrees C
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from kb.scan import lines_in
from tools.checks.row import Check, Command, Format, Unreadable
from tools.fact import Fact, Status

CHECK = "ipmi"
_EVENT = re.compile(
    r"\s*[0-9a-f]{1,5} \| {0,2}(\d\d/\d\d/(?:\d\d){1,2}|Pre-Init *) ?\| ?(\d\d:\d\d:\d\d|\d{1,12})?(?: [A-Z]{2,5})? ?"
    r"\| (.{1,120}?) \| (.{1,120}?)(?: \| (Asserted|Deasserted))?(?: \|.{0,80})?\s*$"
)
_SENSOR = re.compile(r"(.{1,40}?) *\| ([0-9A-F]{2})h \| (\w{1,4}) *\| *[\d.]{1,8} \| *(.{0,80}?)\s*$")
_CROSSED = frozenset(f"{side}{how}" for side in ("", "u", "l") for how in ("nc", "cr", "nr"))
"""A threshold that was crossed: `sdr list` says how far, `sdr type` also whether above or below."""
_DEGREES = re.compile(r"(-?\d{1,3}(?:\.\d+)?) degrees C")
_INLET = re.compile(r"(?i)inlet|ambient|intake|front ?panel temp|sys(?:tem)? in\b")
_NO_BMC = re.compile(
    r"(?i)could not open device at /dev/ipmi.{0,80}|no such file or directory.{0,20}ipmi|unable to (?:open|establish).{0,80}"
)
_EMPTY = re.compile(r"SEL has no entries")

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("psu", re.compile(r"(?i)(?:power supply|\bpsu?\d|power unit|pwr).*(?:fail|lost|predictive|redundancy degraded|out of range|inactive)")),
    ("fan", re.compile(r"(?i)\bfan.*(?:fail|lower (?:critical|non-recoverable)|redundancy lost|below|lost|stopped)")),
    ("pcie", re.compile(r"(?i)(?:pci|critical interrupt|gpu (?:baseboard|board|slot)|\bslot\b).*(?:fatal|perr|serr|uncorrectable|bus error|link down|fault)")),
    ("memory", re.compile(r"(?i)(?:memory|dimm).*(?:uncorrectable|fail|disabled)")),
    ("cpu", re.compile(r"(?i)(?:processor|cpu\d?).*(?:ierr|thermal trip|machine check|configuration error|uncorrectable)")),
    ("temperature", re.compile(r"(?i)temp.*upper (?:critical|non-recoverable)")),
)  # fmt: skip


def is_events(text: str) -> bool:
    """Whether rows of `ipmitool sel` stand at the beginning, or its complaint."""
    return any(_EVENT.match(line) for line in lines_in(text[:4096])[:10]) or bool(_EMPTY.search(text[:400]) or _NO_BMC.search(text[:400]))


def parse_events(text: str) -> Sequence[Fact]:
    """Troubles that still stand: what was taken back later is over. Times are taken as UTC, for the log names no zone."""
    if (why := _NO_BMC.search(text)) and not any(_EVENT.match(line) for line in lines_in(text)):
        return [Fact(CHECK, "check.skipped", "no_device", line=f"the BMC cannot be asked: {why[0]}"[:200])]
    standing: dict[tuple[str, str, str], list[tuple[datetime | None, str]]] = {}
    for line in lines_in(text):
        row = _EVENT.match(line)
        kind = _kind(f"{row[3]} {row[4]}") if row else ""
        if row and kind:
            name = (kind, row[3], row[4])
            if row[5] == "Deasserted":
                standing.pop(name, None)
            else:
                standing.setdefault(name, []).append((_time(row[1], row[2] or ""), line.strip()))
    found = [
        Fact(
            CHECK,
            "ipmi.event",
            kind,
            line=rows[-1][1][:300],
            time=rows[-1][0],
            attrs={
                "sensor": sensor[:80],
                "text": text[:120],
                "count": len(rows),
                "when": f" of {rows[-1][0]:%Y-%m-%d}" if rows[-1][0] else "",
            },
        )
        for (kind, sensor, text), rows in standing.items()
    ]
    return found or [Fact(CHECK, "ipmi.event", status=Status.ABSENT, line="no trouble in the BMC's event log")]


def _kind(words: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.search(words[:240])), "")


def _time(date: str, clock: str) -> datetime | None:
    shape = "%m/%d/%Y %H:%M:%S" if len(date) == 10 else "%m/%d/%y %H:%M:%S"
    try:
        return datetime.strptime(f"{date} {clock}", shape).replace(tzinfo=UTC)
    except ValueError:
        return None


def is_sensors(text: str) -> bool:
    """Whether rows of `ipmitool sdr type` stand at the beginning."""
    return any(_SENSOR.match(line) for line in lines_in(text[:4096])[:10])


def parse_sensors(text: str) -> Sequence[Fact]:
    """The hottest inlet, and every sensor that is not ok. `ns` is a sensor that is not fitted."""
    rows = [row for row in map(_SENSOR.match, lines_in(text)) if row]
    inlets = [(float(said[1]), row[0].strip()) for row in rows if _INLET.search(row[1]) and (said := _DEGREES.search(row[4]))]
    found = []
    if inlets:
        hottest, line = max(inlets)
        found.append(Fact(CHECK, "ipmi.inlet", int(hottest), unit="C", line=line[:200]))
    for row in rows:
        kind = _kind(f"{row[1]} {row[4]}") or (_sensor_kind(row[1]) if row[3] in _CROSSED else "")
        if kind in ("psu", "fan", "temperature") and row[3] != "ns":
            found.append(Fact(CHECK, "ipmi.sensor", kind, line=row[0].strip()[:200], attrs={"sensor": row[1].strip(), "text": row[4]}))
    return found or [Fact(CHECK, "ipmi.sensor", status=Status.ABSENT, line=f"{len(rows)} sensors, none in trouble")]


def _sensor_kind(name: str) -> str:
    return "fan" if re.search(r"(?i)fan", name) else "psu" if re.search(r"(?i)ps\d|psu|power supply", name) else "temperature"


def is_broken(text: str) -> bool:
    """Whether ipmitool complains about something else."""
    return bool(re.search(r"(?m)^(?:Error|Get .{0,40} command failed|Unable|ipmitool: )", text[:2000]))


def parse_broken(text: str) -> Sequence[Fact]:
    """The complaint, for people to read."""
    raise Unreadable(lines_in(text.strip())[0][:200])


def settle(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Several commands that found no trouble say so once."""
    quiet = [fact for fact in facts if fact.status is Status.ABSENT]
    loud = [fact for fact in facts if fact.status is not Status.ABSENT]
    return [*loud, *{fact.key: fact for fact in quiet if not any(other.key == fact.key for other in loud)}.values()]


def _sensors(name: str, kind: str) -> Command:
    return Command(name, ("ipmitool", "sdr", "type", kind), privileged=True, optional=True)


CHECKS = (
    Check(
        id="ipmi",
        asks="Did the BMC log a hardware fault, and are inlet air, fans and power supplies well?",
        commands=(
            Command("events", ("ipmitool", "sel", "elist", "last", "200"), privileged=True, optional=True),
            _sensors("temperatures", "Temperature"),
            _sensors("fans", "Fan"),
            _sensors("power", "Power Supply"),
        ),
        formats=(
            Format("ipmitool sel", is_events, parse_events),
            Format("ipmitool sdr", is_sensors, parse_sensors),
            Format("ipmitool", is_broken, parse_broken),
        ),
        establishes=("ipmi.event", "ipmi.inlet", "ipmi.sensor", "check.skipped"),
        seconds=6.0,
        settle=settle,
    ),
)
