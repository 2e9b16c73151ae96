"""Show what is stored on request: check output, charts, files and pasted lines. Bounded and redacted."""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

from graph.dialogue.intents import Intent
from graph.extraction.uploaded_files import UNREAD_REASONS
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    format_age,
    get_check_name,
    get_read_time,
    render_citation,
    render_counter_evidence,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.unproven import format_uploaded_fact
from graph.incident.turn_result import TurnResult
from graph.report import AttachedChart, AttachedOutput
from graph.report_charts import DEFAULT_METRIC, find_metric, iter_deciding_gpu_keys
from graph.search_trace import SearchBranch, build_search_tree, summarize_search_tree
from graph.state import Attachment
from graph.timeline import build_timeline
from kb.needle_search import split_lines
from tools.bandwidth import Bandwidths, bandwidths, format_size, summarize_bandwidths
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY
from tools.fact import Fact, Status, Value
from tools.heatmap import Heatmap, summarize_heatmap
from tools.inventory.host_ranges import fold_host_names

# Answers about files and pasted lines; a name like a check's makes them no host output.

MAX_FILES = 6
MAX_LINES_PER_FILE = 4
MAX_CHARS = 400
# intents that a question about a file may have been parsed as
MAY_ASK: Final = frozenset({
    Intent.SHOW_OUTPUT, Intent.EXPLAIN, Intent.WHY_NOT, Intent.HOST_STATE, Intent.GROUP_STATE, Intent.CHANGED_SINCE, Intent.HAPPENED_BEFORE,
    Intent.STATUS, Intent.META, Intent.NOT_UNDERSTOOD,
})  # fmt: skip
_ANY: Final = re.compile(
    r"\b(?:attach(?:ed|ments?)|uploads?|uploaded|pasted|(?:files?|logs?|lines?|blocks?) (?:that |which )?(?:i|we|he|she|they) (?:sent|gave|posted|added)|"
    r"(?:my|our) (?:files?|paste))\b",
    re.IGNORECASE,
)


def find_named_attachments(context: AnswerContext) -> tuple[Attachment, ...]:
    """Return the files that a question names, or all if it asks about uploads."""
    if context.case.kind not in ("ask", "why", "status") or context.message.intent not in MAY_ASK:
        return ()
    text = context.message.text[:MAX_CHARS]
    attachments = list_attachments(context)
    named_attachments = tuple(row for row in attachments if re.search(rf"(?<![\w.-]){re.escape(row.name)}(?![\w-])", text, re.IGNORECASE))
    return named_attachments or (attachments if _ANY.search(text) else ())


def list_attachments(context: AnswerContext) -> tuple[Attachment, ...]:
    """Return all attachments so far, each text once, latest first."""
    rows = [Attachment.model_validate(row) for message in context.case.messages for row in message.get("attachments", ())]
    return tuple({(row.name, row.sha256): row for row in reversed(rows)}.values())


async def show_attached(context: AnswerContext, files: Sequence[Attachment]) -> TurnResult:
    """Answer with the findings of each file, or why it was not read."""
    lines = [line for row in files[:MAX_FILES] for line in _render_attachment(context, row)]
    more = [f"… and {len(files) - MAX_FILES} more; ask for one by its name."] if len(files) > MAX_FILES else []
    return build_answer(context, [*lines, *more], most=MAX_FILES * (MAX_LINES_PER_FILE + 2))


