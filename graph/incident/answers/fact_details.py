"""Answer a question for a number or a name with what was read: host, check and time; or offer the check that would tell."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from graph.engine.fact_history import EVENT_KEY_PREFIXES
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    format_log_line,
    format_read_at,
    get_check_name,
    get_read_time,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.magnitudes import answer_how_much, asks_about_remediated_cause
from graph.incident.turn_result import TurnResult
from graph.state import Hypothesis
from kb.fact_keys import find_key
from kb.fact_text import FACT_TEXTS, fill_slots
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names

MAX_FACTS = 6
MAX_DEVICES = 4


class FactSubject(NamedTuple):
    """What is read of a detail. `keys` may end in `*`; the first that any fact has come first. `lowest`: small values matter."""

    says: str
    keys: tuple[str, ...]
    lowest: bool = False


# fmt: off
FACT_SUBJECTS: Final[Mapping[str, FactSubject]] = {
    "temperature":  FactSubject("temperature", ("gpu.temp.core", "gemm.temp", "gpu.temp.memory", "ipmi.inlet")),
    "power":        FactSubject("power", ("gpu.power.draw", "gpu.power.limit")),
    "gpu_clock":    FactSubject("GPU clock", ("gpu.clock.sm", "gpu.clock.app"), lowest=True),
    "clock_offset": FactSubject("clock offset", ("time.offset",)),
    "versions":     FactSubject("version", ("driver.version", "driver.module_version", "driver.library_version", "driver.installed_version",
                                            "driver.fabricmanager_version", "driver.cuda_version", "job.nccl_version")),
    "cuda":         FactSubject("CUDA version", ("driver.cuda_version", "vers.cuda", "vers.torch", "vers.cudnn")),
    "nccl":         FactSubject("NCCL version", ("job.nccl_version", "vers.nccl")),
    "firmware":     FactSubject("firmware version", ("ib.firmware", "gpu.vbios")),
    "mount":        FactSubject("mount", ("store.mount", "disk.readonly", "kernel.fs_readonly", "kernel.nfs_timeout", "disk.used_percent")),
    "disk":         FactSubject("disk usage", ("disk.used_percent", "disk.inodes_percent")),
    "bandwidth":    FactSubject("bandwidth", ("expect.busbw", "nccl.busbw_max", "nccl.pair_busbw", "ib.write_bw", "bw.h2d", "bw.d2h", "p2p.worst", "ib.rate",
                                              "pcie.speed", "nvlink.speed", "pcie.width"), lowest=True),
    "errors":       FactSubject("error count", ("kernel.xid", "kernel.sxid", "gpu.ecc.dram_uncorrectable", "gpu.ecc.sram_uncorrectable", "gpu.ecc.dram_correctable",
                                                "gpu.ecc.dram_uncorrectable_total", "gpu.ecc.dram_correctable_total", "nvlink.crc_errors", "ib.symbol_error",
                                                "ib.link_downed", "ib.link_integrity_errors", "net.rx_errors", "sdc.mismatches", "gemm.errors")),
    "memory":       FactSubject("memory in use", ("proc.orphan", "proc.gpu_memory", "gpu.memory.used", "mem.available_bytes")),
    "utilisation":  FactSubject("utilisation", ("gpu.util",)),
    "link":         FactSubject("link", ("ib.state", "nvlink.inactive", "ib.rate", "ib.link_downed", "net.state", "pcie.width")),
    "gpu":          FactSubject("GPU", ("gpu.lost", "gpu.missing", "pcie.absent", "pcie.rev_ff", "kernel.xid", "gpu.bdf", "gpu.count")),
    "process":      FactSubject("process", ("proc.orphan", "proc.blocked", "proc.stopped", "proc.hog", "proc.gpu_memory")),
}
# fmt: on
# Details of which the cause itself names the device.
_NAMED_BY_CAUSE: Final = frozenset({"gpu", "link", "mount", "process", ""})
_COUNTED: Final = frozenset({"errors", "link"})
_POINTED_AT: Final = frozenset({"mount", "process", "gpu", "link"})  # Of these only what is wrong is told, if anything is.
_VERSIONS: Final = frozenset({"versions", "cuda", "nccl", "firmware"})


async def answer_fact_detail(context: AnswerContext) -> TurnResult:
    """Answer with the readings of the detail asked for, those behind the causes first."""
    if asks_about_remediated_cause(context):
        return await answer_how_much(context)
    detail, hosts = context.message.detail, _list_hosts(context)
    if detail == "since":
        lines = _render_since(context, hosts)
    else:
        lines = _render_devices(context, hosts) if detail in _NAMED_BY_CAUSE else []
        lines += _render_readings(context, hosts)
    lines = list(dict.fromkeys(lines))[:MAX_FACTS]
    if not lines:
        return build_answer(context, [*render_unknown_names(context), *_render_not_read(context, hosts)])
    return build_answer(context, [*render_unknown_names(context), *lines, render_recheck_offer(context, hosts)])


def _list_hosts(context: AnswerContext) -> tuple[str, ...]:
    """Return the visible hosts that the question is about: those named, or at fault; for versions all that were read."""
    target = resolve_target_hosts(context)
    hosts = context.observed_hosts if context.message.detail in _VERSIONS and not target.named else target.hosts
    return tuple(host for host in hosts if host in context.incident.visible)


def _list_cited(context: AnswerContext, label: str = "") -> list[Fact]:
    """Return the facts behind a cause, or behind those that are named, or all that were found, in their order."""
    labels = [cause.label for cause in context.root_causes]
    wanted = [label] if label else [named for named in context.message.labels if named in labels] or labels
    beliefs = (belief for found in wanted for belief in context.assessment.by_label.get(found, ()))
    return [match.fact for belief in beliefs for match in belief.support if match.fact.key]


def _select_facts(context: AnswerContext, hosts: Sequence[str]) -> list[Fact]:
    """Return the newest reading per host, key and device: cited ones first, then abnormal ones, then by the subject's keys."""
    subject = FACT_SUBJECTS.get(context.message.detail)
    cited, abnormal = _list_cited(context), context.assessment.abnormal_facts
    keys = subject.keys if subject else tuple(dict.fromkeys(fact.key for fact in (*cited, *abnormal)))
    places: dict[tuple[str, str, str], Fact] = {}
    for fact in (*context.incident.facts, *cited):
        if fact.host in hosts and _is_known(fact) and _find_place(fact.key, keys) >= 0:
            place = (fact.host, fact.key, fact.device or "")
            known = places.get(place)
            if known is None or _is_newer(fact, known):
                places[place] = fact
    cited_places = {(fact.host, fact.key, fact.device or "") for fact in cited}
    abnormal_places = {(fact.host, fact.key, fact.device or "") for fact in abnormal}

    wrong = {place: fact for place, fact in places.items() if place in cited_places or place in abnormal_places}
    if wrong and context.message.detail in _POINTED_AT:
        places = wrong

    def rank(item: tuple[tuple[str, str, str], Fact]) -> tuple[object, ...]:
        place, fact = item
        value = _get_number(fact)
        size = value if subject and subject.lowest else -abs(value)
        return (place not in cited_places, place not in abnormal_places, _find_place(fact.key, keys), size, fact.host, fact.device or "")

    return [fact for _, fact in sorted(places.items(), key=rank)]


