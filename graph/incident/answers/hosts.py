"""Answer how hosts are, with coverage and age of the reading, and how they differ. Pure."""

from collections.abc import Mapping, Sequence

from graph.incident.answers.answer_context import (
    AnswerContext,
    HostKnowledge,
    build_answer,
    build_host_knowledge,
    clean_text,
    format_age,
    format_confidence,
    format_location,
    get_check_name,
    get_read_time,
    render_basis,
    render_citation,
    render_coverage,
    render_evidence,
    render_fact,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.unproven import CLEARED, format_unproven
from graph.incident.turn_result import TurnResult
from kb.fact_keys import find_key
from tools.differences import ValuesByHost, is_comparable
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names

# Answer how hosts are, with coverage and age of the reading; unobserved hosts are named.

MAX_QUOTES = 3
MAX_SEPARATE_HOSTS = 5
NOTHING_READ = "nothing abnormal in what I read"
PARTLY_CHECKED_TEXT = "nothing abnormal in the checks that ran, but some could not run"


async def answer_host_state(context: AnswerContext) -> TurnResult:
    """Answer one host in detail, several in a line each."""
    hosts = resolve_target_hosts(context).hosts
    if len(hosts) != 1:
        return _answer_hosts(context, hosts)
    host_knowledge = build_host_knowledge(context, hosts[0])
    if host_knowledge.is_unobserved:
        against = format_unproven((*host_knowledge.unproven, *host_knowledge.unplaced))
        return build_answer(
            context,
            [
                *render_unknown_names(context),
                render_not_checked(context, host_knowledge),
                f"{host_knowledge.host}: {against}." if against else "",
            ],
        )
    return build_answer(
        context, [*render_unknown_names(context), *_render_host_details(context, host_knowledge), render_recheck_offer(context, hosts)]
    )


async def answer_group_state(context: AnswerContext) -> TurnResult:
    """Answer for several hosts, those with findings first."""
    return _answer_hosts(context, resolve_target_hosts(context).hosts)


def render_not_checked(context: AnswerContext, known: HostKnowledge) -> str:
    """Return why nothing is known of a host, with the offer to check."""
    if known.blind:
        reason, causes = (
            known.blind[0][1],
            "".join(f"{context.get_title(row.label)}, {format_confidence(row)}; " for row in known.causes[:1]),
        )
        attempt = f"tried {format_age(known.read, context.current_time)}"
        return (
            f"{known.host}: {causes}could not be looked at ({clean_text(reason, 80)}), {attempt}. Say `recheck {known.host}` to try again."
        )
    return f"{known.host}: not looked at. Say `recheck {known.host}` and I look."


def _render_host_details(context: AnswerContext, known: HostKnowledge) -> list[str]:
    lines = [f"{known.host}: {render_host_summary(context, known, quoted_below=True)}."]
    if known.causes or known.shows:
        lines += [f"Also {format_unproven(against)}."] if (against := (*known.unproven, *known.unplaced)) else []
    if any(row.reported for row in (*known.unproven, *known.unplaced)):
        lines.append(CLEARED)
    device = context.message.device
    for row in (*known.causes, *known.shows)[:2]:
        own = [line for line in row.evidence if line.host in (known.host, "")]
        lines += [render_evidence(context, line) for line in own[:MAX_QUOTES]]
    if not known.causes and not known.shows:
        odd = [fact for fact in known.odd if not device or fact.device in (device, None, "")] or list(known.odd)
        lines += [render_fact(context, fact) for fact in odd[:MAX_QUOTES]]
    if known.blind:
        lines.append(f"Could not look with {', '.join(check for check, _ in known.blind[:6])}: {clean_text(known.blind[0][1], 80)}.")
    return lines


def render_host_summary(context: AnswerContext, known: HostKnowledge, *, quoted_below: bool = False) -> str:
    """Summarize a host in a clause; cite evidence unless it is quoted below."""
    coverage, cite = render_coverage(context, known), (lambda row: "") if quoted_below else render_citation
    if known.causes:
        causes = "; ".join(
            f"{context.get_title(row.label)} ({format_location(row)}), {format_confidence(row)}{cite(row)}" for row in known.causes[:2]
        )
        return f"{causes}; {coverage}"
    if known.shows:
        return f"{coverage}, nothing wrong with the machine itself; it shows {context.get_title(known.shows[0].label)}, {format_confidence(known.shows[0])}{cite(known.shows[0])}"
    but = f"; but {format_unproven(against)}" if (against := (*known.unproven, *known.unplaced)) else ""
    if known.odd:
        return f"{coverage}: something is abnormal and no cause is proven {'' if quoted_below else f' ({render_basis(known.odd)})'}{but}"
    if not known.whole:
        return f"{coverage}: {PARTLY_CHECKED_TEXT}{but}"
    return f"{coverage}, {NOTHING_READ}{but}" if but else f"{coverage}, nothing abnormal"


def _answer_hosts(context: AnswerContext, hosts: Sequence[str]) -> TurnResult:
    if not hosts:
        nothing = "" if context.message.unknown_hosts else "I have checked no host yet. Name hosts, for example `recheck gpu-[001-004]`."
        return build_answer(context, [*render_unknown_names(context), nothing or "I looked at nothing."])
    host_knowledge = [build_host_knowledge(context, host) for host in hosts]
    sick = [row for row in host_knowledge if row.causes and not row.is_unobserved]
    odd = [row for row in host_knowledge if not row.causes and (row.odd or row.shows or row.unproven) and not row.is_unobserved]
    rest = [row for row in host_knowledge if row not in sick and row not in odd and not row.is_unobserved]
    partly, well = [row for row in rest if not row.whole], [row for row in rest if row.whole]
    dark = [row for row in host_knowledge if row.is_unobserved]
    head = f"{len(hosts)} hosts: " if len(hosts) > 1 else ""
    parts = [
        f"{len(sick)} with a fault" if sick else "",
        f"{len(odd)} with something to say" if odd else "",
        f"{len(well)} {'without a finding of their own' if well[0].unplaced else 'well'}" if well else "",
    ]
    shut, dark = [row for row in dark if row.blind], [row for row in dark if not row.blind]
    parts += [f"{len(partly)} not wholly looked at" if partly else ""]
    parts += [f"{len(shut)} that could not be looked at" if shut else "", f"{len(dark)} not looked at" if dark else ""]
    lines = [f"{head}{', '.join(filter(None, parts))}."] if len(list(filter(None, parts))) > 1 else []
    lines += [f"{row.host}: {render_host_summary(context, row)}." for row in (*sick, *odd)[:MAX_SEPARATE_HOSTS]]
    lines += [render_not_checked(context, row) for row in shut[:MAX_SEPARATE_HOSTS]]
    lines += (
        [f"{fold_host_names([row.host for row in shut[MAX_SEPARATE_HOSTS:]])}: could not be looked at either."]
        if len(shut) > MAX_SEPARATE_HOSTS
        else []
    )
    lines += [f"… and {len(sick) + len(odd) - MAX_SEPARATE_HOSTS} more."] if len(sick) + len(odd) > MAX_SEPARATE_HOSTS else []
    lines += [f"{fold_host_names([row.host for row in well])}: {render_host_summary(context, well[0])}."] if well else []
    lines += [f"{fold_host_names([row.host for row in partly])}: {render_host_summary(context, partly[0])}."] if partly else []
    lines += (
        [f"{fold_host_names([row.host for row in dark])}: not looked at. Say `recheck {fold_host_names([row.host for row in dark])}`."]
        if dark
        else []
    )
    lines += [f"{row.host}: {format_unproven(row.unproven)}." for row in dark if row.unproven][:MAX_SEPARATE_HOSTS]
    return build_answer(
        context,
        [
            *render_unknown_names(context),
            *lines,
            render_recheck_offer(context, [row.host for row in host_knowledge if not row.is_unobserved]),
        ],
    )


# Compare hosts by what was read, ignoring legitimate differences.

MAX_LINES = 6
MAX_COMPARED_HOSTS = 64
MAX_VALUE_CHARS = 48
# shown where a check found no value; what a lost device cannot report is no separate difference
ABSENT_VALUE = "nothing"


async def compare_hosts(context: AnswerContext) -> TurnResult:
    """Compare the hosts named, one with the rest, or those at fault with the rest."""
    hosts, compared_hosts = _choose_sides(context)
    host_knowledge = [build_host_knowledge(context, host) for host in (*hosts, *compared_hosts)]
    dark = [row.host for row in host_knowledge if row.is_unobserved]
    compared = [row.host for row in host_knowledge if not row.is_unobserved][:MAX_COMPARED_HOSTS]
    if len(compared) < 2:
        lacking = (
            f"{fold_host_names(dark)}: not looked at. Say `recheck {fold_host_names(dark)}`."
            if dark
            else "I have looked at fewer than two hosts."
        )
        return build_answer(context, [*render_unknown_names(context), f"There is nothing to compare yet. {lacking}"])
    lines = _list_differences(context, compared)
    head = f"{_format_hosts(compared)}: " + (
        f"{len(lines)} thing{'s' * (len(lines) != 1)} differ{'s' * (len(lines) == 1)}."
        if lines
        else f"nothing differs in what was read with {max(len(row.looked) for row in host_knowledge)} checks."
    )
    shown_lines = lines[:MAX_LINES] if len(lines) <= MAX_LINES else [*lines[: MAX_LINES - 1], f"• … and {len(lines) - MAX_LINES + 1} more"]
    read = min((at for host in compared if (at := get_read_time(context, host))), default=None)
    unobserved_lines = [f"{fold_host_names(dark)}: not looked at. Say `recheck {fold_host_names(dark)}`."] if dark else []
    unobserved = sorted(
        {f"{get_check_name(check)} on {row.host}" for row in host_knowledge for check, _ in row.blind if not row.is_unobserved}
    )
    unobserved_lines += [f"Could not look: {', '.join(unobserved[:4])}."] if unobserved else []
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
    odd = {(fact.host, fact.check, fact.key, fact.device or "") for fact in context.now.abnormal_facts}
    values_by_host: dict[str, dict[str, dict[tuple[str, str], set[str]]]] = {host: {} for host in hosts}
    for fact in context.case.facts:
        slot = (fact.key, fact.device or "")
        if fact.host not in values_by_host or fact.status is not Status.OK or fact.stale:
            continue
        if (fact.host, fact.check, *slot) in odd or _is_setting(fact):
            values_by_host[fact.host].setdefault(fact.check, {}).setdefault(slot, set()).add(_format_value(fact))
    table = ValuesByHost()
    for host, by_check in values_by_host.items():
        observed_checks = build_host_knowledge(context, host).looked
        for check in dict.fromkeys((*by_check, *observed_checks)):  # in the order in which they were read
            if check in observed_checks:
                table.add_host(check, host, by_check.get(check, {}))
    return table


def _is_setting(fact: Fact) -> bool:
    row = find_key(fact.key)
    return is_comparable(fact) and row is not None and not row.name.endswith(".*") and "counter" not in row.means


def _format_value(fact: Fact) -> str:
    text = ", ".join(map(str, fact.value)) if isinstance(fact.value, list) else str(fact.value)
    return clean_text({"True": "yes", "False": "no"}.get(text, text), MAX_VALUE_CHARS)


def _list_differences(context: AnswerContext, hosts: Sequence[str]) -> list[str]:
    """Return a line per setting, equal devices folded, abnormal ones first."""
    abnormal = {fact.key for fact in context.now.abnormal_facts if fact.host in hosts}
    rows: dict[tuple[str, str, str], list[str]] = {}
    table = _collect_values(context, hosts)
    for (check, key, device), values in table.iter_settings():
        if len(values) > 1 and (all(values) or key in abnormal):
            sides = {", ".join(sorted(value)) or ABSENT_VALUE: table.list_hosts(mask) for value, mask in values.items()}
            rows.setdefault((check, key, _format_sides(sides)), []).append(device)
    cited_keys = {line.key for row in context.root_causes for line in row.evidence}
    order = sorted(rows.items(), key=lambda item: (item[0][1] not in cited_keys, item[0][1] not in abnormal))
    return [
        f"• {_describe_key(key)}{_format_devices(devices)} · {get_check_name(check)} · {sides}" for (check, key, sides), devices in order
    ]


def _describe_key(key: str) -> str:
    row = find_key(key)
    return row.means.partition(";")[0].strip() if row and row.means else key


def _format_devices(devices: Sequence[str]) -> str:
    names = [device for device in devices if device]
    return f", {fold_host_names(names[:16])}" if names else ""


def _format_sides(hosts_of: Mapping[str, Sequence[str]]) -> str:
    """Return `gpu-001: yes; gpu-[002-004]: no`, the rarest first."""
    parts = [f"{fold_host_names(hosts)}: {value}" for value, hosts in sorted(hosts_of.items(), key=lambda row: (len(row[1]), row[0]))]
    return "; ".join(parts[:3]) + (" …" if len(parts) > 3 else "")