def _render_attachment(context: AnswerContext, row: Attachment) -> list[str]:
    head = f"{clean_text(row.name, 80)} (handed in)"
    if row.unread:
        return [f"{head}: not read, {UNREAD_REASONS[row.unread]}."]
    own = [fact for fact in context.case.facts if not fact.host and fact.sha256 == row.sha256 and fact.status is Status.OK]
    file_facts = [fact for fact in context.now.uploaded_facts if fact.sha256 == row.sha256]
    unknown = [fact for fact in own if fact.key in (NOT_UNDERSTOOD_KEY, "check.foreign")]
    lines = [f"  {clean_text(fact.line or format_uploaded_fact(fact, context.case))}" for fact in file_facts[:MAX_LINES_PER_FILE]]
    lines += [f"  not understood: {clean_text(line)}" for fact in unknown for line in _get_lines(fact)][: MAX_LINES_PER_FILE - len(lines)]
    if not own:
        return [f"{head}: nothing of it is kept; attach it again."]
    kinds = len({(fact.key, repr(fact.value)) for fact in file_facts})
    findings = f"{kinds} kind{'s' * (kinds != 1)} of trouble" if file_facts else "no trouble that I know"
    rest = f"; {sum(fact.value for fact in unknown if isinstance(fact.value, int))} lines not understood" if unknown else ""
    remainder = f"; {len(file_facts) - MAX_LINES_PER_FILE} more" if len(file_facts) > MAX_LINES_PER_FILE else ""
    return [f"{head}: {findings}{remainder}{rest}.", *lines]


def _get_lines(fact: Fact) -> Sequence[str]:
    return fact.attrs.get("lines") or (fact.line,)


# Charts on request: timeline, search tree, bandwidth by message size; each with its rows as text.

MAX_LATEST_EVENTS = 5
MAX_RULED_OUT = 6
CHART_INTRO: Final = "As a picture and as text:"


async def show_chart(context: AnswerContext) -> TurnResult:
    """Answer with the chart named, else the search tree."""
    return HANDLERS_BY_CHART.get(context.message.picture, _answer_search_tree)(context)


def _answer_timeline(context: AnswerContext) -> TurnResult:
    """Answer with the last events; approvals, known to the ledger, are on the chart only."""
    events = build_timeline(context.case).events
    last = [
        f"{row.at:%H:%M:%S} {row.kind}: {clean_text(row.says, 120)}{_render_event_basis(context, row.says)}"
        for row in events
        if row.kind not in ("logged", "said")
    ][-MAX_LATEST_EVENTS:]
    if not events:
        return build_answer(context, ["No moment of this incident is known yet, so there is nothing to draw."])
    head = f"{len(events)} moments since {events[0].at:%Y-%m-%d %H:%M} UTC. {CHART_INTRO}"
    return build_answer(context, [head, *last], pictures=(AttachedChart(kind="timeline"),))


def _render_event_basis(context: AnswerContext, says: str) -> str:
    return next((render_citation(row) for row in context.root_causes if context.get_title(row.label) in says), "")


def _render_counter_evidence(context: AnswerContext, branch: SearchBranch) -> str:
    return render_counter_evidence(context, branch.path) if branch.path in context.now.label_verdicts else clean_text(branch.reason, 60)


def _answer_search_tree(context: AnswerContext) -> TurnResult:
    tree = build_search_tree(context.case, context.now.reference.taxonomy.titles)
    if not (context.case.search_steps or context.case.report):
        return build_answer(context, ["I have looked into nothing yet, so nothing is ruled out."])
    out = [f"{branch.title} ({_render_counter_evidence(context, branch)})" for branch in tree.find_leaves("ruled out")]
    unobserved_titles = [branch.title for branch in tree.find_leaves("could not look")]
    lines = [
        f"{summarize_search_tree(tree)} {CHART_INTRO}",
        *(f"{context.get_title(row.label)}{render_citation(row)}." for row in context.root_causes[:3]),
        f"Ruled out: {_join_titles(out)}." if out else "Nothing of what I went into is ruled out.",
        f"Could not look: {_join_titles(unobserved_titles)}." if unobserved_titles else "",
    ]
    return build_answer(context, lines, pictures=(AttachedChart(kind="walk"),))


def _join_titles(titles: list[str]) -> str:
    rest = len(titles) - MAX_RULED_OUT
    return ", ".join(titles[:MAX_RULED_OUT]) + (f" and {rest} more" if rest > 0 else "")


