"""System services that GPU jobs need: systemd's state of the units, and their journal.

Id=nvidia-fabricmanager.service
LoadState=loaded
ActiveState=failed
SubState=failed
Result=exit-code
{"MESSAGE":"Main process exited, code=killed, status=9/KILL","_SYSTEMD_UNIT":"nvidia-fabricmanager.service"}
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kb.logs.line_prefixes import LinePrefix, split_prefix
from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.not_understood import build_not_understood_facts, iter_trouble_lines
from tools.checks.output_values import EMPTY_JOURNAL_FORMAT
from tools.fact import Fact, Status

CHECK = "sysd"
FABRIC_MANAGER = "nvidia-fabricmanager"
# Properties requested of a unit. Older systemd omits unknown ones.
_UNIT_PROPERTIES = (
    *("Id", "LoadState", "ActiveState", "SubState", "Result", "ExecMainStatus"),
    *("UnitFileState", "FreezerState", "NRestarts", "ConditionResult"),
)
MIN_RESTARTS_REPORTED = 5  # automatic restarts from which a unit counts as restarting even while it runs
# The scheduler, jobs or network need these. Enabled but inactive means stopped, whatever its conditions.
NEEDED_UNITS = frozenset({"slurmd", "slurmctld", "slurmdbd", "munge", "kubelet", "containerd", "crio", "docker", "sssd", "openibd"})
_FM_LINE_PATTERN = re.compile(r"\[[A-Z][a-z]{2} \d{2} \d{4} \d{2}:\d{2}:\d{2}\] \[\w{1,10} *\] \[tid \d+\] (.*)$")
_UNIT_PATTERN = re.compile(r"\"_SYSTEMD_UNIT\" ?: ?\"([^\"]{1,100})\"")
_ERROR_PRIORITY_PATTERN = re.compile(r"\"PRIORITY\" ?: ?\"[0-3]\"")
_IDENTIFIER_PATTERN = re.compile(r"\"SYSLOG_IDENTIFIER\" ?: ?\"([^\"]{1,100})\"")


@dataclass(frozen=True, slots=True)
class UnitEventRule:
    """A message in the journal that becomes a fact."""

    value: str
    units: tuple[str, ...]  # parts of the writer's name; "" for any writer
    pattern: re.Pattern[str]


def _build_event_rule(value: str, units: str, pattern: str) -> UnitEventRule:
    return UnitEventRule(value, tuple(units.split()) or ("",), re.compile(pattern, re.IGNORECASE))


# The first matching rule counts.
UNIT_EVENT_RULES = (
    _build_event_rule("fm_version_mismatch", "fabric", r"version.{1,80}(?:don'?t|doesn'?t|does not|do not) match|version mismatch"),
    _build_event_rule(
        "fm_nvswitch_fatal",
        "fabric",
        r"NVSwitch (?:non-recoverable |fatal )error \d+|detected NVSwitch fatal|(?<!non-)fatal error.{0,60}NVSwitch",
    ),
    _build_event_rule("fm_nothing_to_do", "fabric", r"NV_WARN_NOTHING_TO_DO|no NVSwitch(?:es)? (?:device|found|detected)|nothing to do"),
    _build_event_rule("fm_killed", "fabric", r"process exited.{0,20}code=(?:killed|dumped)(?!.{0,12}TERM)|killed by signal (?!15)"),
    _build_event_rule("oom_killed", "", r"failed with result 'oom-kill'|killed by the OOM killer"),
    _build_event_rule(
        "upgrade_ran", "unattended apt dnf yum", r"packages that (?:will be|were) upgraded|all upgrades installed|unpacking nvidia"
    ),
    _build_event_rule("upgrade_ran", "unattended apt dnf yum", r"(?:installing|upgraded?|upgrading):? .{0,200}(?:nvidia|cuda)"),
    _build_event_rule("upgrade_ran", "dpkg rpm", r"(?:upgrade|install|configure) .{0,60}nvidia"),
    _build_event_rule("daemon_reload", "systemd", r"^Reloading\.{0,3}$|Reloading requested from|daemon-reload|Reloading finished"),
    _build_event_rule(
        "no_gpu_driver",
        "docker",
        r"^(?:time=\"[^\"]{1,40}\" )?level=error msg=\"Handler for POST /\S{1,200} returned error: "
        r"could not select device driver \\?\"\\?\" with capabilities: \[\[gpu",
    ),
    _build_event_rule(
        "driver_timed_out",
        "docker",
        r"^(?:time=\"[^\"]{1,40}\" )?level=error msg=\"Handler for POST /\S{1,200} returned error: OCI runtime create failed: "
        r"[^\"\\]{0,200}nvidia-container-cli: initialization error: driver (?:rpc )?error: timed out",
    ),
    _build_event_rule("config_error", "", r"unable to configure the Docker daemon|invalid character .{0,60}daemon\.json"),
    _build_event_rule(
        "config_error",
        "",
        r"config(?:uration)? (?:file )?(?:error|is invalid)|failed to (?:load|parse) config|(?:syntax|parse) error in .{0,80}conf",
    ),
    _build_event_rule("slurmd_fatal", "slurm", r"\bfatal: "),
    _build_event_rule("module_missing", "fabric imex openibd dcgm", r"module is not loaded|modprobe: (?:FATAL|ERROR)"),
    _build_event_rule("imex_error", "imex", r"\[ERROR\]|failed to allocate imex"),
    _build_event_rule(
        "fm_error",
        "fabric",
        r"^(?:\[\w{1,10}\] )?(?:error: )?(?:failed to (?:open|initialize|set up|configure)|could not|cannot) .{0,120}(?:nvswitch|nvlink|fabric|driver)",
    ),
    _build_event_rule("munge_error", "munge", r"(?:^|\] ?)(?:error|emerg|crit(?:ical)?|alert): |failed to|keyfile is insecure"),
    _build_event_rule("failed_start", "", r"^Failed to start |Start request repeated too quickly|aborting fabric manager"),
    _build_event_rule("failed_start", "", r"failed with result '(?:exit-code|timeout|start-limit-hit|core-dump|signal|protocol)'"),
)


def is_units(text: str) -> bool:
    return bool(re.search(r"(?m)^(?:Id|LoadState|ActiveState)=", text[:4096]))


def parse_units(text: str) -> Sequence[Fact]:
    """Return the units' states, named without `.service`. Blocks without a state are counted as unreadable."""
    facts: list[Fact] = []
    broken_count = 0
    for block in re.split(r"\n\s*\n", text.strip()):
        properties = _parse_unit_properties(block)
        if "Id" in properties and "ActiveState" in properties:
            facts.append(_build_unit_fact(properties))
        elif properties:
            broken_count += 1
    if not facts:
        raise Unreadable("no block with Id and ActiveState")
    if broken_count:
        facts.append(Fact(CHECK, "", status=Status.UNREADABLE, line=f"{broken_count} blocks without Id or ActiveState"))
    return facts


