"""First node of a turn: turn messages into a brief, and uploads into facts.

Texts were redacted when the item was stored (`store_attachments`).
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from langgraph.runtime import Runtime

from graph.context import GraphContext, Progress
from graph.dialogue.guessed import apply_intent_guess, build_intent_choices, needs_model
from graph.dialogue.intents import Intent
from graph.dialogue.said import ALL, OTHERS
from graph.engine.abnormal_facts import is_abnormal
from graph.engine.fact_history import LOG_END_ATTRIBUTE, MACHINE_EVENT_KEY_PREFIXES
from graph.engine.priors import rank_labels_by_words
from graph.extraction.command_hosts import find_group, resolve_hosts_and_groups
from graph.extraction.hosts import find_hosts
from graph.extraction.incident_scope import (
    IncidentScope,
    find_asked_hosts,
    get_job_to_look_up,
    is_host_health_question,
    resolve_scope,
    select_own_facts,
)
from graph.extraction.log_digests import merge_log_digests
from graph.extraction.pasted_text import get_line_head, get_line_writer
from graph.extraction.physical_reports import find_physical_reports
from graph.extraction.reports import ParsedReport, parse_report
from graph.extraction.time_window import parse_time_window
from graph.extraction.uploaded_files import MAX_NAME_CHARS, build_file_read, build_unread_file, is_file
from graph.extraction.uploaded_text import TextExtraction, extract_text
from graph.incident.context import DIAGNOSING_KINDS, MAX_UNNAMED_HOSTS, IncidentContext, TurnState, load_incident_context, merge_facts
from graph.incident.prompt_material import build_material
from graph.incident.scheduled_recheck import get_due_recheck
from graph.model.reasoner import DeclinedAnswer, ReadingChoices, Reasoner, ReportExtraction
from graph.report import FileReadResult
from graph.state import SIDE_KEY, TENANT_SIDE, Attachment, InboxItemKind, IncidentBrief, IncidentState, LogDigest, UnjudgedReport
from graph.ticket_export.received_ticket import parse_ticket_facts
from kb.logs.line_prefixes import split_prefix
from kb.needle_search import split_lines
from kb.pci_address import normalize_bdf
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY
from tools.fact import FROM_FILE, WRITTEN_BY, Fact
from tools.inventory.host_ranges import fold_host_names
from tools.inventory.job_lookup import JobHosts
from tools.process_pool import MIN_SEPARATE_PROCESS_CHARS
from tools.remedies import REMEDIES

MAX_MESSAGES = 8
MAX_MESSAGE_CHARS = 600
MAX_BRIEF_CHARS = 1500
MAX_LOG_CHARS = 100_000
MAX_FILES = 10
MAX_UNJUDGED = 12
MAX_NAMED_HOSTS = 6
MAX_HEAD_CHARS = 60  # characters by which a line is found in the message that quotes it
MAX_SIGNATURES = 12
MAX_UNKNOWN_HOSTS = 12
MAX_TAIL_CHARS = 16_384  # characters at a log's end that are searched for its newest time
MAX_TAIL_LINES = 50  # lines at a log's end that are searched for its newest time
_NUMBER_PATTERN = re.compile(r"[0-9]{1,9}")
_NUMBER_RANGE_PATTERN = re.compile(r"([0-9]{1,9})\s{0,3}(?:-|–|\.{2,3}|to|through|bis)\s{0,3}[a-z]{0,12}-?([0-9]{1,9})")
QUESTION_KINDS: frozenset[InboxItemKind] = frozenset({"status", "why", "ask"})  # items that run no check


async def summarise(state: IncidentState, runtime: Runtime[GraphContext]) -> dict[str, Any]:
    """Read the item of this turn."""
    graph_context = runtime.context
    context = await load_incident_context(state, graph_context)
    turn = TurnState(
        asked=context.turn.asked,
        hosts=context.turn.hosts,
        named=context.turn.named,
        recalled=context.turn.recalled,
        guide=context.turn.guide,
        began=graph_context.clock.now().isoformat(),
    )
    if context.kind == "ask" and graph_context.model and needs_model(context.message):
        context, turn = await _infer_intent(context, turn, graph_context, graph_context.model)
    due_recheck = get_due_recheck(context)
    if due_recheck:
        turn = replace(turn, kind="recheck")
        context = replace(context, turn=replace(context.turn, kind="recheck"))
    if not context.looks_at_hosts and not _has_files(context):
        # An answer keeps the subject and the priors of the turn before.
        turn = replace(turn, priors=context.turn.priors, moves=context.turn.moves, past=context.turn.past)
        turn = _restore_previous_subject(turn, context)
        return {"turn": turn.to_json(), **await _store_side_facts(context, graph_context)}
    if not context.looks_at_hosts:
        turn = replace(turn, kind="reply")
    await graph_context.progress(Progress(context.id, "summarise", "reading the report"))
    uploaded_text, facts, logs, files = await _read_attachments(context, graph_context)
    facts = [*facts, *(mark_uploaded(context, "", fact) for fact in parse_ticket_facts(context.item))]
    turn = replace(turn, files=tuple(file_read.model_dump(mode="json", exclude_defaults=True) for file_read in files))
    parsed_report = _parse_item(context, graph_context)
    job_hosts = await _find_job_hosts(get_job_to_look_up(context.brief, parsed_report), context, graph_context)
    scope = resolve_scope(context.item, context.brief, parsed_report, job_hosts.hosts, scheduled=bool(graph_context.inventory.slurm))
    turn = _apply_named_targets(turn, context, parsed_report, scope)
    turn = replace(turn, why_nowhere=job_hosts.why if scope.unknown_job else "")
    if scope.refused or (context.kind == "recheck" and not turn.about):
        turn = _restore_previous_subject(turn, context)
    if scope.refused and context.report:
        return {"turn": turn.to_json(), "said": _append_message(context), "rounds": 0}
    log_report = await asyncio.to_thread(parse_report, uploaded_text, (), context.item.at) if uploaded_text else None
    brief = _extend_brief(context, parsed_report, scope, log_report or IncidentBrief())
    brief = brief.model_copy(update={"unjudged": _list_unjudged_reports(context, files)})
    turn = replace(turn, hosts=fold_host_names(scope.looked_at) or turn.hosts)
    merged_logs = merge_log_digests(context.logs, logs)
    is_target_unknown = bool(scope.unknown or scope.unknown_job)
    brief, turn = await _apply_model_reading(context, brief, merged_logs, turn, graph_context, is_target_unknown=is_target_unknown)
    await graph_context.progress(Progress(context.id, "summarise", _render_brief(brief)))
    update: dict[str, Any] = {
        "turn": turn.to_json(),
        "brief": brief.model_dump(mode="json"),
        "said": list(context.messages) if due_recheck else _append_message(context),
        "facts": await graph_context.evidence.put_facts(context.id, merge_facts(context.facts, facts)) if facts else context.snapshot,
        "lifecycle": "open",
        "rounds": 0,
        "walk": {},
        "tier": "history",
    }
    if logs:
        update["logs"] = [digest.model_dump(mode="json", exclude_defaults=True) for digest in merged_logs]
    return update


async def _store_side_facts(context: IncidentContext, graph_context: GraphContext) -> dict[str, Any]:
    """Store what a question or request adds: pasted lines and reports that no check can judge."""
    if context.item.kind not in QUESTION_KINDS:
        return {}
    _, facts, logs, files = await _read_attachments(context, graph_context)
    unjudged = _list_unjudged_reports(context, files)
    update: dict[str, Any] = {}
    if unjudged != context.brief.unjudged:
        update["brief"] = context.brief.model_copy(update={"unjudged": unjudged}).model_dump(mode="json")
    if logs:
        update["logs"] = [digest.model_dump(mode="json", exclude_defaults=True) for digest in merge_log_digests(context.logs, logs)]
    if facts:
        update["facts"] = await graph_context.evidence.put_facts(context.id, merge_facts(context.facts, facts))
        update["said"] = _append_message(context)
    return update


def _list_unjudged_reports(context: IncidentContext, files: Sequence[FileReadResult]) -> tuple[UnjudgedReport, ...]:
    """Return the reports that no check can judge, without those that people call fixed.

    The oldest are kept, as they may be about all hosts.
    """
    message, earlier_reports = context.message, context.brief.unjudged
    if message.intent is Intent.FIXED:
        fixed_hosts = set(message.hosts)
        earlier_reports = tuple(report for report in earlier_reports if fixed_hosts and fixed_hosts.isdisjoint(report.hosts))
    texts = find_physical_reports(_get_report_text(context))
    new_reports = [UnjudgedReport(text=text, hosts=_find_named_hosts(text, context)) for text in texts]
    new_reports += [UnjudgedReport(text=file_read.name, file=True) for file_read in files if file_read.unread]
    return tuple(dict.fromkeys((*earlier_reports, *new_reports)))[:MAX_UNJUDGED]


def _find_named_hosts(text: str, context: IncidentContext) -> tuple[str, ...]:
    return find_hosts(text, context.names).hosts or find_hosts(context.item.text, context.names).hosts


async def _infer_intent(
    context: IncidentContext, turn: TurnState, graph_context: GraphContext, model: Reasoner
) -> tuple[IncidentContext, TurnState]:
    """Let the model classify a message that the classifier did not understand."""
    choices = build_intent_choices(
        context.visible, tuple(graph_context.taxonomy.leaves), tuple(graph_context.fleet.checks), tuple(REMEDIES)
    )
    guess = await model.classify_intent(context.id, context.item.text, choices)
    if isinstance(guess, DeclinedAnswer):
        return context, replace(turn, without_model=guess.reason)
    intent_guess = apply_intent_guess(context.message, guess, closed=context.lifecycle == "closed")
    turn = replace(
        turn,
        said=intent_guess.build_item_data()["said"],
        kind="" if intent_guess.kind == context.item.kind else intent_guess.kind,
        asked_model=("intent",),
    )
    item_data = {**context.item.data, **intent_guess.build_item_data()}
    item = context.item.model_copy(update={"kind": intent_guess.kind, "data": item_data})
    stored = cast(IncidentState, {**context.stored, "item": item.model_dump(mode="json")})
    return replace(context, stored=stored, turn=turn), turn


def _has_files(context: IncidentContext) -> bool:
    """Return whether a question comes with files, which makes it news."""
    return context.kind in QUESTION_KINDS and any(map(is_file, context.item.attachments))


def _parse_item(context: IncidentContext, graph_context: GraphContext) -> ParsedReport:
    """Parse the item. The names of a command, or a reply of one word, may be groups."""
    domains = graph_context.inventory.list_domains(context.visible)
    parsed_report = parse_report(
        _get_report_text(context),
        context.names,
        context.item.at,
        domains,
        lenient=not context.is_tenant_incident,
    )
    group = find_group(context.item.text.strip().removeprefix("@"), context.groups)
    host_text = str(context.item.data.get("hosts") or group or "")
    widens_to_all = context.message.intent is Intent.WIDEN and context.message.group in (ALL, OTHERS)
    if widens_to_all and not host_text and len(context.visible) <= MAX_UNNAMED_HOSTS:
        return replace(parsed_report, hosts=context.visible)
    is_strict = context.item.kind != "recheck" and not set(parsed_report.symptoms) - {"vague"}  # “hosts down” names none
    resolved = resolve_hosts_and_groups(host_text, context.names, context.groups, domains, strict=is_strict)
    if not resolved.hosts and not resolved.unknown:
        return parsed_report
    return replace(parsed_report, hosts=resolved.hosts, unknown_hosts=resolved.unknown, read_as={})


def _get_report_text(context: IncidentContext) -> str:
    """Return the text as a report; a message that names a guide to run reports nothing."""
    return "" if context.message.intent is Intent.RUN_GUIDE else context.item.text


async def _read_attachments(
    context: IncidentContext, graph_context: GraphContext
) -> tuple[str, list[Fact], list[LogDigest], list[FileReadResult]]:
    """Return the texts, shortened, with their facts, the digests of long logs and a result for each file."""
    texts: list[str] = []
    facts: list[Fact] = []
    logs: list[LogDigest] = []
    files: list[FileReadResult] = []
    addresses = list_gpu_addresses(context, graph_context)
    for attachment in context.item.attachments:
        text = None if attachment.unread else await graph_context.evidence.get_text(attachment.sha256)
        if text is None:
            files.append(build_unread_file(attachment, attachment.unread or "gone"))
            continue
        extraction = await _parse_attachment(attachment, text, context, graph_context)
        if extraction is None:
            files.append(build_unread_file(attachment, "too_long"))
            continue
        own_facts, left_out = select_own_facts(extraction.pasted, (*context.facts, *facts), addresses)
        if not is_file(attachment):  # a pasted block may be a command, which is not read as a log
            own_facts = tuple(fact for fact in own_facts if fact.key != NOT_UNDERSTOOD_KEY or fact.value)
        own_facts = _add_log_end(own_facts, text, context.item.at)
        message_text = "" if is_file(attachment) else context.item.text
        for fact in own_facts:
            located_fact = fact.locate("", time=context.item.at, sha256=attachment.sha256)
            facts.append(mark_uploaded(context, attachment.name, _add_writing_host(located_fact, message_text, context)))
        if extraction.digest:
            logs.append(extraction.digest)
        texts.append(text[:MAX_LOG_CHARS])
        if is_file(attachment):
            files.append(build_file_read(attachment, own_facts, is_abnormal, left_out, recognised=extraction.pasted.recognised))
    return "\n".join(texts), facts, logs, files[:MAX_FILES]


def _add_writing_host(fact: Fact, message_text: str, context: IncidentContext) -> Fact:
    """Add the host that wrote the line, if the line's prefix names it. Other hosts in the line do not count.

    `message_text` is the message in which the line was pasted; it may have more of the prefix.
    """
    line = fact.line.strip()
    if not line:
        return fact
    matching_line = next((text_line for text_line in split_lines(message_text) if line[:MAX_HEAD_CHARS] in text_line), line)
    writing_hosts = find_hosts(get_line_head(matching_line), context.names).hosts
    name = "" if writing_hosts else get_line_writer(matching_line)
    if len(writing_hosts) == 1:
        name = writing_hosts[0]
    return replace(fact, attrs={**fact.attrs, WRITTEN_BY: name}) if name else fact


def _add_log_end(facts: Sequence[Fact], text: str, at: datetime) -> tuple[Fact, ...]:
    """Add a log's newest time to its events if the log goes on after the report."""
    times = [split_prefix(line, at).time for line in split_lines(text[-MAX_TAIL_CHARS:])[-MAX_TAIL_LINES:]]
    newest = max((time for time in times if time and time.tzinfo), default=at)
    if newest <= at:
        return tuple(facts)
    log_end = {LOG_END_ATTRIBUTE: newest.isoformat()}
    return tuple(
        replace(fact, attrs={**fact.attrs, **log_end}) if fact.key.startswith(MACHINE_EVENT_KEY_PREFIXES) else fact for fact in facts
    )


