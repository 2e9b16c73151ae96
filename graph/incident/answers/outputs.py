"""Show stored check output, bounded and redacted; reads only the evidence store."""

from collections.abc import Sequence, Set

from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    format_age,
    get_check_name,
    get_read_time,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.charts import answer_bandwidth, measured
from graph.incident.turn_result import TurnResult
from graph.report import AttachedChart, AttachedOutput
from graph.report_charts import DEFAULT_METRIC, find_metric, iter_deciding_gpu_keys
from kb.needle_search import split_lines
from tools.checks.check_types import Check
from tools.heatmap import Heatmap, summarize_heatmap
from tools.inventory.host_ranges import fold_host_names

MAX_LINES = 12
MAX_HOSTS = 2
MAX_COMMANDS = 6
LOG_CHECKS = frozenset({"dmesg", "joblog", "sysd", "ipmi"})  # outputs whose last lines matter most
MAX_OUTPUT_CHARS = 200_000  # characters of an output searched for relevant lines


async def show_output(context: AnswerContext) -> TurnResult:
    """Show a check's output, by default that of the deciding check. Attach it as a file if requested or if lines are cut."""
    wants_picture = context.message.form == "picture"
    if wants_picture:
        key = find_metric(context.message.text, context.message.check, _get_deciding_key(context))
        if key:
            return _answer_heatmap(context, key)
    outputs = _list_wanted_outputs(context)
    if not outputs:
        return build_answer(context, [*render_unknown_names(context), _ask_which_output(context)])
    lines, files = render_unknown_names(context), list[AttachedOutput]()
    max_lines = MAX_LINES if len(outputs) == 1 else MAX_LINES // 2
    for host, check in outputs[:MAX_HOSTS]:
        output_lines, output_files = await _render_output(context, host, check, max_lines)
        lines += output_lines
        files += output_files
    shown_hosts = [host for host, _ in outputs[:MAX_HOSTS]]
    remaining_hosts = [host for host, _ in outputs[MAX_HOSTS:]]
    if remaining_hosts:
        lines.append(f"The same for {fold_host_names(remaining_hosts)}: ask for one host at a time.")
    if wants_picture and files:
        lines.append("A picture would not show more, so here is a file. I draw numbers of GPUs, such as temperatures.")
    return build_answer(context, [*lines, render_recheck_offer(context, shown_hosts)], max_lines=2 * MAX_LINES, outputs=tuple(files))


def _get_deciding_key(context: AnswerContext) -> str:
    return next(iter_deciding_gpu_keys(context.root_causes), DEFAULT_METRIC)


def _answer_heatmap(context: AnswerContext, key: str) -> TurnResult:
    """Answer with a heatmap of a GPU metric; by default of all observed hosts."""
    hosts_in_scope = resolve_target_hosts(context)
    hosts = hosts_in_scope.hosts if hosts_in_scope.named else context.observed_hosts
    heatmap = Heatmap(key, hosts)
    heatmap.add_facts(context.incident.facts)
    if heatmap.compute_spread() is None:
        if key == "nccl.pair_busbw" and measured(context, tuple(hosts)).curves:
            return answer_bandwidth(context)  # measured by message size, not per pair
        check = next((check for check in context.assessment.reference.checks.values() if key in check.establishes), None)
        lines = [
            *render_unknown_names(context),
            f"No {heatmap.says} was read of {fold_host_names(hosts) or 'any host'}, so there is nothing to draw.",
            _render_check_offer(check, fold_host_names(hosts)),
        ]
        return build_answer(context, lines)
    observed_hosts = heatmap.list_known_hosts()
    unobserved_hosts = [host for host in hosts if host not in set(observed_hosts)]
    read_times = [read_time for host in observed_hosts if (read_time := get_read_time(context, host))]
    age = format_age(min(read_times, default=None), context.current_time)
    lines = [
        *render_unknown_names(context),
        f"{clean_text(summarize_heatmap(heatmap), 300)} · {_format_reading_checks(context, key)} · read {age}; as a picture:",
        f"Not known: {fold_host_names(unobserved_hosts)}." if unobserved_hosts else "",
        render_recheck_offer(context, observed_hosts),
    ]
    return build_answer(context, lines, pictures=(AttachedChart(key=key, hosts=tuple(hosts)),))


def _render_check_offer(check: Check | None, host_names: str) -> str:
    if check and check.exclusive:
        return f"Say `run {check.id} on {host_names}` to propose it for approval."
    return f"Say `recheck {host_names}` and I look."


def _format_reading_checks(context: AnswerContext, key: str) -> str:
    return ", ".join(dict.fromkeys(get_check_name(fact.check) for fact in context.incident.facts if fact.key == key))


def _list_wanted_outputs(context: AnswerContext) -> list[tuple[str, str]]:
    """Return the host and check of each output that the message asks for."""
    hosts_in_scope = resolve_target_hosts(context)
    if context.message.check:
        return [(host, context.message.check) for host in hosts_in_scope.hosts]
    cited_outputs = [(line.host, line.check) for cause in context.root_causes for line in cause.evidence if line.host]
    if hosts_in_scope.named:
        cited_outputs = [(host, check) for host, check in cited_outputs if host in hosts_in_scope.hosts]
        abnormal_outputs = [(fact.host, fact.check) for fact in context.assessment.abnormal_facts if fact.host in hosts_in_scope.hosts]
        return list(dict.fromkeys((*cited_outputs, *abnormal_outputs)))[:1]
    return list(dict.fromkeys(cited_outputs))[:1]


