"""Facts that no single check can state, derived by comparing hosts, GPUs or checks. Pure."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from graph.engine.abnormal_facts import LINK_COUNTER_LIMITS
from graph.engine.fact_history import EVENT_KEY_PREFIXES
from graph.engine.peer_differences import find_peer_differences
from kb.catalogues.error_numbers import classify_repeats
from tools.below_expected import find_below_expected
from tools.devices import find_missing_gpus
from tools.fact import Fact, Status
from tools.transport import AccessBarrier

MIN_CLOCKS = 3  # clocks needed to tell which one is wrong

REPEATING_XIDS = (13, 31)  # Xids that a program causes as easily as a broken GPU; only their pattern distinguishes


def derive_facts(facts: Sequence[Fact], bus: Callable[[str], Sequence[str]], kind: Callable[[str], str] = lambda host: "") -> list[Fact]:
    """Return all derived facts. `bus(host)` is the SKU's bus table or empty; hosts of one `kind` should be alike."""
    return [
        *find_unreachable_hosts(facts),
        *find_xid_patterns(facts),
        *find_absent_gpus(facts, bus),
        *find_absent_adapters(facts),
        *find_waiting_ports(facts),
        *find_wrong_clocks(facts),
        *find_unfit_images(facts),
        *find_unmanaged_fabrics(facts),
        *find_unowned_memory(facts),
        *find_mtu_mismatches(facts),
        *find_below_expected(facts),
        *find_missing_programs(facts, kind),
        *find_peer_differences(facts, kind),
    ]


_NOT_INSTALLED_PATTERN = re.compile(r"([\w.+-]{1,40}) is not installed")


def find_missing_programs(facts: Iterable[Fact], kind: Callable[[str], str] = lambda host: "") -> list[Fact]:
    """Return hosts that lack a program which most hosts of their kind have."""
    lacking: dict[tuple[str, str], dict[str, tuple[str, Fact]]] = defaultdict(dict)
    having: dict[tuple[str, str], set[str]] = defaultdict(set)
    for fact in facts:
        if not fact.host or fact.status.blind:
            continue
        place = (kind(fact.host), fact.check)
        if fact.key == "check.skipped":
            match = _NOT_INSTALLED_PATTERN.match(fact.line) if fact.value == "no_tool" else None
            lacking[place] |= {fact.host: (match[1], fact)} if match else {}
        elif fact.key:
            having[place].add(fact.host)
    return [
        _build_missing_program(program, fact, len(having[place] - set(rows)), len(having[place] | set(rows)))
        for place, rows in lacking.items()
        for program, fact in rows.values()
        if len(having[place] - set(rows)) > max(1, len(rows))
    ]


def _build_missing_program(program: str, fact: Fact, having: int, of: int) -> Fact:
    line = f"program {program}: absent here, installed on {having} of {of} hosts"
    attrs = {"most": "installed", "hosts": having, "of": of}
    return replace(fact, key="peer.differs", value="absent", device=f"program {program}", line=line, attrs=attrs)


def add_daily_rates(facts: Sequence[Fact]) -> list[Fact]:
    """Add `per_day`, the growth since boot, to link counters. A host up for less than a day counts as one day."""
    booted = {fact.host: moment for fact in facts if fact.key == "host.booted_at" and fact.host and (moment := _parse_moment(fact.value))}
    return [_add_daily_rate(fact, booted[fact.host]) if fact.key in LINK_COUNTER_LIMITS and fact.host in booted else fact for fact in facts]


def _add_daily_rate(fact: Fact, booted: datetime) -> Fact:
    if not fact.time or fact.time < booted or not isinstance(fact.value, int):
        return fact
    days = max(1.0, (fact.time - booted).total_seconds() / 86_400)
    rate = fact.value / days
    return replace(fact, attrs={**fact.attrs, "per_day": round(rate) if rate >= 10 else round(rate, 2)})


def _parse_moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def find_unmanaged_fabrics(facts: Iterable[Fact]) -> list[Fact]:
    """Return hosts whose GPUs wait for their fabric while its manager is stopped; either alone may be normal."""
    waiting_facts: dict[str, list[Fact]] = defaultdict(list)
    idle: dict[str, Fact] = {}
    for fact in facts:
        if fact.key == "gpu.fabric.state" and fact.status is Status.OK and fact.host:
            waiting_facts[fact.host].append(fact)
        elif (
            fact.key == "service.state" and (fact.device or "").startswith("nvidia-fabricmanager") and fact.value in ("inactive", "failed")
        ):
            idle[fact.host] = fact
    return [
        replace(idle[host], key="fabric.unmanaged", value=True, device=None, unit="", attrs={"gpus": len(rows)})
        for host, rows in waiting_facts.items()
        if host in idle and all(row.value in ("In Progress", "Not Started") for row in rows)
    ]


