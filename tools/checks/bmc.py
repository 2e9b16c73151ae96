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
_CROSSED_STATES = frozenset({"nc", "cr", "nr", "unc", "ucr", "unr", "lnc", "lcr", "lnr"})
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

# Events of a healthy machine.
_ORDINARY_PATTERN = re.compile(
    r"(?i)boot|log area|event log\w* (?:clear|disab)|timestamp|clock sync|power (?:off|down|on|cycle|reset)|acpi|presence|button|session|"
    r"version|initiated|initialized|installed|enabled|state deasserted|transition to (?:ok|running|active|idle)|fully redundant|redundancy regained|"
    r"deasserted|correctable ecc\b(?!.*limit)|returned to normal|soft reset|device (?:enabled|present)|chassis|unlocked"
)


def is_events(text: str) -> bool:
    if _has_event_lines(split_lines(text[:4096])[:10]):
        return True
    return bool(_EMPTY_PATTERN.search(text[:400]) or _NO_BMC_PATTERN.search(text[:400]))


def _has_event_lines(lines: Sequence[str]) -> bool:
    return any(_EVENT_PATTERN.match(line) for line in lines)


def parse_events(text: str) -> Sequence[Fact]:
    """Return the faults that are still asserted and the events of unknown kind.

    Times count as UTC, because the log names no time zone.
    """
    lines = split_lines(text)
    if (no_bmc := _NO_BMC_PATTERN.search(text)) and not _has_event_lines(lines):
        return [Fact(CHECK, "check.skipped", "no_device", line=f"the BMC cannot be asked: {no_bmc[0]}"[:200])]
    asserted_events: dict[tuple[str, str, str], list[tuple[datetime | None, str]]] = {}
    unknown_lines: list[str] = []
    for line in lines:
        event = _EVENT_PATTERN.match(line)
        if event is None:
            continue
        date, clock, sensor, description, direction = event.groups()
        kind = _classify_event(f"{sensor} {description}")
        if direction == "Deasserted":
            asserted_events.pop((kind, sensor, description), None)
        elif kind:
            occurrence = (_parse_event_time(date, clock or ""), line.strip())
            asserted_events.setdefault((kind, sensor, description), []).append(occurrence)
        elif not _ORDINARY_PATTERN.search(f"{sensor} {description}"):
            unknown_lines.append(line.strip())
    facts = [
        _build_event_fact(kind, sensor, description, occurrences) for (kind, sensor, description), occurrences in asserted_events.items()
    ]
    facts += build_not_understood_facts(CHECK, unknown_lines)
    return facts or [Fact(CHECK, "ipmi.event", status=Status.ABSENT, line="no trouble in the BMC's event log")]


def _build_event_fact(kind: str, sensor: str, description: str, occurrences: Sequence[tuple[datetime | None, str]]) -> Fact:
    latest_time, latest_line = occurrences[-1]
    attrs = {
        "sensor": sensor[:80],
        "text": description[:120],
        "count": len(occurrences),
        "when": f" of {latest_time:%Y-%m-%d}" if latest_time else "",
    }
    return Fact(CHECK, "ipmi.event", kind, line=latest_line[:300], time=latest_time, attrs=attrs)


def _classify_event(description: str) -> str:
    return next((kind for kind, pattern in _EVENT_KIND_PATTERNS if pattern.search(description[:240])), "")


def _parse_event_time(date: str, clock: str) -> datetime | None:
    date_format = "%m/%d/%Y %H:%M:%S" if len(date) == 10 else "%m/%d/%y %H:%M:%S"
    try:
        return datetime.strptime(f"{date} {clock}", date_format).replace(tzinfo=UTC)
    except ValueError:
        return None


def is_sensors(text: str) -> bool:
    return any(_SENSOR_PATTERN.match(line) for line in split_lines(text[:4096])[:10])


def parse_sensors(text: str) -> Sequence[Fact]:
    """Return the temperature of the hottest air inlet and the faulty sensors."""
    sensors = [match for match in map(_SENSOR_PATTERN.match, split_lines(text)) if match]
    facts = _build_inlet_facts(sensors)
    for sensor in sensors:
        name, state, reading = sensor[1], sensor[3], sensor[4]
        kind = _classify_event(f"{name} {reading}")
        if not kind and state in _CROSSED_STATES:
            kind = _classify_sensor(name)
        is_fitted = state != "ns"
        if is_fitted and kind in ("psu", "fan", "temperature"):
            facts.append(Fact(CHECK, "ipmi.sensor", kind, line=sensor[0].strip()[:200], attrs={"sensor": name.strip(), "text": reading}))
    return facts or [Fact(CHECK, "ipmi.sensor", status=Status.ABSENT, line=f"{len(sensors)} sensors, none in trouble")]


def _build_inlet_facts(sensors: Sequence[re.Match[str]]) -> list[Fact]:
    inlets = []
    for sensor in sensors:
        degrees = _DEGREES_PATTERN.search(sensor[4])
        if degrees and _INLET_PATTERN.search(sensor[1]):
            inlets.append((float(degrees[1]), sensor[0].strip()))
    if not inlets:
        return []
    temperature, line = max(inlets)
    return [Fact(CHECK, "ipmi.inlet", int(temperature), unit="C", line=line[:200])]


def _classify_sensor(name: str) -> str:
    if re.search(r"(?i)fan", name):
        return "fan"
    return "psu" if re.search(r"(?i)ps\d|psu|power supply", name) else "temperature"


def is_ipmitool_error(text: str) -> bool:
    return bool(re.search(r"(?m)^(?:Error|Get .{0,40} command failed|Unable|ipmitool: )", text[:2000]))


def parse_ipmitool_error(text: str) -> Sequence[Fact]:
    raise Unreadable(split_lines(text.strip())[0][:200])


def merge_absent_facts(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Report `absent` once per key, and only if no command found trouble."""
    trouble_facts = [fact for fact in facts if fact.status is not Status.ABSENT]
    trouble_keys = {fact.key for fact in trouble_facts}
    absent_facts = {fact.key: fact for fact in facts if fact.status is Status.ABSENT and fact.key not in trouble_keys}
    return [*trouble_facts, *absent_facts.values()]


def _build_sensor_command(name: str, kind: str) -> Command:
    return Command(name, ("ipmitool", "sdr", "type", kind), privileged=True, optional=True)


CHECKS = (
    Check(
        id=CHECK,
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