def _parse_unit_properties(block: str) -> dict[str, str]:
    properties = {}
    for line in split_lines(block):
        name, equals_sign, value = line.strip().partition("=")
        if equals_sign and name in _UNIT_PROPERTIES:
            properties[name] = value
    return properties


def _build_unit_fact(properties: Mapping[str, str]) -> Fact:
    attr_names = (("SubState", "sub"), ("Result", "result"), ("ExecMainStatus", "exit_status"), ("LoadState", "load"))
    attrs = {attr: properties[name][:60] for name, attr in attr_names if properties.get(name)}
    line = " ".join(f"{name}={value}" for name, value in properties.items())[:300]
    unit = properties["Id"].removesuffix(".service")[:100]
    if trouble := _classify_unit_trouble(unit, properties):
        attrs |= {"trouble": trouble, "restarts": properties.get("NRestarts", "0")[:9]}
    state = "not-found" if properties.get("LoadState") == "not-found" else properties["ActiveState"][:40]
    return Fact(CHECK, "service.state", state, unit, line=line, attrs=attrs)


def _classify_unit_trouble(unit: str, properties: Mapping[str, str]) -> str:
    """Return failed, masked, broken, restarting, frozen, starting, stopping, stopped, or an empty text without trouble."""
    active, sub, load = properties["ActiveState"], properties.get("SubState", ""), properties.get("LoadState", "")
    restarts = properties.get("NRestarts", "")
    if load == "not-found":
        return ""
    if load == "masked" and active != "active":
        return "masked"
    if load in ("error", "bad-setting"):
        return "broken"
    if active == "failed":
        return "failed"
    if sub.startswith("auto-restart") or (restarts[:9].isdigit() and int(restarts[:9]) >= MIN_RESTARTS_REPORTED):
        return "restarting"
    if properties.get("FreezerState", "").startswith("f"):
        return "frozen"
    if active in ("activating", "deactivating"):
        return "starting" if active == "activating" else "stopping"
    return "stopped" if active == "inactive" and _should_run(unit, properties) else ""