def _ask_which_output(context: AnswerContext) -> str:
    if context.message.unknown_hosts:
        return "I can show no output of those."
    observed_checks = sorted({fact.check for fact in context.incident.facts if fact.host and fact.sha256})
    names = ", ".join(get_check_name(check) for check in observed_checks[:12])
    return (
        f"Which output do you want? I have {names}. For example “show kernel log of {context.observed_hosts[0]}”."
        if observed_checks
        else "I have looked at nothing yet."
    )


async def _render_output(context: AnswerContext, host: str, check: str, max_lines: int) -> tuple[list[str], list[AttachedOutput]]:
    """Return a heading with the relevant lines, and files if lines are cut or files are requested."""
    facts = [fact for fact in context.incident.facts if (fact.host, fact.check) == (host, check)]
    digests = list(dict.fromkeys(fact.sha256 for fact in facts if fact.sha256))
    stored_texts: list[tuple[str, str]] = []
    for digest in digests[:MAX_COMMANDS]:
        text = await context.graph_context.evidence.get_text(digest)
        if text is not None:
            stored_texts.append((digest, text))
    texts = _drop_boot_id_texts(stored_texts, _list_boot_ids(context, host))
    reason = context.assessment.coverage.unobserved.get((host, check), "")
    if not texts:
        return [_render_no_output(context, host, check, reason, is_empty=not digests)], []
    heading = f"{host} · {get_check_name(check)} · read {format_age(get_read_time(context, host, check), context.current_time)}"
    lines = [line for _, text in texts for line in split_lines(text[:MAX_OUTPUT_CHARS]) if line.strip()]
    abnormal_lines = [fact.line for fact in context.assessment.abnormal_facts if (fact.host, fact.check) == (host, check)]
    shown_lines = _select_relevant_lines(lines, abnormal_lines, max_lines, newest=check in LOG_CHECKS)
    is_cut = len(shown_lines) < len(lines)
    line_count = f"{len(shown_lines)} of {len(lines)} lines" if is_cut else f"{len(lines)} line{'s' * (len(lines) != 1)}"
    files: list[AttachedOutput] = []
    if context.message.form or is_cut:
        files = [AttachedOutput(name=_build_file_name(host, check, n), sha256=digest) for n, (digest, _) in enumerate(texts)]
    file_note = "; the full output as a file" if files else ""
    unobserved_lines = [f"A part could not be looked at: {clean_text(reason, 100)}."] if reason else []
    return [f"{heading}: {line_count}{file_note}", *(f"  {clean_text(line)}" for line in shown_lines), *unobserved_lines], files


def _list_boot_ids(context: AnswerContext, host: str) -> set[str]:
    return {
        fact.boot_id or str(fact.value)
        for fact in context.incident.facts
        if fact.host == host and (fact.boot_id or fact.key == "host.boot_id")
    }


def _drop_boot_id_texts(texts: Sequence[tuple[str, str]], boot_ids: Set[str]) -> list[tuple[str, str]]:
    """Drop outputs that are only a boot id, unless all are."""
    return [(digest, text) for digest, text in texts if text.strip() not in boot_ids] or list(texts)


def _render_no_output(context: AnswerContext, host: str, check: str, reason: str, *, is_empty: bool) -> str:
    if reason:
        return f"{host} · {get_check_name(check)}: could not look: {clean_text(reason, 100)}. Say `recheck {host}` to try again."
    skip_reason = context.assessment.coverage.skipped.get((host, check))
    if skip_reason is not None:
        return f"{host} · {get_check_name(check)}: was not run: {clean_text(skip_reason, 120)}."
    if any((fact.host, fact.check) == (host, check) for fact in context.incident.facts):
        age = format_age(get_read_time(context, host, check), context.current_time)
        return f"{host} · {get_check_name(check)} · read {age}: {'it printed nothing' if is_empty else 'its output is no longer kept'}."
    offer = _render_check_offer(context.assessment.reference.checks.get(check), host)
    return f"{host} · {get_check_name(check)}: not looked at. {offer}"


def _select_relevant_lines(lines: Sequence[str], abnormal_lines: Sequence[str], max_lines: int, *, newest: bool) -> list[str]:
    """Return up to `max_lines` lines: abnormal ones with their neighbours, then the end if `newest`, else the start."""
    if len(lines) <= max_lines:
        return list(lines)
    abnormal_texts = {" ".join(line.split()) for line in abnormal_lines if line}
    abnormal_indexes = [index for index, line in enumerate(lines) if " ".join(line.split()) in abnormal_texts][: max_lines // 2]
    neighbours = [neighbour for index in abnormal_indexes for neighbour in (index - 1, index + 1) if 0 <= neighbour < len(lines)]
    other_indexes = reversed(range(len(lines))) if newest else range(len(lines))
    indexes = list(dict.fromkeys((*abnormal_indexes, *neighbours, *other_indexes)))[:max_lines]
    return [lines[index] for index in sorted(indexes)]


def _build_file_name(host: str, check: str, number: int) -> str:
    return f"{host}-{check}{f'-{number + 1}' if number else ''}.txt"
