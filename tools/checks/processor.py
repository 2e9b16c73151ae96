"""Host processors: count, frequency and governor.

/sys/devices/system/cpu/cpufreq/policy0/scaling_governor:powersave
analyzing CPU 0:
  current policy: frequency should be within 800 MHz and 3.80 GHz.
                  The governor "powersave" may decide which speed to use
"""

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.fact import Fact, Status

CHECK = "cpu"
_FILE_PATTERN = re.compile(r"/sys/devices/system/cpu/\S{0,60}?/scaling_(governor|driver|cur_freq):\s*([A-Za-z0-9_-]{1,40})\s*$")
_POLICY_PATTERN = re.compile(r"\s*The governor \"([a-z_]{1,30})\" may decide")
_ANALYSED_PATTERN = re.compile(r"(?m)^analyzing CPU \d")


def is_frequencies(text: str) -> bool:
    return any(_FILE_PATTERN.match(line) for line in split_lines(text[:8192])[:20])


def parse_frequencies(text: str) -> Sequence[Fact]:
    """Return the commonest governor and the median frequency."""
    cells: dict[str, Counter[str]] = {"governor": Counter(), "driver": Counter(), "cur_freq": Counter()}
    for row in filter(None, map(_FILE_PATTERN.match, split_lines(text))):
        cells[row[1]][row[2]] += 1
    governor_facts = _build_governor_facts(cells["governor"], cells["driver"])
    speeds = [int(khz) for khz in cells["cur_freq"].elements() if re.fullmatch(r"[0-9]{4,9}", khz)]
    if speeds:
        governor_facts.append(
            Fact(CHECK, "cpu.mhz", int(statistics.median(speeds)) // 1000, unit="MHz", line=f"{len(speeds)} CPUs, median frequency")
        )
    return governor_facts


def _build_governor_facts(governors: Counter[str], drivers: Counter[str]) -> list[Fact]:
    if not governors:
        return []
    name, times = governors.most_common(1)[0]
    driver = drivers.most_common(1)[0][0] if drivers else ""
    line = f"scaling_governor {name} on {times} of {governors.total()} CPUs"
    return [Fact(CHECK, "cpu.governor", name, line=line, attrs={"cpus": times, "of": governors.total(), "driver": driver})]


def is_policy(text: str) -> bool:
    return _ANALYSED_PATTERN.search(text[:2000]) is not None


def parse_policy(text: str) -> Sequence[Fact]:
    """Parse `cpupower frequency-info -p`; a CPU without governor has no such row."""
    governors = Counter(row[1] for row in map(_POLICY_PATTERN.match, split_lines(text)) if row)
    return _build_governor_facts(governors, Counter()) or [
        Fact(CHECK, "cpu.governor", status=Status.ABSENT, line="the processor's frequency is not controlled by Linux")
    ]


def is_lscpu(text: str) -> bool:
    return (text.lstrip().startswith("{") and '"lscpu"' in text[:200]) or bool(re.search(r"(?m)^CPU\(s\): +\d", text[:4096]))


def parse_lscpu(text: str) -> Sequence[Fact]:
    rows = dict(_iter_lscpu_cells(text))
    columns = (("cpu.count", "CPU(s)"), ("cpu.numa_nodes", "NUMA node(s)"))
    facts = [
        Fact(CHECK, key, int(rows[name]), line=f"{name}: {rows[name]}")
        for key, name in columns
        if re.fullmatch(r"[0-9]{1,6}", rows.get(name, ""))
    ]
    if not facts:
        raise Unreadable("no row CPU(s)")
    return facts


def _iter_lscpu_cells(text: str) -> Iterator[tuple[str, str]]:
    if not text.lstrip().startswith("{"):
        yield from ((name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in split_lines(text)))
        return
    try:
        tree = json.loads(text[: text.rfind("}") + 1])
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"expected JSON: {error}") from error
    waiting: list[Any] = list(tree.get("lscpu") or []) if isinstance(tree.get("lscpu"), list) else []
    while waiting:
        row = waiting.pop()
        if isinstance(row, Mapping):
            yield str(row.get("field", "")).rstrip(":"), str(row.get("data", ""))
            waiting += row["children"] if isinstance(row.get("children"), list) else []


def add_absent_governor(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Report absent without frequency control."""
    if not facts or any(fact.key == "cpu.governor" or fact.status.blind for fact in facts):
        return facts
    return [*facts, Fact(CHECK, "cpu.governor", status=Status.ABSENT, line="no frequency governor under /sys/devices/system/cpu/cpufreq")]


_FREQUENCIES_COMMAND = (
    "grep -rsH --include=scaling_governor --include=scaling_driver --include=scaling_cur_freq . /sys/devices/system/cpu/cpufreq"
)

CHECKS = (
    Check(
        id="cpu",
        asks="Do the host's processors run at full speed?",
        commands=(
            Command("cores", ("lscpu", "-J"), optional=True),
            Command("frequencies", tuple(_FREQUENCIES_COMMAND.split()), optional=True),
        ),
        formats=(
            Format("cpufreq", is_frequencies, parse_frequencies),
            Format("cpupower", is_policy, parse_policy),
            Format("lscpu", is_lscpu, parse_lscpu),
        ),
        establishes=("cpu.governor", "cpu.mhz", "cpu.count", "cpu.numa_nodes"),
        seconds=3.0,
        settle=add_absent_governor,
    ),
)