def answer_bandwidth(context: AnswerContext) -> TurnResult:
    """Answer with the hosts' bandwidth by message size."""
    target_hosts = resolve_target_hosts(context)
    hosts = target_hosts.hosts if target_hosts.named else context.case.visible
    measurements = measured(context, hosts)
    if not measurements.curves:
        instruction = f"Say `run nccl1 on {fold_host_names(hosts[:1])}` to propose the test for approval." if hosts else ""
        return build_answer(
            context,
            [
                *render_unknown_names(context),
                f"No bandwidth by message size was measured on {fold_host_names(hosts) or 'any host'}.",
                instruction,
            ],
        )
    span = f"{format_size(measurements.sizes[0])} to {format_size(measurements.sizes[-1])}"
    lines = [
        *render_unknown_names(context),
        f"{clean_text(summarize_bandwidths(measurements), 400)} · {_format_bandwidth_checks(context)} · messages of {span}. {CHART_INTRO}",
        render_recheck_offer(context, [row.host for row in measurements.curves]),
    ]
    return build_answer(context, lines, pictures=(AttachedChart(kind="bandwidth", hosts=tuple(hosts) if target_hosts.named else ()),))


def _format_bandwidth_checks(context: AnswerContext) -> str:
    facts = [fact for fact in context.case.facts if fact.key.startswith("nccl.") and fact.check]
    latest = max((fact.time for fact in facts if fact.time), default=None)
    return f"{', '.join(dict.fromkeys(get_check_name(fact.check) for fact in facts))} · read {format_age(latest, context.current_time)}"


def measured(context: AnswerContext, hosts: tuple[str, ...]) -> Bandwidths:
    """Return the known curves; hosts not named are not reported missing."""

    def expected(host: str) -> Value:
        return context.now.reference.expected(host, "nccl.busbw_max", None) if host else None

    measured_bandwidths = bandwidths(hosts, context.case.facts, expected)
    return measured_bandwidths if context.message.hosts else Bandwidths(measured_bandwidths.curves)


HANDLERS_BY_CHART: Final[Mapping[str, Callable[[AnswerContext], TurnResult]]] = {
    "timeline": _answer_timeline,
    "walk": _answer_search_tree,
    "bandwidth": answer_bandwidth,
}