MIN_UNOWNED_MEMORY_MIB = 2048  # MiB in use on a GPU, above what a driver and a display take


def find_unowned_memory(facts: Iterable[Fact]) -> list[Fact]:
    """Return GPUs with memory in use but no process in the same observation: a job may start between two."""
    idle, used = set[tuple[object, ...]](), list[Fact]()
    for fact in facts:
        if fact.key == "gpu.processes" and fact.status is Status.OK and fact.value == 0:
            idle.add(_get_observation_key(fact))
        elif (
            fact.key == "gpu.memory.used"
            and fact.status is Status.OK
            and isinstance(fact.value, int)
            and fact.value >= MIN_UNOWNED_MEMORY_MIB
        ):
            used.append(fact)
    return [replace(fact, key="gpu.memory.unowned") for fact in used if fact.host and _get_observation_key(fact) in idle]


def _get_observation_key(fact: Fact) -> tuple[object, ...]:
    return fact.check, fact.host, fact.device, fact.time


def find_mtu_mismatches(facts: Iterable[Fact]) -> list[Fact]:
    """Compare the MTU of exactly two hosts, where no majority exists; large packets break on the smaller one."""
    by_device: dict[str, dict[str, Fact]] = defaultdict(dict)
    for fact in facts:
        if fact.key == "net.mtu" and fact.status is Status.OK and fact.host and fact.device and isinstance(fact.value, int):
            by_device[fact.device][fact.host] = fact
    pairs = [sorted(rows.values(), key=_get_int_value) for rows in by_device.values() if len(rows) == 2]
    return [
        replace(small, key="net.mtu_apart", attrs={**small.attrs, "other": large.value, "peer": large.host})
        for small, large in pairs
        if small.value != large.value
    ]


def _get_int_value(fact: Fact) -> int:
    return fact.value if isinstance(fact.value, int) else 0


# transport barrier → `host.access` value; the host itself may be healthy
ACCESS_BARRIERS: Mapping[str, str] = {
    AccessBarrier.CHANGED_KEY.value: "changed_key",
    AccessBarrier.UNLISTED_KEY.value: "unlisted_key",
    AccessBarrier.REFUSED.value: "refused",
    AccessBarrier.LOGIN.value: "login_refused",
    AccessBarrier.SITE.value: "our_side",
}


# keys of facts that say why a check did not run; they need no session
WITHOUT_A_SESSION = frozenset({"check.skipped", "check.no_target"})
# the checks of one observation of a host end within this time; an older answer belongs to an earlier one
ONE_LOOK = timedelta(minutes=2)


def find_unreachable_hosts(facts: Sequence[Fact]) -> list[Fact]:
    """Return one fact per host that no session reached in its latest observation: unreachable, or its access barrier.

    Return nothing if no other host was reached: the fault may be on our side. Answers of an earlier observation do not
    count.
    """
    silent = {f.host: f for f in facts if f.host and _is_kept_out(f)}
    refused_at: dict[str, datetime] = {}
    for fact in facts:
        if fact.host in silent and fact.time and _is_kept_out(fact):
            refused_at[fact.host] = max(fact.time, refused_at.get(fact.host, fact.time))
    reached_hosts = {f.host for f in facts if f.host and _was_reached(f, refused_at.get(f.host))}
    if not reached_hosts:
        return []
    return [_build_access_fact(host, fact) for host, fact in sorted(silent.items()) if host not in reached_hosts]


def _was_reached(fact: Fact, refused: datetime | None) -> bool:
    """Return whether a session reached the host in the observation last refused; event times say nothing of that."""
    if fact.status.blind or fact.key in WITHOUT_A_SESSION:
        return False
    return refused is None or fact.time is None or fact.key.startswith(EVENT_KEY_PREFIXES) or fact.time >= refused - ONE_LOOK


def _is_kept_out(fact: Fact) -> bool:
    return fact.status is Status.UNREACHABLE or (fact.status.blind and "barrier" in fact.attrs)


