"""Compare hosts by what was read, ignoring legitimate differences."""

from collections.abc import Mapping, Sequence

from graph.incident.answers.answer_context import (
    AnswerContext,
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
MAX_COMPARED_HOSTS = 64
MAX_VALUE_CHARS = 48
# shown where a check found no value; what a lost device cannot report is not a separate difference
ABSENT_VALUE = "nothing"


async def compare_hosts(context: AnswerContext) -> TurnResult:
    """Compare the hosts named, one with the rest, or those at fault with the rest."""
    hosts, compared_hosts = _choose_sides(context)
    host_knowledge = [build_host_knowledge(context, host) for host in (*hosts, *compared_hosts)]
    unobserved_hosts = [knowledge.host for knowledge in host_knowledge if knowledge.is_unobserved]
    compared = [knowledge.host for knowledge in host_knowledge if not knowledge.is_unobserved][:MAX_COMPARED_HOSTS]
    if len(compared) < 2:
        lacking = (
            f"{fold_host_names(unobserved_hosts)}: not looked at. Say `recheck {fold_host_names(unobserved_hosts)}`."
            if unobserved_hosts
            else "I have looked at fewer than two hosts."
        )
        return build_answer(context, [*render_unknown_names(context), f"There is nothing to compare yet. {lacking}"])
    lines = _list_differences(context, compared)
    head = f"{_format_hosts(compared)}: " + (
        f"{len(lines)} thing{'s' * (len(lines) != 1)} differ{'s' * (len(lines) == 1)}."
        if lines
        else f"nothing differs in what was read with {max(len(knowledge.looked) for knowledge in host_knowledge)} checks."
    )
    shown_lines = lines[:MAX_LINES] if len(lines) <= MAX_LINES else [*lines[: MAX_LINES - 1], f"• … and {len(lines) - MAX_LINES + 1} more"]
    read = min((at for host in compared if (at := get_read_time(context, host))), default=None)
    unobserved_lines = (
        [f"{fold_host_names(unobserved_hosts)}: not looked at. Say `recheck {fold_host_names(unobserved_hosts)}`."]
        if unobserved_hosts
        else []
    )
    unobserved = sorted(
        {
            f"{get_check_name(check)} on {knowledge.host}"
            for knowledge in host_knowledge
            for check, _ in knowledge.blind
            if not knowledge.is_unobserved
        }
    )
    if unobserved:
        unobserved_lines.append(f"Could not look: {', '.join(unobserved[:4])}.")
    return build_answer(
        context,
        [
            *render_unknown_names(context),
            head,
            *shown_lines,
            *unobserved_lines,
            f"Read {format_age(read, context.current_time)}. {render_recheck_offer(context, compared)}".strip(),
        ],
        most=11,
    )


def _choose_sides(context: AnswerContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    named_hosts = resolve_target_hosts(context)
    observed_hosts = context.observed_hosts
    if not named_hosts.named:
        first = context.faulty_hosts or observed_hosts
        return first, tuple(host for host in observed_hosts if host not in first)
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
    for host, by_check in values_by_host.items():
        observed_checks = build_host_knowledge(context, host).looked
        for check in dict.fromkeys((*by_check, *observed_checks)):  # in the order in which they were read
            if check in observed_checks:
                table.add_host(check, host, by_check.get(check, {}))
    return table


def _is_setting(fact: Fact) -> bool:
    fact_key = find_key(fact.key)
    return is_comparable(fact) and fact_key is not None and not fact_key.name.endswith(".*") and "counter" not in fact_key.means


def _format_value(fact: Fact) -> str:
    text = ", ".join(map(str, fact.value)) if isinstance(fact.value, list) else str(fact.value)
    return clean_text({"True": "yes", "False": "no"}.get(text, text), MAX_VALUE_CHARS)


def _list_differences(context: AnswerContext, hosts: Sequence[str]) -> list[str]:
    """Return a line per setting, equal devices folded, abnormal ones first."""
    abnormal = {fact.key for fact in context.assessment.abnormal_facts if fact.host in hosts}
    devices_by_difference: dict[tuple[str, str, str], list[str]] = {}
    table = _collect_values(context, hosts)
    for (check, key, device), values in table.iter_settings():
        if len(values) > 1 and (all(values) or key in abnormal):
            sides = {", ".join(sorted(value)) or ABSENT_VALUE: table.list_hosts(mask) for value, mask in values.items()}
            devices_by_difference.setdefault((check, key, _format_sides(sides)), []).append(device)
    cited_keys = {line.key for cause in context.root_causes for line in cause.evidence}
    order = sorted(devices_by_difference.items(), key=lambda item: (item[0][1] not in cited_keys, item[0][1] not in abnormal))
    return [
        f"• {_describe_key(key)}{_format_devices(devices)} · {get_check_name(check)} · {sides}" for (check, key, sides), devices in order
    ]


def _describe_key(key: str) -> str:
    fact_key = find_key(key)
    return fact_key.means.partition(";")[0].strip() if fact_key and fact_key.means else key


def _format_devices(devices: Sequence[str]) -> str:
    names = [device for device in devices if device]
    return f", {fold_host_names(names[:16])}" if names else ""


def _format_sides(hosts_of: Mapping[str, Sequence[str]]) -> str:
    """Return `gpu-001: yes; gpu-[002-004]: no`, the rarest first."""
    parts = [f"{fold_host_names(hosts)}: {value}" for value, hosts in sorted(hosts_of.items(), key=lambda row: (len(row[1]), row[0]))]
    return "; ".join(parts[:3]) + (" …" if len(parts) > 3 else "")