def mark_uploaded(context: IncidentContext, name: str, fact: Fact) -> Fact:
    """Mark an uploaded fact as a tenant's or an operator's. A source that the text itself claims is dropped."""
    origin = context.origin
    is_first_item = not context.done_items
    is_from_tenant_channel = origin is not None and (origin.customer is not None or bool(origin.ticket))
    is_tenant_upload = (is_first_item and is_from_tenant_channel) or context.item.data.get(SIDE_KEY) == TENANT_SIDE
    attrs = {key: value for key, value in fact.attrs.items() if key != FROM_FILE}
    source = {FROM_FILE: {"path": name[:MAX_NAME_CHARS], "by": TENANT_SIDE}} if is_tenant_upload else {}
    return replace(fact, attrs={**attrs, **source}) if source or FROM_FILE in fact.attrs else fact


def list_gpu_addresses(context: IncidentContext, graph_context: GraphContext) -> frozenset[str]:
    """Return every possible GPU address of the visible hosts; none if a host has no SKU."""
    skus = [graph_context.skus.get(graph_context.inventory.hosts[host].sku) for host in context.visible]
    if not skus or not all(skus):
        return frozenset()
    sku_addresses = [address for sku in skus if sku for address in sku.bus]
    listed_addresses = [str(fact.value) for fact in context.facts if fact.key == "gpu.bdf" and fact.value]
    return frozenset(filter(None, map(normalize_bdf, (*sku_addresses, *listed_addresses))))