def _is_known(fact: Fact) -> bool:
    """Return whether it is a current reading of something that is there: `false` names nothing."""
    return fact.status is Status.OK and not fact.stale and fact.value is not False and fact.value is not None


def _find_place(key: str, keys: Sequence[str]) -> int:
    return next((at for at, pattern in enumerate(keys) if fnmatchcase(key, pattern)), -1)


def _is_newer(fact: Fact, known: Fact) -> bool:
    return fact.time is not None and (known.time is None or fact.time >= known.time)


def _get_number(fact: Fact) -> float:
    return float(fact.value) if isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool) else 0.0


def _render_readings(context: AnswerContext, hosts: Sequence[str]) -> list[str]:
    """Return a line per reading; equal values of several hosts share one, and of many devices the farthest is told."""
    facts = _select_facts(context, hosts)
    device = context.message.device
    if context.message.detail == "gpu":
        accused = {device for cause in context.root_causes for device in cause.devices}
        facts = [fact for fact in facts if not accused or f"{fact.host}/{fact.device}" in accused]
    if device and any(_is_device(fact, device) for fact in facts):
        facts = [fact for fact in facts if _is_device(fact, device)]
    if context.message.detail in _VERSIONS:
        return _render_versions(context, facts)
    groups: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts:
        groups.setdefault((fact.host, fact.key), []).append(fact)
    counted = [group for group in groups.values() if not _is_zero(group[0])]  # beside errors that were counted, zeros say nothing
    return [_render_group(context, group) for group in (counted if context.message.detail in _COUNTED and counted else groups.values())]


