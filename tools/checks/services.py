"""System services that GPU jobs need: systemd's state of the units, and their journal.

Id=nvidia-fabricmanager.service
LoadState=loaded
ActiveState=failed
SubState=failed
Result=exit-code
{"MESSAGE":"Main process exited, code=killed, status=9/KILL","_SYSTEMD_UNIT":"nvidia-fabricmanager.service"}
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kb.logs.log_lines import LinePrefix, split_prefix
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
_IDENTIFIER_PATTERN = re.compile(r"\"SYSLOG_IDENTIFIER\" ?: ?\"([^\"]{1,100})\"")


@dataclass(frozen=True, slots=True)
class UnitEventRule:
    """One message. `units`: parts of the writer's name, "" for any."""

    value: str
    units: tuple[str, ...]
    pattern: re.Pattern[str]


def _build_event_rule(value: str, units: str, pattern: str) -> UnitEventRule:
    return UnitEventRule(value, tuple(units.split()) or ("",), re.compile(pattern, re.IGNORECASE))


# The first matching row counts.
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
    """Return units' states, named without `.service`. Blocks without a state are counted as unreadable."""
    facts: list[Fact] = []
    broken = 0
    for block in re.split(r"\n\s*\n", text.strip()):
        cells = {
            name: value
            for name, sign, value in (line.strip().partition("=") for line in split_lines(block))
            if sign and name in _UNIT_PROPERTIES
        }
        if "Id" in cells and "ActiveState" in cells:
            facts.append(_build_unit_fact(cells))
        else:
            broken += bool(cells)
    if not facts:
        raise Unreadable("no block with Id and ActiveState")
    if broken:
        facts.append(Fact(CHECK, "", status=Status.UNREADABLE, line=f"{broken} blocks without Id or ActiveState"))
    return facts


def _build_unit_fact(cells: dict[str, str]) -> Fact:
    missing = cells.get("LoadState") == "not-found"
    names = (("SubState", "sub"), ("Result", "result"), ("ExecMainStatus", "exit_status"), ("LoadState", "load"))
    attrs = {short: cells[name][:60] for name, short in names if cells.get(name)}
    line = " ".join(f"{name}={value}" for name, value in cells.items())[:300]
    unit = cells["Id"].removesuffix(".service")[:100]
    if problem := _classify_unit_trouble(unit, cells):
        attrs |= {"trouble": problem, "restarts": cells.get("NRestarts", "0")[:9]}
    return Fact(CHECK, "service.state", "not-found" if missing else cells["ActiveState"][:40], unit, line=line, attrs=attrs)


def _classify_unit_trouble(unit: str, cells: Mapping[str, str]) -> str:
    """Return failed, masked, broken, restarting, frozen, starting, stopping, stopped or "".

    An inactive fabric manager is no fault: it exits on machines without NVSwitches.
    """
    active, sub, load = cells["ActiveState"], cells.get("SubState", ""), cells.get("LoadState", "")
    restarts = cells.get("NRestarts", "")
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
    if cells.get("FreezerState", "").startswith("f"):
        return "frozen"
    if active in ("activating", "deactivating"):
        return "starting" if active == "activating" else "stopping"
    enabled = cells.get("UnitFileState", "").startswith("enabled") and unit != FABRIC_MANAGER
    return "stopped" if active == "inactive" and enabled and (unit in NEEDED_UNITS or cells.get("ConditionResult") != "no") else ""


def is_journal(text: str) -> bool:
    head = [line for line in split_lines(text[:16384]) if line.strip()][:10]
    return any(
        _FM_LINE_PATTERN.match(line) or (split_prefix(line).found and split_prefix(line).source not in ("", "kernel")) for line in head
    )


def parse_journal(text: str) -> Sequence[Fact]:
    """Return events by unit, repeats folded, and unknown errors; an absent fact without any."""
    groups: dict[tuple[str, str], list[tuple[LinePrefix, str]]] = {}
    unknown: list[str] = []
    telling = frozenset(iter_trouble_lines(text))
    for line in split_lines(text):
        is_journal = False
        for value, unit, prefix in _find_events(line):
            is_journal = True
            groups.setdefault((value, unit), []).append((prefix, line))
        if not is_journal and _is_error(line, telling):
            unknown.append(line)
    facts = [_fold_events(value, unit, lines) for (value, unit), lines in groups.items()]
    facts += build_not_understood_facts(CHECK, unknown)
    return facts or [Fact(CHECK, "service.event", status=Status.ABSENT, line="nothing known in this journal")]


def _find_events(line: str) -> Iterable[tuple[str, str, LinePrefix]]:
    if own := _FM_LINE_PATTERN.match(line):
        prefix, unit = LinePrefix(None, "", own[1], "nvidia-fabricmanager"), "nvidia-fabricmanager"
    else:
        prefix = split_prefix(line)
        unit = _find_unit_name(line, prefix)
    if not unit:
        return []
    message = prefix.message[:2000]
    return [(row.value, unit, prefix) for row in _list_rules_for(unit, prefix.source) if row.pattern.search(message)][:1]


_ERROR_PATTERN = re.compile(r"\"PRIORITY\" ?: ?\"[0-3]\"")


def _is_error(line: str, telling: Collection[str]) -> bool:
    """By the journal's priority if it has one, else by words."""
    if line.startswith("{"):
        return _ERROR_PATTERN.search(line) is not None
    return line in telling and split_prefix(line).source not in ("", "kernel")


@lru_cache(256)
def _list_rules_for(unit: str, source: str) -> tuple[UnitEventRule, ...]:
    return tuple(row for row in UNIT_EVENT_RULES if any(name in unit or name in source for name in row.units))


def _find_unit_name(line: str, prefix: LinePrefix) -> str:
    """The unit that systemd names at the line's start, else the writer."""
    match = re.match(r"([\w@.-]{1,80})\.service: ", prefix.message)
    if match or prefix.source == "systemd":
        return match[1] if match else "systemd"
    if line.startswith("{"):
        unit = _UNIT_PATTERN.search(line) or _IDENTIFIER_PATTERN.search(line)
        return unit[1].removesuffix(".service") if unit else ""
    return {"nv-fabricmanager": "nvidia-fabricmanager", "dockerd": "docker"}.get(prefix.source, prefix.source)


def _fold_events(value: str, unit: str, lines: Sequence[tuple[LinePrefix, str]]) -> Fact:
    times = sorted(prefix.time for prefix, _ in lines if prefix.time)
    attrs: dict[str, object] = {"text": lines[0][0].message[:300], "count": len(lines)}
    if times:
        attrs |= {"first": times[0].isoformat(), "last": times[-1].isoformat()}
    time = times[0] if times else None
    return Fact(CHECK, "service.event", value, unit, line=lines[0][0].message[:500], attrs=attrs, time=time, boot_id=lines[0][0].boot_id)


# Distribution names → common names. On Debian the unit is `chrony`; its alias `chronyd` vanishes when disabled.
UNIT_ALIASES: Mapping[str, str] = {"chrony": "chronyd"}


def drop_missing_units(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Drop the unused name of a unit with two names, and missing optional units."""
    missing = {fact.device or "" for fact in facts if fact.key == "service.state" and fact.value == "not-found"}
    needless = {common if other not in missing and common in missing else other for other, common in UNIT_ALIASES.items()} & missing
    needless |= missing & set(_OPTIONAL_UNITS.split())
    return [fact for fact in facts if fact.device not in needless or fact.value != "not-found"]


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
        id="sysd",
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