async def _parse_attachment(
    attachment: Attachment, text: str, context: IncidentContext, graph_context: GraphContext
) -> TextExtraction | None:
    """Parse a text outside of the event loop; a long one in a process of its own."""
    at = context.item.at
    if graph_context.reader is not None and len(text) >= MIN_SEPARATE_PROCESS_CHARS:
        return await graph_context.reader(attachment.name, attachment.sha256, text, at)
    return await asyncio.to_thread(extract_text, attachment.name, attachment.sha256, text, at, graph_context.fleet.checks)


def _apply_named_targets(turn: TurnState, context: IncidentContext, report: ParsedReport, scope: IncidentScope) -> TurnState:
    """Set the hosts and the job that the item names, and whether it asks how the hosts are."""
    text = context.item.text
    return replace(
        turn,
        about=fold_host_names(scope.looked_at or find_asked_hosts(text, report)),
        question=(bool(scope.looked_at) and context.item.kind != "mention") or is_host_health_question(text),
        only=bool(scope.looked_at),
        unknown=scope.unknown,
        read_as=report.read_as,
        unknown_job=scope.unknown_job,
        refused=scope.refused,
    )


def _restore_previous_subject(turn: TurnState, context: IncidentContext) -> TurnState:
    """Restore the earlier subject, unless the last turn was limited to a few hosts."""
    return turn if context.turn.only else replace(turn, about=context.turn.about, question=context.turn.question)