# Show stored check output, bounded and redacted; reads only the evidence store.

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
        more, own = await _render_output(context, host, check, room=MAX_LINES if len(pairs) == 1 else MAX_LINES // 2)
        lines, files = [*lines, *more], [*files, *own]
    remaining_hosts = [host for host, _ in pairs[MAX_HOSTS:]]
    lines += [f"The same for {fold_host_names(remaining_hosts)}: ask for one host at a time."] if remaining_hosts else []
    lines += (
        ["A picture would not show more, so here is a file. I draw numbers of GPUs, such as temperatures."]
        if context.message.form == "picture" and files
        else []
    )
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
    heat.add_facts(context.case.facts)
    if heat.compute_spread() is None and key == "nccl.pair_busbw" and measured(context, tuple(hosts)).curves:
        return answer_bandwidth(context)  # measured by message size, not per pair
    if heat.compute_spread() is None:
        check = next((row for row in context.now.reference.checks.values() if key in row.establishes), None)
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
    return ", ".join(dict.fromkeys(get_check_name(fact.check) for fact in context.case.facts if fact.key == key))


def _list_wanted_outputs(context: AnswerContext) -> list[tuple[str, str]]:
    hosts_in_scope = resolve_target_hosts(context)
    if context.message.check:
        return [(host, context.message.check) for host in hosts_in_scope.hosts]
    cited_outputs = [(line.host, line.check) for row in context.root_causes for line in row.evidence if line.host]
    if hosts_in_scope.named:
        of_theirs = [pair for pair in cited_outputs if pair[0] in hosts_in_scope.hosts]
        odd = [(fact.host, fact.check) for fact in context.now.abnormal_facts if fact.host in hosts_in_scope.hosts]
        return list(dict.fromkeys((*of_theirs, *odd)))[:1]
    return list(dict.fromkeys(cited_outputs))[:1]


def _ask_which_output(context: AnswerContext) -> str:
    if context.message.unknown_hosts:
        return "I can show no output of those."
    observed_checks = sorted({fact.check for fact in context.case.facts if fact.host and fact.sha256})
    names = ", ".join(get_check_name(check) for check in observed_checks[:12])
    return (
        f"Which output do you want? I have {names}. For example “show kernel log of {context.observed_hosts[0]}”."
        if observed_checks
        else "I have looked at nothing yet."
    )


async def _render_output(context: AnswerContext, host: str, check: str, room: int) -> tuple[list[str], list[AttachedOutput]]:
    """Return a head and the relevant lines, and files if lines are cut or files requested."""
    digests = list(dict.fromkeys(fact.sha256 for fact in context.case.facts if (fact.host, fact.check) == (host, check) and fact.sha256))
    texts = _drop_boot_id_texts(
        [(sha, text) for sha in digests[:MAX_COMMANDS] if (text := await context.ports.evidence.get_text(sha)) is not None],
        _list_boot_ids(context, host),
    )
    reason = context.now.coverage.unobserved.get((host, check), "")
    if not texts:
        return [_render_no_output(context, host, check, reason, kept=not digests)], []
    head = f"{host} · {get_check_name(check)} · read {format_age(get_read_time(context, host, check), context.current_time)}"
    lines = [line for _, text in texts for line in split_lines(text[:MAX_OUTPUT_CHARS]) if line.strip()]
    telling = _select_telling_lines(
        lines,
        [fact.line for fact in context.now.abnormal_facts if (fact.host, fact.check) == (host, check)],
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
        fact.boot_id or str(fact.value) for fact in context.case.facts if fact.host == host and (fact.boot_id or fact.key == "host.boot_id")
    }


def _drop_boot_id_texts(texts: Sequence[tuple[str, str]], boots: Set[str]) -> list[tuple[str, str]]:
    """Drop outputs that are only a boot id, unless nothing else is there."""
    return [(sha, text) for sha, text in texts if text.strip() not in boots] or list(texts)


def _render_no_output(context: AnswerContext, host: str, check: str, why: str, *, kept: bool) -> str:
    if why:
        return f"{host} · {get_check_name(check)}: could not look: {clean_text(why, 100)}. Say `recheck {host}` to try again."
    if (host, check) in context.now.coverage.skipped:
        return f"{host} · {get_check_name(check)}: was not run: {clean_text(context.now.coverage.skipped[host, check], 120)}."
    if any((fact.host, fact.check) == (host, check) for fact in context.case.facts):
        at = format_age(get_read_time(context, host, check), context.current_time)
        return f"{host} · {get_check_name(check)} · read {at}: {'it printed nothing' if kept else 'its output is no longer kept'}."
    row = context.now.reference.checks.get(check)
    instruction = (
        f"Say `run {check} on {host}` to propose it for approval." if row and row.exclusive else f"Say `recheck {host}` and I look."
    )
    return f"{host} · {get_check_name(check)}: not looked at. {instruction}"


def _select_telling_lines(lines: Sequence[str], odd: Sequence[str], room: int, *, newest: bool) -> list[str]:
    """Return up to `room` lines: abnormal ones with neighbours, then a log's end or a table's start."""
    if len(lines) <= room:
        return list(lines)
    marks = {" ".join(line.split()) for line in odd if line}
    at = [n for n, line in enumerate(lines) if " ".join(line.split()) in marks][: room // 2]
    chosen: dict[int, None] = dict.fromkeys(at)
    for n in (neighbour for one in at for neighbour in (one - 1, one + 1)):
        if 0 <= n < len(lines) and len(chosen) < room:
            chosen[n] = None
    for n in reversed(range(len(lines))) if newest else range(len(lines)):
        if len(chosen) >= room:
            break
        chosen[n] = None
    return [lines[n] for n in sorted(chosen)]


def _build_file_name(host: str, check: str, number: int) -> str:
    return f"{host}-{check}{f'-{number + 1}' if number else ''}.txt"