def _is_zero(fact: Fact) -> bool:
    return _is_quantity(fact) and fact.value == 0


def _is_quantity(fact: Fact) -> bool:
    return (known := find_key(fact.key)) is not None and known.is_quantity


def _render_group(context: AnswerContext, group: Sequence[Fact]) -> str:
    """Return the first reading of a host and key, and how the others compare."""
    first, others = group[0], group[1:]
    if not others:
        return render_reading(context, first)
    if all(fact.value == first.value for fact in others):
        beside = f"the same on {', '.join(clean_text(fact.device or '', 20) for fact in others[:MAX_DEVICES])}"
        beside += f" and {len(others) - MAX_DEVICES} more" if len(others) > MAX_DEVICES else ""
    elif _is_quantity(first):
        values = sorted(_get_number(fact) for fact in group)
        beside = f"{len(group)} read, {values[0]:g} to {values[-1]:g}"
    else:
        beside = "; ".join(clean_text(_describe(fact), 80) for fact in others[:MAX_DEVICES])
    return render_reading(context, first, beside)


def _is_device(fact: Fact, device: str) -> bool:
    return (fact.device or "").lower().rpartition("/")[2] == device.lower()


def _render_versions(context: AnswerContext, facts: Iterable[Fact]) -> list[str]:
    groups: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts:
        groups.setdefault((fact.key, clean_text(str(fact.value), 60)), []).append(fact)
    lines = []
    for (key, value), group in groups.items():
        known = find_key(key)
        hosts = fold_host_names(dict.fromkeys(fact.host for fact in group))
        lines.append(f"{hosts}: {value}, {known.means.partition(';')[0] if known else key} ({_render_source(context, group)}).")
    return lines


def render_reading(context: AnswerContext, fact: Fact, beside: str = "") -> str:
    """Return `gpu-002: the clock is off by -412 s (time, read 08:17 UTC).`"""
    return f"{fact.host}: {clean_text(_describe(fact))}{f'; {beside}' if beside else ''} ({_render_source(context, [fact])})."


def _describe(fact: Fact) -> str:
    known, device, sentence = find_key(fact.key), fact.device or "", fact.format_sentence()
    if known and known.is_quantity and fact.key not in FACT_TEXTS:
        sentence = f"{known.means.partition(';')[0]}: {_format_number(fact.value, fact.unit or known.unit)}"
    count = fact.attrs.get("count")
    if isinstance(count, int) and count > 1:
        sentence += f", {count} times"
    return sentence if not device or device in sentence else f"{device}: {sentence}"


def _format_number(value: object, unit: str) -> str:
    if unit == "B":
        return fill_slots("{size}", value, None, "")
    return f"{value:g} {unit}".rstrip() if isinstance(value, float) else f"{value} {unit}".rstrip()


def _render_source(context: AnswerContext, facts: Sequence[Fact]) -> str:
    checks = ", ".join(dict.fromkeys(get_check_name(fact.check) for fact in facts))
    events = [fact for fact in facts if fact.time and fact.key.startswith(EVENT_KEY_PREFIXES)]
    logged = f"logged {_format_moment(max(fact.time for fact in events if fact.time), context.current_time)}, " if events else ""
    read_time = max((time for fact in facts if (time := get_read_time(context, fact.host, fact.check))), default=None)
    return f"{checks}, {logged}{format_read_at(read_time, context.current_time)}"