def _extend_brief(
    context: IncidentContext, report: ParsedReport, scope: IncidentScope, logs: ParsedReport | IncidentBrief
) -> IncidentBrief:
    """Add the report to the brief. Hosts that a log names do not count, as most of them are healthy."""
    brief = context.brief
    return IncidentBrief(
        text="\n".join(filter(None, (brief.text, _get_report_text(context))))[-MAX_BRIEF_CHARS:],
        symptoms=_drop_vague(_merge_unique(brief.symptoms, report.symptoms, logs.symptoms)),
        signatures=_merge_unique(brief.signatures, report.signatures, logs.signatures)[:MAX_SIGNATURES],
        hosts=tuple(host for host in scope.hosts if host in context.visible),
        unknown_hosts=scope.unknown[:MAX_UNKNOWN_HOSTS],
        job=scope.job,
        since=brief.since or report.since,
        until=report.until or brief.until,
    )


async def _query_job_hosts(job: str, context: IncidentContext, graph_context: GraphContext) -> JobHosts:
    """Ask for a job's hosts. Another tenant's job takes as long as a missing one, so that timing reveals nothing."""
    if graph_context.own_job is None or not (context.origin and context.origin.tenant):
        return await graph_context.job_place(job)
    return await graph_context.own_job(job, lambda hosts: bool(find_hosts(" ".join(hosts), context.visible).hosts))


