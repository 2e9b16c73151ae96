"""Answer how hosts differ in their settings and abnormal values."""

from collections.abc import Mapping, Sequence

from graph.incident.answers.answer_context import (
    AnswerContext,
    HostKnowledge,
    build_answer,
    build_host_knowledge,
    clean_text,
    format_age,
    get_check_name,
    get_read_time,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.turn_result import TurnResult
from kb.fact_keys import find_key
from tools.differences import ValuesByHost, is_comparable
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names

MAX_LINES = 6
MAX_ANSWER_LINES = 11
MAX_COMPARED_HOSTS = 64
MAX_VALUE_CHARS = 48
# Shown where a check found no value. Values that a lost device cannot report are no differences of their own.
ABSENT_VALUE = "nothing"


async def compare_hosts(context: AnswerContext) -> TurnResult:
    """Compare the named hosts. One named host, or the faulty hosts if none is named, are compared with all others."""
    hosts, compared_hosts = _choose_sides(context)
    host_knowledge = [build_host_knowledge(context, host) for host in (*hosts, *compared_hosts)]
    unobserved_hosts = [knowledge.host for knowledge in host_knowledge if knowledge.is_unobserved]
    observed_hosts = [knowledge.host for knowledge in host_knowledge if not knowledge.is_unobserved][:MAX_COMPARED_HOSTS]
    recheck_offer = ""
    if unobserved_hosts:
        folded_names = fold_host_names(unobserved_hosts)
        recheck_offer = f"{folded_names}: not looked at. Say `recheck {folded_names}`."
    if len(observed_hosts) < 2:
        reason = recheck_offer or "I have looked at fewer than two hosts."
        return build_answer(context, [*render_unknown_names(context), f"There is nothing to compare yet. {reason}"])
    differences = _list_differences(context, observed_hosts)
    if differences:
        summary = f"{len(differences)} thing{'s' * (len(differences) != 1)} differ{'s' * (len(differences) == 1)}."
    else:
        check_count = max(len(knowledge.observed_checks) for knowledge in host_knowledge)
        summary = f"nothing differs in what was read with {check_count} checks."
    if len(differences) > MAX_LINES:
        differences = [*differences[: MAX_LINES - 1], f"• … and {len(differences) - MAX_LINES + 1} more"]
    read_times = [read_time for host in observed_hosts if (read_time := get_read_time(context, host))]
    age = format_age(min(read_times, default=None), context.current_time)
    return build_answer(
        context,
        [
            *render_unknown_names(context),
            f"{_format_hosts(observed_hosts)}: {summary}",
            *differences,
            *([recheck_offer] if recheck_offer else []),
            *_render_failed_checks(host_knowledge),
            f"Read {age}. {render_recheck_offer(context, observed_hosts)}".strip(),
        ],
        max_lines=MAX_ANSWER_LINES,
    )


def _render_failed_checks(host_knowledge: Sequence[HostKnowledge]) -> list[str]:
    """Name checks that failed on hosts that other checks observed."""
    failed_checks = {
        f"{get_check_name(check)} on {knowledge.host}"
        for knowledge in host_knowledge
        for check, _ in knowledge.failed_checks
        if not knowledge.is_unobserved
    }
    return [f"Could not look: {', '.join(sorted(failed_checks)[:4])}."] if failed_checks else []


def _choose_sides(context: AnswerContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the hosts asked about and the hosts to compare them with."""
    named_hosts = resolve_target_hosts(context)
    observed_hosts = context.observed_hosts
    if not named_hosts.named:
        faulty_hosts = context.faulty_hosts or observed_hosts
        return faulty_hosts, tuple(host for host in observed_hosts if host not in faulty_hosts)
    if len(named_hosts.hosts) == 1:
        return named_hosts.hosts, tuple(host for host in observed_hosts if host not in named_hosts.hosts)
    return named_hosts.hosts, ()


def _format_hosts(hosts: Sequence[str]) -> str:
    return " and ".join(hosts) if len(hosts) == 2 else fold_host_names(hosts)


def _collect_values(context: AnswerContext, hosts: Sequence[str]) -> ValuesByHost:
    """Collect settings and abnormal facts by check, without counters and site-defined keys."""
    abnormal_slots = {(fact.host, fact.check, fact.key, fact.device or "") for fact in context.assessment.abnormal_facts}
    values_by_host: dict[str, dict[str, dict[tuple[str, str], set[str]]]] = {host: {} for host in hosts}
    for fact in context.incident.facts:
        slot = (fact.key, fact.device or "")
        if fact.host not in values_by_host or fact.status is not Status.OK or fact.stale:
            continue
        if (fact.host, fact.check, *slot) in abnormal_slots or _is_setting(fact):
            values_by_host[fact.host].setdefault(fact.check, {}).setdefault(slot, set()).add(_format_value(fact))
    table = ValuesByHost()
    for host, values_by_check in values_by_host.items():
        observed_checks = build_host_knowledge(context, host).observed_checks
        for check in dict.fromkeys((*values_by_check, *observed_checks)):  # in the order in which they were read
            if check in observed_checks:
                table.add_host(check, host, values_by_check.get(check, {}))
    return table


def _is_setting(fact: Fact) -> bool:
    fact_key = find_key(fact.key)
    return is_comparable(fact) and fact_key is not None and not fact_key.name.endswith(".*") and "counter" not in fact_key.means


def _format_value(fact: Fact) -> str:
    text = ", ".join(map(str, fact.value)) if isinstance(fact.value, list) else str(fact.value)
    return clean_text({"True": "yes", "False": "no"}.get(text, text), MAX_VALUE_CHARS)


def _list_differences(context: AnswerContext, hosts: Sequence[str]) -> list[str]:
    """Return a line per setting, equal devices folded, abnormal ones first."""
    abnormal_keys = {fact.key for fact in context.assessment.abnormal_facts if fact.host in hosts}
    devices_by_difference: dict[tuple[str, str, str], list[str]] = {}
    table = _collect_values(context, hosts)
    for (check, key, device), values in table.iter_settings():
        if len(values) > 1 and (all(values) or key in abnormal_keys):
            hosts_by_value = {", ".join(sorted(value)) or ABSENT_VALUE: table.list_hosts(mask) for value, mask in values.items()}
            devices_by_difference.setdefault((check, key, _format_hosts_by_value(hosts_by_value)), []).append(device)
    cited_keys = {line.key for cause in context.root_causes for line in cause.evidence}
    differences = sorted(
        devices_by_difference, key=lambda difference: (difference[1] not in cited_keys, difference[1] not in abnormal_keys)
    )
    return [
        f"• {_describe_key(key)}{_format_devices(devices_by_difference[check, key, values])} · {get_check_name(check)} · {values}"
        for check, key, values in differences
    ]


def _describe_key(key: str) -> str:
    fact_key = find_key(key)
    return fact_key.means.partition(";")[0].strip() if fact_key and fact_key.means else key


def _format_devices(devices: Sequence[str]) -> str:
    names = [device for device in devices if device]
    return f", {fold_host_names(names[:16])}" if names else ""


def _format_hosts_by_value(hosts_by_value: Mapping[str, Sequence[str]]) -> str:
    """Return `gpu-001: yes; gpu-[002-004]: no`, the rarest value first."""
    values = sorted(hosts_by_value, key=lambda value: (len(hosts_by_value[value]), value))
    parts = [f"{fold_host_names(hosts_by_value[value])}: {value}" for value in values]
    return "; ".join(parts[:3]) + (" …" if len(parts) > 3 else "")