def _render_devices(context: AnswerContext, hosts: Sequence[str]) -> list[str]:
    """Return the devices that the causes accuse, with the line that shows it."""
    subject, lines = FACT_SUBJECTS.get(context.message.detail), []
    for cause in context.root_causes:
        devices = [
            device for device in cause.devices if device.partition("/")[0] in hosts or ("/" not in device and set(cause.hosts) & set(hosts))
        ]
        evidence = next((line for line in cause.evidence if line.host in hosts), None)
        if not devices or evidence is None or not (_is_about_gpus(context) or _cites(cause, subject)):
            continue
        shown = format_log_line(evidence.line, evidence.says)
        read_time = get_read_time(context, evidence.host, evidence.check)
        source = f"{get_check_name(evidence.check)}, {format_read_at(read_time, context.current_time)}"
        lines.append(f"{', '.join(devices[:MAX_DEVICES])}: {context.get_title(cause.label)}: {shown} ({source}).")
    return lines


def _is_about_gpus(context: AnswerContext) -> bool:
    return context.message.detail in ("gpu", "")


def _cites(cause: Hypothesis, subject: FactSubject | None) -> bool:
    return subject is not None and any(line.key in subject.keys for line in cause.evidence)


def _render_since(context: AnswerContext, hosts: Sequence[str]) -> list[str]:
    """Return the first time that a log shows each cause. A reading tells only when it was looked at."""
    lines = []
    for cause in context.root_causes:
        if cause.hosts and not set(cause.hosts) & set(hosts):
            continue
        facts = [fact for fact in _list_cited(context, cause.label) if fact.host in cause.hosts or not cause.hosts]
        events = [(moment, fact) for fact in facts if (moment := _get_event_time(fact)) is not None]
        where = fold_host_names(cause.hosts) or "no host"
        if events:
            moment, fact = min(events, key=lambda row: row[0])
            source = f"{get_check_name(fact.check)} {f'of {fact.host}' if fact.host else 'handed in'}"
            lines.append(
                f"{where}: {context.get_title(cause.label)}, first seen {_format_moment(moment, context.current_time)} ({source})."
            )
        elif times := [(fact.time, fact) for fact in facts if fact.time]:
            time, fact = min(times, key=lambda row: row[0])
            source = f"{get_check_name(fact.check)}, {format_read_at(time, context.current_time)}"
            lines.append(f"{where}: {context.get_title(cause.label)}: I do not know since when; it was there when I looked ({source}).")
    return lines


def _get_event_time(fact: Fact) -> datetime | None:
    """Return when a logged event first happened; a reading has no such time."""
    first = fact.attrs.get("first")
    if isinstance(first, str):
        try:
            moment = datetime.fromisoformat(first)
        except ValueError:
            return fact.time
        return moment if moment.tzinfo else fact.time
    return fact.time if fact.key.startswith(("kernel.", "job.", "service.event", "ipmi.event")) else None


def _format_moment(moment: datetime, now: datetime) -> str:
    return f"{moment:%H:%M} UTC" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M} UTC"


def _render_not_read(context: AnswerContext, hosts: Sequence[str]) -> list[str]:
    """Say that it is not known, and offer the check that would tell."""
    detail = context.message.detail
    if detail == "since":
        return ["I do not know since when: no cause is proven. Ask “what changed?” for what happened."]
    subject = FACT_SUBJECTS.get(detail)
    if subject is None:
        return ["I do not know which number or name you mean. Name it with a host, for example “how hot is gpu-001?”."]
    names = fold_host_names(hosts)
    where = f" on {names}" if names else ""
    checks = [check for check in context.assessment.reference.checks.values() if set(check.establishes) & set(subject.keys)]
    passive = next((check for check in checks if not check.exclusive), None)
    exclusive = next((check for check in checks if check.exclusive), None)
    offer = f"Say `recheck {names or 'HOSTS'}` and I look with {get_check_name(passive.id)}." if passive else ""
    if not offer and exclusive:
        offer = f"Say `run {exclusive.id} on {names or 'HOSTS'}` to propose the test for approval."
    return [f"I do not know: no {subject.says} was read{where}. {offer}".rstrip()]
