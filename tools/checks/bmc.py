"""A node's BMC: its event log, and its temperature, fan and power sensors.

   7 | 05/20/2026 | 03:01:22 | Power Supply PSU2 Status | Failure detected | Asserted
   1 |  Pre-Init  |0000027752| Power Supply #0x51 | Failure detected | Asserted
Inlet Temp       | 05h | ok  |  7.1 | 43 degrees C
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.not_understood import build_not_understood_facts
from tools.fact import Fact, Status

CHECK = "ipmi"
_EVENT_PATTERN = re.compile(
    r"\s*[0-9a-f]{1,5} \| {0,2}(\d\d/\d\d/(?:\d\d){1,2}|Pre-Init *) ?\| ?(\d\d:\d\d:\d\d|\d{1,12})?(?: [A-Z]{2,5})? ?"
    r"\| (.{1,120}?) \| (.{1,120}?)(?: \| (Asserted|Deasserted))?(?: \|.{0,80})?\s*$"
)
_SENSOR_PATTERN = re.compile(r"(.{1,40}?) *\| ([0-9A-F]{2})h \| (\w{1,4}) *\| *[\d.]{1,8} \| *(.{0,80}?)\s*$")
# Crossed thresholds: `sdr list` says how far, `sdr type` also whether above or below.
_CROSSED_STATES = frozenset(f"{side}{link_kind}" for side in ("", "u", "l") for link_kind in ("nc", "cr", "nr"))
_DEGREES_PATTERN = re.compile(r"(-?\d{1,3}(?:\.\d+)?) degrees C")
_INLET_PATTERN = re.compile(r"(?i)inlet|ambient|intake|front ?panel temp|sys(?:tem)? in\b")
_NO_BMC_PATTERN = re.compile(
    r"(?i)could not open device at /dev/ipmi.{0,80}|no such file or directory.{0,20}ipmi|unable to (?:open|establish).{0,80}"
)
_EMPTY_PATTERN = re.compile(r"SEL has no entries")

_EVENT_KIND_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("psu", re.compile(r"(?i)(?:power supply|\bpsu?\d|power unit|pwr).*(?:fail|lost|predictive|redundancy degraded|out of range|inactive)")),
    ("fan", re.compile(r"(?i)\bfan.*(?:fail|lower (?:critical|non-recoverable)|redundancy lost|below|lost|stopped)")),
    ("drive", re.compile(r"(?i)(?:drive|disk|nvme|bay).*(?:fault|fail|predictive|rebuild|not (?:consistent|redundant))")),
    ("pcie", re.compile(r"(?i)(?:pci|critical interrupt|gpu (?:baseboard|board|slot)|\bslot\b).*(?:fatal|perr|serr|uncorrectable|bus error|link down|fault)")),
    ("memory", re.compile(r"(?i)(?:memory|dimm).*(?:uncorrectable|fail|disabled)")),
    ("cpu", re.compile(r"(?i)(?:processor|cpu\d?).*(?:ierr|thermal trip|machine check|configuration error|uncorrectable)")),
    ("voltage", re.compile(r"(?i)volt.*(?:(?:lower|upper) (?:critical|non-recoverable)|limit exceeded|out of range|fail)")),
    ("watchdog", re.compile(r"(?i)watchdog.*(?:hard reset|power (?:down|off|cycle)|timer expired|os (?:run|load))")),
    ("os_stop", re.compile(r"(?i)os (?:critical )?stop|run-?time (?:critical )?stop|run-?time soft stop|kernel panic")),
    ("leak", re.compile(r"(?i)leak.*(?:asserted|detected|critical|fault)|coolant.*(?:lower|critical|low|fail)")),
    ("cable", re.compile(r"(?i)(?:cable|interconnect).*(?:incorrect|config\w* error|not connected|disconnected|fault)")),
    ("firmware", re.compile(r"(?i)(?:system firmware|post|bios).*(?:error|hang|fail)")),
    ("temperature", re.compile(r"(?i)temp.*upper (?:critical|non-recoverable)")),
)  # fmt: skip


# events of a healthy machine
_ORDINARY_PATTERN = re.compile(
    r"(?i)boot|log area|event log\w* (?:clear|disab)|timestamp|clock sync|power (?:off|down|on|cycle|reset)|acpi|presence|button|session|"
    r"version|initiated|initialized|installed|enabled|state deasserted|transition to (?:ok|running|active|idle)|fully redundant|redundancy regained|"
    r"deasserted|correctable ecc\b(?!.*limit)|returned to normal|soft reset|device (?:enabled|present)|chassis|unlocked"
)


def is_events(text: str) -> bool:
    return any(_EVENT_PATTERN.match(line) for line in split_lines(text[:4096])[:10]) or bool(
        _EMPTY_PATTERN.search(text[:400]) or _NO_BMC_PATTERN.search(text[:400])
    )


def parse_events(text: str) -> Sequence[Fact]:
    """Return faults still asserted and rows of unknown kind. Times count as UTC: the log names no zone."""
    if (match := _NO_BMC_PATTERN.search(text)) and not any(_EVENT_PATTERN.match(line) for line in split_lines(text)):
        return [Fact(CHECK, "check.skipped", "no_device", line=f"the BMC cannot be asked: {match[0]}"[:200])]
    standing_events: dict[tuple[str, str, str], list[tuple[datetime | None, str]]] = {}
    unknown: list[str] = []
    for line in split_lines(text):
        row = _EVENT_PATTERN.match(line)
        kind = _classify_event(f"{row[3]} {row[4]}") if row else ""
        if row and not kind and row[5] != "Deasserted" and not _ORDINARY_PATTERN.search(f"{row[3]} {row[4]}"):
            unknown.append(line.strip())
        if row and kind:
            name = (kind, row[3], row[4])
            if row[5] == "Deasserted":
                standing_events.pop(name, None)
            else:
                standing_events.setdefault(name, []).append((_parse_event_time(row[1], row[2] or ""), line.strip()))
    facts = [
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
        for (kind, sensor, text), rows in standing_events.items()
    ]
    facts += build_not_understood_facts(CHECK, unknown)
    return facts or [Fact(CHECK, "ipmi.event", status=Status.ABSENT, line="no trouble in the BMC's event log")]


def _classify_event(words: str) -> str:
    return next((kind for kind, pattern in _EVENT_KIND_PATTERNS if pattern.search(words[:240])), "")


def _parse_event_time(date: str, clock: str) -> datetime | None:
    shape = "%m/%d/%Y %H:%M:%S" if len(date) == 10 else "%m/%d/%y %H:%M:%S"
    try:
        return datetime.strptime(f"{date} {clock}", shape).replace(tzinfo=UTC)
    except ValueError:
        return None


def is_sensors(text: str) -> bool:
    return any(_SENSOR_PATTERN.match(line) for line in split_lines(text[:4096])[:10])


def parse_sensors(text: str) -> Sequence[Fact]:
    """Return the hottest inlet and faulty sensors. State `ns`: not fitted."""
    rows = [row for row in map(_SENSOR_PATTERN.match, split_lines(text)) if row]
    inlets = [
        (float(match[1]), row[0].strip()) for row in rows if _INLET_PATTERN.search(row[1]) and (match := _DEGREES_PATTERN.search(row[4]))
    ]
    facts = []
    if inlets:
        hottest, line = max(inlets)
        facts.append(Fact(CHECK, "ipmi.inlet", int(hottest), unit="C", line=line[:200]))
    for row in rows:
        kind = _classify_event(f"{row[1]} {row[4]}") or (_classify_sensor(row[1]) if row[3] in _CROSSED_STATES else "")
        if kind in ("psu", "fan", "temperature") and row[3] != "ns":
            facts.append(Fact(CHECK, "ipmi.sensor", kind, line=row[0].strip()[:200], attrs={"sensor": row[1].strip(), "text": row[4]}))
    return facts or [Fact(CHECK, "ipmi.sensor", status=Status.ABSENT, line=f"{len(rows)} sensors, none in trouble")]


def _classify_sensor(name: str) -> str:
    return "fan" if re.search(r"(?i)fan", name) else "psu" if re.search(r"(?i)ps\d|psu|power supply", name) else "temperature"


def is_ipmitool_error(text: str) -> bool:
    return bool(re.search(r"(?m)^(?:Error|Get .{0,40} command failed|Unable|ipmitool: )", text[:2000]))


def parse_ipmitool_error(text: str) -> Sequence[Fact]:
    raise Unreadable(split_lines(text.strip())[0][:200])


def merge_absent_facts(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Report `absent` once per key, and only if no command found trouble."""
    quiet = [fact for fact in facts if fact.status is Status.ABSENT]
    loud = [fact for fact in facts if fact.status is not Status.ABSENT]
    return [*loud, *{fact.key: fact for fact in quiet if not any(other.key == fact.key for other in loud)}.values()]


def _build_sensor_command(name: str, kind: str) -> Command:
    return Command(name, ("ipmitool", "sdr", "type", kind), privileged=True, optional=True)


CHECKS = (
    Check(
        id="ipmi",
        asks="Did the BMC log a hardware fault, and are inlet air, fans and power supplies well?",
        commands=(
            Command("events", ("ipmitool", "sel", "elist", "last", "200"), privileged=True, optional=True),
            _build_sensor_command("temperatures", "Temperature"),
            _build_sensor_command("fans", "Fan"),
            _build_sensor_command("power", "Power Supply"),
        ),
        formats=(
            Format("ipmitool sel", is_events, parse_events),
            Format("ipmitool sdr", is_sensors, parse_sensors),
            Format("ipmitool", is_ipmitool_error, parse_ipmitool_error),
        ),
        establishes=("ipmi.event", "check.not_understood", "ipmi.inlet", "ipmi.sensor", "check.skipped"),
        seconds=6.0,
        settle=merge_absent_facts,
    ),
)