def _build_access_fact(host: str, fact: Fact) -> Fact:
    barrier = ACCESS_BARRIERS.get(str(fact.attrs.get("barrier")))
    key, value = ("host.access", barrier) if barrier else ("host.reachable", False)
    return Fact(check="ssh", key=key, value=value, line=fact.line, host=host, time=fact.time)


@dataclass(frozen=True, slots=True)
class _XidSighting:
    """An Xid as `kb.catalogues.error_numbers` reads it, its GPU named with its host."""

    kind: str
    value: Any
    device: str | None
    time: datetime | None
    boot_id: str
    attrs: Mapping[str, Any]


def find_xid_patterns(facts: Iterable[Fact]) -> list[Fact]:
    """Classify whether such Xids stay with one GPU (or part) or scatter, across hosts; a check covers its own."""
    facts = list(facts)
    reported_hosts = {fact.host for fact in facts if fact.key == "kernel.xid_repeat"}
    facts_by_device = {
        f"{fact.host}/{fact.device}": fact
        for fact in facts
        if fact.key == "kernel.xid"
        and fact.value in REPEATING_XIDS
        and fact.status is Status.OK
        and fact.host
        and fact.device
        and _is_counted(fact)
    }
    patterns = classify_repeats(
        _XidSighting("kernel.xid", f.value, name, f.time, f.boot_id, f.attrs) for name, f in facts_by_device.items()
    )
    return [
        replace(
            facts_by_device[name],
            key="kernel.xid_repeat",
            value=pattern,
            attrs={**facts_by_device[name].attrs, "xid": facts_by_device[name].value, "gpus": len(facts_by_device)},
        )
        for name, pattern in patterns.items()
        if facts_by_device[name].host not in reported_hosts
    ]


def _is_counted(fact: Fact) -> bool:
    return not fact.stale and not fact.attrs.get("sympathetic") and not fact.attrs.get("elsewhere")


# keys that say which GPUs a host lists or lacks
_GPU_LIST_KEYS = frozenset({"gpu.bdf", "pcie.rev_ff", "gpu.missing", "pcie.absent"})


def find_absent_gpus(facts: Iterable[Fact], bus: Callable[[str], Sequence[str]]) -> list[Fact]:
    """Return GPUs of the bus table that nvidia-smi or lspci does not list."""
    by_host: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.key in _GPU_LIST_KEYS and fact.host:
            by_host[fact.host].append(fact)
    absence_facts: list[Fact] = []
    for host, own in by_host.items():
        if not any(fact.key in ("gpu.missing", "pcie.absent") for fact in own):
            source = {fact.check: fact for fact in own if fact.key in ("gpu.bdf", "pcie.rev_ff")}
            absence_facts += [
                _place_on_host(missing_gpu, host, source.get(missing_gpu.check)) for missing_gpu in find_missing_gpus(own, bus(host))
            ]
    return absence_facts


_NUMBERED_HCA_PATTERN = re.compile(r"mlx5_(\d{1,3})")


def find_absent_adapters(facts: Iterable[Fact]) -> list[Fact]:
    """Return adapters that all other hosts list and that leave a gap in a host's numbering.

    The kernel renumbers the remaining adapters, so one missing at the end cannot be identified.
    """
    listed: dict[str, dict[int, Fact]] = defaultdict(dict)
    for fact in facts:
        if fact.key == "ib.state" and fact.host and (name := _NUMBERED_HCA_PATTERN.fullmatch(fact.device or "")):
            listed[fact.host][int(name[1])] = fact
    absence_facts: list[Fact] = []
    for host, own in listed.items():
        peer_rows = [rows for name, rows in listed.items() if name != host]
        gaps = [n for n in range(max(own)) if n not in own and peer_rows and all(n in rows for rows in peer_rows)]
        absence_facts += [
            replace(own[max(own)], key="ib.absent", value=True, device=f"mlx5_{n}", line=f"ibstat lists no mlx5_{n}", attrs={})
            for n in gaps
        ]
    return absence_facts