async def _find_job_hosts(job: str, context: IncidentContext, graph_context: GraphContext) -> JobHosts:
    if not job:
        return JobHosts()
    job_hosts = await _query_job_hosts(job, context, graph_context)
    visible_hosts = find_hosts(" ".join(job_hosts.hosts), context.visible).hosts
    return JobHosts(visible_hosts, "other_hosts" if job_hosts.hosts and not visible_hosts else job_hosts.why)


def _merge_unique(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for part in parts for value in part))


def _drop_vague(symptoms: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(symptom for symptom in symptoms if symptom != "vague") or symptoms


async def _apply_model_reading(
    context: IncidentContext,
    brief: IncidentBrief,
    logs: Sequence[LogDigest],
    turn: TurnState,
    graph_context: GraphContext,
    *,
    is_target_unknown: bool,
) -> tuple[IncidentBrief, TurnState]:
    """Let the model find the hosts of a report that names none, where none is looked at unasked. Its causes only order the checks."""
    if graph_context.model is None:
        return brief, replace(turn, without_model="no model is configured")
    finds_hosts = is_target_unknown or len(context.visible) > MAX_UNNAMED_HOSTS
    if not context.item.text.strip() or brief.hosts or not finds_hosts:
        return brief, turn
    material = await build_material(brief, logs, context, graph_context)
    labels = rank_labels_by_words(graph_context.taxonomy, brief, len(graph_context.taxonomy.leaves))
    titles = {label: graph_context.taxonomy.get_title(label) for label in dict.fromkeys((*labels, *graph_context.taxonomy.leaves))}
    answer = await graph_context.model.extract_report(context.id, material, ReadingChoices(context.visible, titles))
    if isinstance(answer, DeclinedAnswer):
        return brief, replace(turn, without_model=answer.reason)
    turn = replace(turn, asked_model=(*turn.asked_model, "read"), reading=dict(answer.causes))
    brief = _merge_model_reading(brief, answer, context)
    if brief.hosts and turn.unknown:
        turn, brief = replace(turn, unknown=()), brief.model_copy(update={"unknown_hosts": ()})
    return brief, turn


def _merge_model_reading(brief: IncidentBrief, extraction: ReportExtraction, context: IncidentContext) -> IncidentBrief:
    since, until = None, None
    if extraction.times and not brief.since:
        since, until = parse_time_window("; ".join(extraction.times), context.item.at)
    hosts = tuple(host for host in extraction.hosts if host in context.visible and names_host(context.item.text, host))
    return brief.model_copy(
        update={
            "symptoms": _drop_vague(_merge_unique(brief.symptoms, extraction.symptoms)),
            "hosts": hosts,
            "job": brief.job or extraction.job,
            "signatures": _merge_unique(brief.signatures, extraction.signatures)[:MAX_SIGNATURES],
            "since": brief.since or since,
            "until": brief.until or until,
        }
    )


def names_host(text: str, host: str) -> bool:
    """Return whether a text has the host's name, or its last number alone or within a range.

    It verifies what a model takes a name for: a number that nobody wrote names no host.
    """
    text = text[:MAX_BRIEF_CHARS].lower()
    numbers = _NUMBER_PATTERN.findall(host)
    if host.lower() in text or not numbers:
        return host.lower() in text
    wanted = int(numbers[-1])
    if any(int(number) == wanted for number in _NUMBER_PATTERN.findall(text)):
        return True
    return any(int(first) <= wanted <= int(last) for first, last in _NUMBER_RANGE_PATTERN.findall(text))


def _append_message(context: IncidentContext) -> list[Mapping[str, Any]]:
    item = context.item
    message = {
        "user": item.user,
        "text": item.text[:MAX_MESSAGE_CHARS],
        "at": item.at.isoformat(),
        "attachments": [attachment.model_dump(mode="json", exclude_defaults=True, exclude={"size"}) for attachment in item.attachments],
    }
    messages = [*context.messages, message]
    return messages if len(messages) <= MAX_MESSAGES else [messages[0], *messages[-(MAX_MESSAGES - 1) :]]


def _render_brief(brief: IncidentBrief) -> str:
    hosts = "no host known" if brief.unknown_hosts else "no host named"
    if brief.hosts:
        hosts = f"hosts {', '.join(brief.hosts[:MAX_NAMED_HOSTS])}"
    job = f"job {brief.job}" if brief.job else ""
    symptoms = f"symptoms {', '.join(brief.symptoms)}" if brief.symptoms else ""
    return "; ".join(filter(None, (hosts, job, symptoms)))


def route_after_summarise(state: IncidentState) -> str:
    """Go on to `conclude` for questions and for unknown names, and to `plan` for everything else."""
    turn = state.get("turn", {})
    is_refused = turn.get("refused") and state.get("report")
    return "plan" if (turn.get("kind") or state["item"]["kind"]) in DIAGNOSING_KINDS and not is_refused else "conclude"
