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
from tools.heatmap import Heatmap, summarize_heatmap
from tools.inventory.host_ranges import fold_host_names

MAX_LINES = 12
MAX_HOSTS = 2
MAX_COMMANDS = 6
LOG_CHECKS = frozenset({"dmesg", "joblog", "sysd", "ipmi"})  # outputs whose last lines matter most
MAX_OUTPUT_CHARS = 200_000  # characters of an output searched for relevant lines


async def show_output(context: AnswerContext) -> TurnResult:
    """Show a check's output, as a file too if requested or cut; by default what decided."""
    if context.message.form == "picture" and (key := find_metric(context.message.text, context.message.check, _get_deciding_key(context))):
        return _answer_heatmap(context, key)
    pairs = _list_wanted_outputs(context)
    if not pairs:
        return build_answer(context, [*render_unknown_names(context), _ask_which_output(context)])
    lines, files = render_unknown_names(context), list[AttachedOutput]()
    for host, check in pairs[:MAX_HOSTS]:
        output_lines, own_outputs = await _render_output(context, host, check, room=MAX_LINES if len(pairs) == 1 else MAX_LINES // 2)
        lines, files = [*lines, *output_lines], [*files, *own_outputs]
    remaining_hosts = [host for host, _ in pairs[MAX_HOSTS:]]
    if remaining_hosts:
        lines.append(f"The same for {fold_host_names(remaining_hosts)}: ask for one host at a time.")
    if context.message.form == "picture" and files:
        lines.append("A picture would not show more, so here is a file. I draw numbers of GPUs, such as temperatures.")
    return build_answer(
        context, [*lines, render_recheck_offer(context, [host for host, _ in pairs[:MAX_HOSTS]])], most=2 * MAX_LINES, shown=tuple(files)
    )


def _get_deciding_key(context: AnswerContext) -> str:
    return next(iter_deciding_gpu_keys(context.root_causes), DEFAULT_METRIC)


def _answer_heatmap(context: AnswerContext, key: str) -> TurnResult:
    """Answer with a heatmap of a GPU metric; by default of all observed hosts."""
    hosts_in_scope = resolve_target_hosts(context)
    hosts = hosts_in_scope.hosts if hosts_in_scope.named else context.observed_hosts
    heat = Heatmap(key, hosts)
    heat.add_facts(context.incident.facts)
    if heat.compute_spread() is None and key == "nccl.pair_busbw" and measured(context, tuple(hosts)).curves:
        return answer_bandwidth(context)  # measured by message size, not per pair
    if heat.compute_spread() is None:
        check = next((check for check in context.assessment.reference.checks.values() if key in check.establishes), None)
        exclusive = check is not None and check.exclusive
        instruction = (
            f"Say `run {check.id} on {fold_host_names(hosts)}` to propose it for approval."
            if check and exclusive
            else f"Say `recheck {fold_host_names(hosts)}` and I look."
        )
        return build_answer(
            context,
            [
                *render_unknown_names(context),
                f"No {heat.says} was read of {fold_host_names(hosts) or 'any host'}, so there is nothing to draw.",
                instruction,
            ],
        )
    known_hosts = heat.list_known_hosts()
    unobserved_hosts = [host for host in hosts if host not in set(known_hosts)]
    ages = [at for host in known_hosts if (at := get_read_time(context, host))]
    lines = [
        *render_unknown_names(context),
        f"{clean_text(summarize_heatmap(heat), 300)} · {_format_reading_checks(context, key)} · read {format_age(min(ages, default=None), context.current_time)}; as a picture:",
        f"Not known: {fold_host_names(unobserved_hosts)}." if unobserved_hosts else "",
        render_recheck_offer(context, known_hosts),
    ]
    return build_answer(context, lines, pictures=(AttachedChart(key=key, hosts=tuple(hosts)),))


def _format_reading_checks(context: AnswerContext, key: str) -> str:
    return ", ".join(dict.fromkeys(get_check_name(fact.check) for fact in context.incident.facts if fact.key == key))


def _list_wanted_outputs(context: AnswerContext) -> list[tuple[str, str]]:
    hosts_in_scope = resolve_target_hosts(context)
    if context.message.check:
        return [(host, context.message.check) for host in hosts_in_scope.hosts]
    cited_outputs = [(line.host, line.check) for cause in context.root_causes for line in cause.evidence if line.host]
    if hosts_in_scope.named:
        of_theirs = [pair for pair in cited_outputs if pair[0] in hosts_in_scope.hosts]
        abnormal_pairs = [(fact.host, fact.check) for fact in context.assessment.abnormal_facts if fact.host in hosts_in_scope.hosts]
        return list(dict.fromkeys((*of_theirs, *abnormal_pairs)))[:1]
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


async def _render_output(context: AnswerContext, host: str, check: str, room: int) -> tuple[list[str], list[AttachedOutput]]:
    """Return a head and the relevant lines, and files if lines are cut or files requested."""
    digests = list(
        dict.fromkeys(fact.sha256 for fact in context.incident.facts if (fact.host, fact.check) == (host, check) and fact.sha256)
    )
    texts = _drop_boot_id_texts(
        [(sha, text) for sha in digests[:MAX_COMMANDS] if (text := await context.graph_context.evidence.get_text(sha)) is not None],
        _list_boot_ids(context, host),
    )
    reason = context.assessment.coverage.unobserved.get((host, check), "")
    if not texts:
        return [_render_no_output(context, host, check, reason, kept=not digests)], []
    head = f"{host} · {get_check_name(check)} · read {format_age(get_read_time(context, host, check), context.current_time)}"
    lines = [line for _, text in texts for line in split_lines(text[:MAX_OUTPUT_CHARS]) if line.strip()]
    telling = _select_telling_lines(
        lines,
        [fact.line for fact in context.assessment.abnormal_facts if (fact.host, fact.check) == (host, check)],
        room,
        newest=check in LOG_CHECKS,
    )
    count = f"{len(telling)} of {len(lines)} lines" if len(telling) < len(lines) else f"{len(lines)} line{'s' * (len(lines) != 1)}"
    filed = texts if context.message.form or len(telling) < len(lines) else []
    files = [AttachedOutput(name=_build_file_name(host, check, n), sha256=sha) for n, (sha, _) in enumerate(filed)]
    file_note = "; the full output as a file" if files else ""
    unobserved_lines = [f"A part could not be looked at: {clean_text(reason, 100)}."] if reason else []
    return [f"{head}: {count}{file_note}", *(f"  {clean_text(line)}" for line in telling), *unobserved_lines], files


def _list_boot_ids(context: AnswerContext, host: str) -> set[str]:
    return {
        fact.boot_id or str(fact.value)
        for fact in context.incident.facts
        if fact.host == host and (fact.boot_id or fact.key == "host.boot_id")
    }


def _drop_boot_id_texts(texts: Sequence[tuple[str, str]], boots: Set[str]) -> list[tuple[str, str]]:
    """Drop outputs that are only a boot id, unless nothing else is there."""
    return [(sha, text) for sha, text in texts if text.strip() not in boots] or list(texts)


def _render_no_output(context: AnswerContext, host: str, check: str, reason: str, *, kept: bool) -> str:
    if reason:
        return f"{host} · {get_check_name(check)}: could not look: {clean_text(reason, 100)}. Say `recheck {host}` to try again."
    if (host, check) in context.assessment.coverage.skipped:
        return f"{host} · {get_check_name(check)}: was not run: {clean_text(context.assessment.coverage.skipped[host, check], 120)}."
    if any((fact.host, fact.check) == (host, check) for fact in context.incident.facts):
        at = format_age(get_read_time(context, host, check), context.current_time)
        return f"{host} · {get_check_name(check)} · read {at}: {'it printed nothing' if kept else 'its output is no longer kept'}."
    known_check = context.assessment.reference.checks.get(check)
    instruction = (
        f"Say `run {check} on {host}` to propose it for approval."
        if known_check and known_check.exclusive
        else f"Say `recheck {host}` and I look."
    )
    return f"{host} · {get_check_name(check)}: not looked at. {instruction}"


def _select_telling_lines(lines: Sequence[str], abnormal_lines: Sequence[str], room: int, *, newest: bool) -> list[str]:
    """Return up to `room` lines: abnormal ones with neighbours, then a log's end or a table's start."""
    if len(lines) <= room:
        return list(lines)
    marks = {" ".join(line.split()) for line in abnormal_lines if line}
    at = [n for n, line in enumerate(lines) if " ".join(line.split()) in marks][: room // 2]
    chosen: dict[int, None] = dict.fromkeys(at)
    for n in (neighbour for index in at for neighbour in (index - 1, index + 1)):
        if 0 <= n < len(lines) and len(chosen) < room:
            chosen[n] = None
    for n in reversed(range(len(lines))) if newest else range(len(lines)):
        if len(chosen) >= room:
            break
        chosen[n] = None
    return [lines[n] for n in sorted(chosen)]


def _build_file_name(host: str, check: str, number: int) -> str:
    return f"{host}-{check}{f'-{number + 1}' if number else ''}.txt"
