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
    values_by_file: dict[str, Counter[str]] = {"governor": Counter(), "driver": Counter(), "cur_freq": Counter()}
    for match in filter(None, map(_FILE_PATTERN.match, split_lines(text))):
        values_by_file[match[1]][match[2]] += 1
    facts = _build_governor_facts(values_by_file["governor"], values_by_file["driver"])
    frequencies = [int(khz) for khz in values_by_file["cur_freq"].elements() if re.fullmatch(r"[0-9]{4,9}", khz)]
    if frequencies:
        median_mhz = int(statistics.median(frequencies)) // 1000
        facts.append(Fact(CHECK, "cpu.mhz", median_mhz, unit="MHz", line=f"{len(frequencies)} CPUs, median frequency"))
    return facts


def _build_governor_facts(governors: Counter[str], drivers: Counter[str]) -> list[Fact]:
    if not governors:
        return []
    governor, cpu_count = governors.most_common(1)[0]
    driver = drivers.most_common(1)[0][0] if drivers else ""
    line = f"scaling_governor {governor} on {cpu_count} of {governors.total()} CPUs"
    return [Fact(CHECK, "cpu.governor", governor, line=line, attrs={"cpus": cpu_count, "of": governors.total(), "driver": driver})]


def is_policy(text: str) -> bool:
    return _ANALYSED_PATTERN.search(text[:2000]) is not None


def parse_policy(text: str) -> Sequence[Fact]:
    """Parse `cpupower frequency-info -p`. It prints no such line for a CPU without a governor."""
    governors = Counter(match[1] for match in map(_POLICY_PATTERN.match, split_lines(text)) if match)
    return _build_governor_facts(governors, Counter()) or [
        Fact(CHECK, "cpu.governor", status=Status.ABSENT, line="the processor's frequency is not controlled by Linux")
    ]


def is_lscpu(text: str) -> bool:
    return (text.lstrip().startswith("{") and '"lscpu"' in text[:200]) or bool(re.search(r"(?m)^CPU\(s\): +\d", text[:4096]))


def parse_lscpu(text: str) -> Sequence[Fact]:
    values = dict(_iter_lscpu_fields(text))
    names_by_key = {"cpu.count": "CPU(s)", "cpu.numa_nodes": "NUMA node(s)"}
    facts = [
        Fact(CHECK, key, int(values[name]), line=f"{name}: {values[name]}")
        for key, name in names_by_key.items()
        if re.fullmatch(r"[0-9]{1,6}", values.get(name, ""))
    ]
    if not facts:
        raise Unreadable("no row CPU(s)")
    return facts


def _iter_lscpu_fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and values of lscpu's text or JSON, including the fields nested below others."""
    if not text.lstrip().startswith("{"):
        for line in split_lines(text):
            name, _, value = line.partition(":")
            yield name.strip(), value.strip()
        return
    try:
        tree = json.loads(text[: text.rfind("}") + 1])
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"expected JSON: {error}") from error
    pending_fields: list[Any] = list(tree["lscpu"]) if isinstance(tree.get("lscpu"), list) else []
    while pending_fields:
        field = pending_fields.pop()
        if isinstance(field, Mapping):
            yield str(field.get("field", "")).rstrip(":"), str(field.get("data", ""))
            if isinstance(field.get("children"), list):
                pending_fields += field["children"]


def add_absent_governor(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Add an absent fact if Linux does not control the processors' frequency."""
    if not facts or any(fact.key == "cpu.governor" or fact.status.blind for fact in facts):
        return facts
    return [*facts, Fact(CHECK, "cpu.governor", status=Status.ABSENT, line="no frequency governor under /sys/devices/system/cpu/cpufreq")]


_FREQUENCIES_COMMAND = (
    "grep -rsH --include=scaling_governor --include=scaling_driver --include=scaling_cur_freq . /sys/devices/system/cpu/cpufreq"
)

CHECKS = (
    Check(
        id=CHECK,
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