def _should_run(unit: str, properties: Mapping[str, str]) -> bool:
    """Return whether an inactive unit is a fault. The fabric manager may exit: it does so on hosts without NVSwitches."""
    if unit == FABRIC_MANAGER or not properties.get("UnitFileState", "").startswith("enabled"):
        return False
    return unit in NEEDED_UNITS or properties.get("ConditionResult") != "no"


def is_journal(text: str) -> bool:
    first_lines = [line for line in split_lines(text[:16384]) if line.strip()][:10]
    return any(_FM_LINE_PATTERN.match(line) or _is_service_line(line) for line in first_lines)


def _is_service_line(line: str) -> bool:
    prefix = split_prefix(line)
    return prefix.found and prefix.source not in ("", "kernel")


def parse_journal(text: str) -> Sequence[Fact]:
    """Return events by unit, with repeats folded, and unknown errors. Without any return an absent fact."""
    prefixes_by_event: dict[tuple[str, str], list[LinePrefix]] = {}
    unknown_errors: list[str] = []
    trouble_lines = frozenset(iter_trouble_lines(text))
    for line in split_lines(text):
        if event := _find_event(line):
            value, unit, prefix = event
            prefixes_by_event.setdefault((value, unit), []).append(prefix)
        elif _is_error(line, trouble_lines):
            unknown_errors.append(line)
    facts = [_fold_event(value, unit, prefixes) for (value, unit), prefixes in prefixes_by_event.items()]
    facts += build_not_understood_facts(CHECK, unknown_errors)
    return facts or [Fact(CHECK, "service.event", status=Status.ABSENT, line="nothing known in this journal")]


def _find_event(line: str) -> tuple[str, str, LinePrefix] | None:
    """Return the value of the first rule that matches the line, the line's unit and its prefix."""
    if fabric_manager_line := _FM_LINE_PATTERN.match(line):
        prefix, unit = LinePrefix(None, "", fabric_manager_line[1], FABRIC_MANAGER), FABRIC_MANAGER
    else:
        prefix = split_prefix(line)
        unit = _find_unit_name(line, prefix)
    if not unit:
        return None
    message = prefix.message[:2000]
    matching_rule = next((rule for rule in _list_rules_for(unit, prefix.source) if rule.pattern.search(message)), None)
    return (matching_rule.value, unit, prefix) if matching_rule else None


def _is_error(line: str, trouble_lines: Collection[str]) -> bool:
    """Judge a JSON line by its priority, another line by its words."""
    if line.startswith("{"):
        return _ERROR_PRIORITY_PATTERN.search(line) is not None
    return line in trouble_lines and split_prefix(line).source not in ("", "kernel")