def find_waiting_ports(facts: Iterable[Fact]) -> list[Fact]:
    """Return each host's median port wait relative to the calmest host. Counters run since their last clearing."""
    waiting_facts: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.key == "ib.port_xmit_wait" and fact.status is Status.OK and isinstance(fact.value, int) and fact.host:
            waiting_facts[fact.host].append(fact)
    middle = {host: sorted(rows, key=_get_number)[len(rows) // 2] for host, rows in waiting_facts.items()}
    calmest = max(min(map(_get_number, middle.values()), default=0.0), 1.0)
    return [
        replace(fact, key="ib.wait_contrast", value=round(_get_number(fact) / calmest, 1), device=None, attrs={"ticks": fact.value})
        for fact in middle.values()
        if len(middle) > 1
    ]


def _get_number(fact: Fact) -> float:
    return float(fact.value) if isinstance(fact.value, int | float) else 0.0


def find_wrong_clocks(facts: Iterable[Fact]) -> list[Fact]:
    """Return each clock's offset from RackMedic's, in seconds, unless the time source states it more exactly.

    With enough clocks their median offset is taken as RackMedic's own error and subtracted.
    """
    facts = [fact for fact in facts if fact.key in ("time.offset", "time.clock")]
    reported_hosts = {fact.host for fact in facts if fact.key == "time.offset"}
    off = {
        fact.host: fact.value - fact.time.timestamp() for fact in facts if _is_clock(fact) and fact.time and isinstance(fact.value, float)
    }
    fleet_offset = median(off.values()) if len(off) >= MIN_CLOCKS else 0.0
    against = "the clock of RackMedic" if len(off) < MIN_CLOCKS else "the clocks of the others"
    return [
        replace(fact, key="time.offset", value=round(off[fact.host] - fleet_offset, 1), unit="s", attrs={"against": against})
        for fact in facts
        if _is_clock(fact) and fact.host in off and fact.host not in reported_hosts
    ]


def _is_clock(fact: Fact) -> bool:
    return fact.key == "time.clock" and fact.status is Status.OK and bool(fact.host)


# fmt: off
# compute capability → product names
PRODUCTS_BY_CAPABILITY = {
    "103": ("B300", "GB300"),
    "100": ("B200", "B100"),
    "90":  ("H100", "H200", "H800", "H20", "GH200"),
    "89":  ("L40", "L4"),
    "86":  ("A10", "A40"),
    "80":  ("A100", "A800", "A30"),
    "75":  ("T4",),
    "70":  ("V100",),
}
# fmt: on


def find_unfit_images(facts: Sequence[Fact]) -> list[Fact]:
    """Return images whose CUDA exceeds the driver's or whose PyTorch was not built for the host's GPUs."""
    newest = {fact.host: fact for fact in facts if fact.key == "driver.cuda_version" and fact.status is Status.OK and fact.host}
    product = {fact.host: str(fact.value) for fact in facts if fact.key == "gpu.product" and fact.status is Status.OK and fact.host}
    image_facts: list[Fact] = []
    for fact in facts:
        if fact.key in ("vers.cuda", "container.cuda") and fact.host in newest and _is_newer(str(fact.value), str(newest[fact.host].value)):
            supported = str(newest[fact.host].value)
            attrs = {"supported": supported, "major": _parse_version(str(fact.value))[0] > _parse_version(supported)[0]}
            image_facts.append(replace(fact, key="vers.cuda_too_new", attrs=attrs))
        needs = _find_capability(product.get(fact.host, "")) if fact.key == "vers.archs" and isinstance(fact.value, list) else ""
        if needs and isinstance(fact.value, list) and not any(can_run_build(arch, int(needs)) for arch in fact.value):
            image_facts.append(replace(fact, key="vers.arch_missing", value=f"sm_{needs}"))
    return image_facts


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]{1,4}", version)[:2]) or (0,)


def _is_newer(image: str, driver: str) -> bool:
    return _parse_version(driver) > (0,) and _parse_version(image) > _parse_version(driver)


def _find_capability(product: str) -> str:
    words = set(re.split(r"[\s_-]+", product))
    return next((number for number, names in PRODUCTS_BY_CAPABILITY.items() if words & {*names, *(f"{name}S" for name in names)}), "")


def can_run_build(arch: str, capability: int) -> bool:
    """Return whether a build for `arch` runs on a compute capability (90 is 9.0).

    `sm_` code runs on later minors of its major, `compute_` code on everything later, `f` code within its major, `a` code only on its own.
    """
    kind, _, digits = arch.partition("_")
    number = int(re.sub(r"\D", "", digits) or 0)
    if digits.endswith("a"):
        return number == capability
    if digits.endswith("f") or kind == "sm":
        return number // 10 == capability // 10 and number <= capability
    return number <= capability


def _place_on_host(gone: Fact, host: str, source: Fact | None) -> Fact:
    return replace(gone, host=host, time=source.time if source else None, sha256=source.sha256 if source else "")
