"""Host memory: `free -b`, the locked-memory limit of jobs (`tools.checks.locked_memory`), and the OOM kills that cgroups count.

               total        used        free      shared  buff/cache   available
Mem:   2164178862080 91234567890 ...
Swap:              0           0           0
/sys/fs/cgroup/system.slice/slurmstepd.scope/job_812/memory.events:oom 0
/sys/fs/cgroup/system.slice/slurmstepd.scope/job_812/memory.events:oom_kill 2
"""

import re
from collections.abc import Sequence

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.locked_memory import (
    LIMITS_COMMAND,
    LOCKED_MEMORY_KEY,
    MEMORY_CHECK,
    convert_to_kib,
    is_process_limits,
    parse_process_limits,
)
from tools.fact import Fact

_EVENT_PATTERN = re.compile(r"(/sys/fs/cgroup/.{0,400}?)/?memory\.events(?:\.local)?:(oom|oom_kill|oom_group_kill) (\d{1,12})\s*$")
_PRLIMIT_PATTERN = re.compile(r"\s*(\d{1,20}|unlimited)\s+(\d{1,20}|unlimited)\s*")


def is_free(text: str) -> bool:
    return bool(re.search(r"(?m)^Mem: +\d", text[:4096]))


def parse_free(text: str) -> Sequence[Fact]:
    """Return memory and swap. The columns are found by the header, because old versions of free have no `available`."""
    header = next((line.split() for line in split_lines(text) if "total" in line and "used" in line), [])
    facts: list[Fact] = []
    for line in split_lines(text):
        name, _, cells = line.partition(":")
        counts = [int(cell) for cell in cells.split() if re.fullmatch(r"[0-9]{1,18}", cell)]
        bytes_by_column = dict(zip(header, counts, strict=False))
        if name == "Mem" and len(counts) >= 3:
            facts += _build_memory_facts(bytes_by_column, line)
        elif name == "Swap" and "used" in bytes_by_column:
            facts.append(Fact(MEMORY_CHECK, "mem.swap_used_bytes", bytes_by_column["used"], unit="B", line=line))
    if not facts:
        raise Unreadable("a row of memory without its head")
    return facts


def _build_memory_facts(bytes_by_column: dict[str, int], line: str) -> list[Fact]:
    keys = {"total": "mem.total_bytes", "available": "mem.available_bytes"}
    return [
        Fact(MEMORY_CHECK, key, bytes_by_column[column], unit="B", line=line) for column, key in keys.items() if column in bytes_by_column
    ]


def is_prlimit(text: str) -> bool:
    return _PRLIMIT_PATTERN.fullmatch(text) is not None


def parse_prlimit(text: str) -> Sequence[Fact]:
    """Parse `65536 65536` in bytes, or `unlimited`. The soft limit counts, because nothing raises it for a job."""
    value = convert_to_kib(text.split()[0])
    return [Fact(MEMORY_CHECK, LOCKED_MEMORY_KEY, value, unit="KiB", line=f"memlock {text.strip()}")]


def is_events(text: str) -> bool:
    return any(_EVENT_PATTERN.match(line) for line in split_lines(text[:4096])[:5])


def parse_events(text: str) -> Sequence[Fact]:
    """Return the OOM kills of all cgroups, and the deepest group with the most kills.

    A group's count includes its children, so only the topmost groups are added. `oom` counts how often a group reached
    its own limit. Kills without it mean that the host's memory was used up.
    """
    matches = [match for match in map(_EVENT_PATTERN.match, split_lines(text)) if match]
    kills = {match[1]: int(match[3]) for match in matches if match[2] == "oom_kill"}
    limit_hits = {match[1]: int(match[3]) for match in matches if match[2] == "oom"}
    if not kills:
        raise Unreadable("no count of kills")
    top_groups = [path for path in kills if not any(parent in kills for parent in _list_parent_groups(path))]
    total = sum(kills[path] for path in top_groups)
    worst_group = max(kills, key=lambda path: (kills[path], path.count("/")))
    attrs: dict[str, str | int | bool] = {}
    if total:
        attrs = {"cgroup": worst_group.removeprefix("/sys/fs/cgroup"), "groups": sum(count > 0 for count in kills.values())}
        if limit_hits:
            attrs["limit"] = any(limit_hits.get(path) for path in [worst_group, *_list_parent_groups(worst_group)[2:]])
    return [Fact(MEMORY_CHECK, "mem.oom_kills", total, line=f"{worst_group}: oom_kill {kills[worst_group]}"[:300], attrs=attrs)]


def _list_parent_groups(path: str) -> list[str]:
    """Return the groups above a group, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:size]) for size in range(4, len(parts))]


CHECKS = (
    Check(
        id=MEMORY_CHECK,
        asks="Is memory short, was a process killed for it, how much may jobs lock?",
        commands=(
            Command("free", ("free", "-b")),
            Command("limits", LIMITS_COMMAND, optional=True),
            Command("events", ("grep", "-rs", "--include=memory.events", "-H", "oom", "/sys/fs/cgroup"), optional=True),
        ),
        formats=(
            Format("free", is_free, parse_free),
            Format("prlimit", is_prlimit, parse_prlimit),
            Format("limits of processes", is_process_limits, parse_process_limits),
            Format("memory.events", is_events, parse_events),
        ),
        establishes=("mem.total_bytes", "mem.available_bytes", "mem.swap_used_bytes", "mem.memlock_kib", "mem.oom_kills"),
        seconds=1.0,
    ),
)