@lru_cache(256)
def _list_rules_for(unit: str, source: str) -> tuple[UnitEventRule, ...]:
    return tuple(rule for rule in UNIT_EVENT_RULES if any(name in unit or name in source for name in rule.units))


def _find_unit_name(line: str, prefix: LinePrefix) -> str:
    """Return the unit that systemd names at the line's start, else the program that wrote the line."""
    match = re.match(r"([\w@.-]{1,80})\.service: ", prefix.message)
    if match or prefix.source == "systemd":
        return match[1] if match else "systemd"
    if line.startswith("{"):
        unit = _UNIT_PATTERN.search(line) or _IDENTIFIER_PATTERN.search(line)
        return unit[1].removesuffix(".service") if unit else ""
    return {"nv-fabricmanager": FABRIC_MANAGER, "dockerd": "docker"}.get(prefix.source, prefix.source)


def _fold_event(value: str, unit: str, prefixes: Sequence[LinePrefix]) -> Fact:
    first = prefixes[0]
    times = sorted(prefix.time for prefix in prefixes if prefix.time)
    attrs: dict[str, object] = {"text": first.message[:300], "count": len(prefixes)}
    if times:
        attrs |= {"first": times[0].isoformat(), "last": times[-1].isoformat()}
    time = times[0] if times else None
    return Fact(CHECK, "service.event", value, unit, line=first.message[:500], attrs=attrs, time=time, boot_id=first.boot_id)


# Distribution names → common names. On Debian the unit is `chrony`; its alias `chronyd` vanishes when disabled.
UNIT_ALIASES: Mapping[str, str] = {"chrony": "chronyd"}


def drop_missing_units(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Drop the unused name of a unit with two names, and missing optional units."""
    missing = {fact.device or "" for fact in facts if fact.key == "service.state" and fact.value == "not-found"}
    dropped = missing & set(_OPTIONAL_UNITS.split())
    for other, common in UNIT_ALIASES.items():
        if other in missing:
            dropped.add(other)
        elif common in missing:
            dropped.add(common)
    return [fact for fact in facts if fact.device not in dropped or fact.value != "not-found"]


_COMMON_UNITS = "nvidia-fabricmanager nvidia-persistenced nvidia-dcgm docker openibd chronyd chrony slurmd"
_OPTIONAL_UNITS = (
    "munge containerd crio kubelet sssd nvidia-imex slurmctld slurmdbd autofs systemd-resolved systemd-timesyncd ntpd ntpsec "
    "opensm beegfs-client weka-agent gpfs"
)
_JOURNAL_UNITS = "nvidia-fabricmanager nvidia-persistenced docker openibd slurmd unattended-upgrades apt-daily-upgrade"
_SHOW_COMMAND = ("systemctl", "show", "--no-pager", "-p", ",".join(_UNIT_PROPERTIES))
_JOURNAL_COMMAND = "journalctl -o json --output-fields=MESSAGE,_SYSTEMD_UNIT,SYSLOG_IDENTIFIER,PRIORITY --no-pager --since=-24h -n 400"

CHECKS = (
    Check(
        id=CHECK,
        asks="Do the services that GPU jobs need run, and what did they say?",
        commands=(
            Command("units", (*_SHOW_COMMAND, *(f"{unit}.service" for unit in f"{_COMMON_UNITS} {_OPTIONAL_UNITS}".split()))),
            Command(
                "journal",
                (*_JOURNAL_COMMAND.split(), *(word for unit in _JOURNAL_UNITS.split() for word in ("-u", unit))),
                privileged=True,
                optional=True,
            ),
        ),
        formats=(Format("systemctl show", is_units, parse_units), EMPTY_JOURNAL_FORMAT, Format("journal", is_journal, parse_journal)),
        establishes=("service.state", "service.event", "check.not_understood"),
        seconds=3.0,
        partial=True,
        damage="tell",
        settle=drop_missing_units,
    ),
)
