"""First node: turn messages into a brief and uploads into facts. Items are redacted before (`store_attachments`)."""

import asyncio
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
from graph.engine.priors import rank_decidable_labels
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
from graph.incident.prompt_material import MAX_OFFERED_LABELS, build_material
from graph.incident.scheduled_recheck import get_due_recheck
from graph.model.reasoner import DeclinedAnswer, Reasoner, ReportExtraction
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
LONGEST_HEAD = 60  # characters by which a line is found in the message that quotes it
# characters and lines at the end of a log searched for its newest time
MAX_TAIL_CHARS = 16_384
MAX_TAIL_LINES = 50
QUESTION_KINDS: frozenset[InboxItemKind] = frozenset({"status", "why", "ask"})  # items answered from what is known


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
        unchanged_turn = _restore_previous_subject(
            replace(turn, priors=context.turn.priors, moves=context.turn.moves, past=context.turn.past), context
        )  # an answer keeps the subject and priors of before
        return {"turn": unchanged_turn.to_json(), **await _store_side_facts(context, graph_context)}
    turn = turn if context.looks_at_hosts else replace(turn, kind="reply")
    await graph_context.progress(Progress(context.id, "summarise", "reading the report"))
    pasted, facts, logs, files = await _read_attachments(context, graph_context)
    facts = [*facts, *(mark_uploaded(context, "", fact) for fact in parse_ticket_facts(context.item))]
    turn = replace(turn, files=tuple(file_read.model_dump(mode="json", exclude_defaults=True) for file_read in files))
    parsed_report = _parse_item(context, graph_context)
    place = await _find_job_hosts(get_job_to_look_up(context.brief, parsed_report), context, graph_context)
    scope = resolve_scope(context.item, context.brief, parsed_report, place.hosts, scheduled=bool(graph_context.inventory.slurm))
    turn = replace(_apply_named_targets(turn, context, parsed_report, scope), why_nowhere=place.why if scope.unknown_job else "")
    if scope.refused or (context.kind == "recheck" and not turn.about):
        turn = _restore_previous_subject(turn, context)
    if scope.refused and context.report:
        return {"turn": turn.to_json(), "said": _append_message(context), "rounds": 0}
    logs_say = await asyncio.to_thread(parse_report, pasted, (), context.item.at) if pasted else None
    brief = _extend_brief(context, parsed_report, scope, logs_say or IncidentBrief())
    brief = brief.model_copy(update={"unjudged": _list_unjudged_reports(context, files)})
    turn = replace(turn, hosts=fold_host_names(scope.looked_at) or turn.hosts)
    merged_logs = merge_log_digests(context.logs, logs)
    is_target_unknown = bool(scope.unknown or scope.unknown_job)
    brief, turn = await _apply_model_reading(context, brief, merged_logs, turn, graph_context, lost=is_target_unknown)
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
    _, facts, logs, files = await _read_attachments(context, graph_context) if context.item.attachments else ("", [], [], [])
    unjudged = _list_unjudged_reports(context, files)
    stored_facts: dict[str, Any] = {}
    if unjudged != context.brief.unjudged:
        stored_facts["brief"] = context.brief.model_copy(update={"unjudged": unjudged}).model_dump(mode="json")
    if logs:
        stored_facts["logs"] = [digest.model_dump(mode="json", exclude_defaults=True) for digest in merge_log_digests(context.logs, logs)]
    if facts:
        stored_facts |= {
            "facts": await graph_context.evidence.put_facts(context.id, merge_facts(context.facts, facts)),
            "said": _append_message(context),
        }
    return stored_facts


def _list_unjudged_reports(context: IncidentContext, files: Sequence[FileReadResult]) -> tuple[UnjudgedReport, ...]:
    """Return reports that no check can judge, minus fixed ones; the oldest stay, as they may cover all hosts."""
    message, old = context.message, context.brief.unjudged
    if message.intent is Intent.FIXED:
        cleared_hosts = set(message.hosts)
        old = tuple(report for report in old if cleared_hosts and not set(report.hosts) & cleared_hosts)
    new_reports = [
        UnjudgedReport(text=text, hosts=_find_named_hosts(text, context)) for text in find_physical_reports(_get_report_text(context))
    ]
    new_reports += [UnjudgedReport(text=file_read.name, file=True) for file_read in files if file_read.unread]
    return tuple(dict.fromkeys((*old, *new_reports)))[:MAX_UNJUDGED]


def _find_named_hosts(text: str, context: IncidentContext) -> tuple[str, ...]:
    return find_hosts(text, context.names).hosts or find_hosts(context.item.text, context.names).hosts


async def _infer_intent(
    context: IncidentContext, turn: TurnState, graph_context: GraphContext, model: Reasoner
) -> tuple[IncidentContext, TurnState]:
    """Let a model classify a message that the rules did not understand."""
    offered = build_intent_choices(
        context.visible, tuple(graph_context.taxonomy.leaves), tuple(graph_context.fleet.checks), tuple(REMEDIES)
    )
    guess = await model.classify_intent(context.id, context.item.text, offered)
    if isinstance(guess, DeclinedAnswer):
        return context, replace(turn, without_model=guess.reason)
    intent_guess = apply_intent_guess(context.message, guess, closed=context.lifecycle == "closed")
    turn = replace(
        turn,
        said=intent_guess.build_item_data()["said"],
        kind="" if intent_guess.kind == context.item.kind else intent_guess.kind,
        asked_model=("intent",),
    )
    item = context.item.model_copy(update={"kind": intent_guess.kind, "data": {**context.item.data, **intent_guess.build_item_data()}})
    return replace(context, stored=cast(IncidentState, {**context.stored, "item": item.model_dump(mode="json")}), turn=turn), turn


def _has_files(context: IncidentContext) -> bool:
    """Return whether a question comes with files; then it is read as news."""
    return context.kind in QUESTION_KINDS and any(map(is_file, context.item.attachments))


def _parse_item(context: IncidentContext, graph_context: GraphContext) -> ParsedReport:
    """Parse the item. A command's names, or a one-word reply, may be groups."""
    domains = graph_context.inventory.list_domains(context.visible)
    parsed_report = parse_report(
        _get_report_text(context),
        context.names,
        context.item.at,
        domains,
        lenient=not context.is_tenant_incident,
    )
    host_text = str(context.item.data.get("hosts") or find_group(context.item.text.strip().removeprefix("@"), context.groups) or "")
    if (
        context.message.intent is Intent.WIDEN
        and context.message.group in (ALL, OTHERS)
        and not host_text
        and len(context.visible) <= MAX_UNNAMED_HOSTS
    ):
        return replace(parsed_report, hosts=context.visible)
    exact = context.item.kind != "recheck" and not set(parsed_report.symptoms) - {"vague"}  # “hosts down” names none
    resolved = resolve_hosts_and_groups(host_text, context.names, context.groups, domains, strict=exact)
    return (
        replace(parsed_report, hosts=resolved.hosts, unknown_hosts=resolved.unknown, read_as={})
        if resolved.hosts or resolved.unknown
        else parsed_report
    )


def _get_report_text(context: IncidentContext) -> str:
    """Return the reported text; naming a guide reports nothing."""
    return "" if context.message.intent is Intent.RUN_GUIDE else context.item.text


async def _read_attachments(
    context: IncidentContext, graph_context: GraphContext
) -> tuple[str, list[Fact], list[LogDigest], list[FileReadResult]]:
    """Return the texts (cut), facts, digests of long logs, and file results. Parsing runs off the event loop."""
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
        read = await _parse_attachment(attachment, text, context, graph_context)
        if read is None:
            files.append(build_unread_file(attachment, "too_long"))
            continue
        own_facts, left_out = select_own_facts(read.pasted, (*context.facts, *facts), addresses)
        if not is_file(attachment):  # a pasted block may be a command, which is not read as a log
            own_facts = tuple(fact for fact in own_facts if fact.key != NOT_UNDERSTOOD_KEY or fact.value)
        own_facts = _add_log_end(own_facts, text, context.item.at)
        message_text = "" if is_file(attachment) else context.item.text
        facts += [
            mark_uploaded(
                context,
                attachment.name,
                _add_writing_host(fact.locate("", time=context.item.at, sha256=attachment.sha256), message_text, context),
            )
            for fact in own_facts
        ]
        if read.digest:
            logs.append(read.digest)
        texts.append(text[:MAX_LOG_CHARS])
        if is_file(attachment):
            files.append(build_file_read(attachment, own_facts, is_abnormal, left_out, recognised=read.pasted.recognised))
    return "\n".join(texts), facts, logs, files[:MAX_FILES]


def _add_writing_host(fact: Fact, message_text: str, context: IncidentContext) -> Fact:
    """Add the host that wrote the line, if the line or the text before it says so; other hosts in it do not count.

    `message_text`: the message in which it was pasted.
    """
    line = fact.line.strip()
    if not line:
        return fact
    matching_line = next((text_line for text_line in split_lines(message_text) if line[:LONGEST_HEAD] in text_line), line)
    writing_hosts = find_hosts(get_line_head(matching_line), context.names).hosts
    name = "" if writing_hosts else get_line_writer(matching_line)
    if len(writing_hosts) == 1:
        name = writing_hosts[0]
    return replace(fact, attrs={**fact.attrs, WRITTEN_BY: name}) if name else fact


def _add_log_end(facts: Sequence[Fact], text: str, at: datetime) -> tuple[Fact, ...]:
    """Add the newest time of a log that runs past the report to its events."""
    times = [moment for line in split_lines(text[-MAX_TAIL_CHARS:])[-MAX_TAIL_LINES:] if (moment := split_prefix(line, at).time)]
    newest = max((moment for moment in times if moment.tzinfo), default=at)
    if newest <= at:
        return tuple(facts)
    end = {LOG_END_ATTRIBUTE: newest.isoformat()}
    return tuple(replace(fact, attrs={**fact.attrs, **end}) if fact.key.startswith(MACHINE_EVENT_KEY_PREFIXES) else fact for fact in facts)


def mark_uploaded(context: IncidentContext, name: str, fact: Fact) -> Fact:
    """Mark an uploaded fact with its source, tenant or operator; a source in the text itself is ignored."""
    origin = context.origin
    opens = not context.done_items and origin is not None and (origin.customer is not None or bool(origin.ticket))
    is_tenant_upload = opens or context.item.data.get(SIDE_KEY) == TENANT_SIDE
    attrs = {key: value for key, value in fact.attrs.items() if key != FROM_FILE}
    source = {FROM_FILE: {"path": name[:MAX_NAME_CHARS], "by": TENANT_SIDE}} if is_tenant_upload else {}
    return replace(fact, attrs={**attrs, **source}) if source or FROM_FILE in fact.attrs else fact


def list_gpu_addresses(context: IncidentContext, graph_context: GraphContext) -> frozenset[str]:
    """Return every possible GPU address of the visible hosts; none if one has no profile."""
    tables = [graph_context.skus.get(graph_context.inventory.hosts[host].sku) for host in context.visible]
    if not tables or not all(tables):
        return frozenset()
    listed = (str(fact.value) for fact in context.facts if fact.key == "gpu.bdf" and fact.value)
    return frozenset(filter(None, map(normalize_bdf, (*(address for sku in tables if sku for address in sku.bus), *listed))))


async def _parse_attachment(
    attachment: Attachment, text: str, context: IncidentContext, graph_context: GraphContext
) -> TextExtraction | None:
    at = context.item.at
    if graph_context.reader is not None and len(text) >= MIN_SEPARATE_PROCESS_CHARS:
        return await graph_context.reader(attachment.name, attachment.sha256, text, at)
    return await asyncio.to_thread(extract_text, attachment.name, attachment.sha256, text, at, graph_context.fleet.checks)


def _apply_named_targets(turn: TurnState, context: IncidentContext, report: ParsedReport, scope: IncidentScope) -> TurnState:
    """Set what the item names and asks. Hosts of `diagnose --hosts` do not ask about them."""
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
    """Extend the brief. A log names many healthy hosts, so its hosts do not count."""
    old = context.brief
    return IncidentBrief(
        text="\n".join(filter(None, (old.text, _get_report_text(context))))[-MAX_BRIEF_CHARS:],
        symptoms=_drop_vague(_merge_unique(old.symptoms, report.symptoms, logs.symptoms)),
        signatures=_merge_unique(old.signatures, report.signatures, logs.signatures)[:12],
        hosts=tuple(host for host in scope.hosts if host in context.visible),
        unknown_hosts=scope.unknown[:12],
        job=scope.job,
        since=old.since or report.since,
        until=report.until or old.until,
    )


async def _query_job_hosts(job: str, context: IncidentContext, graph_context: GraphContext) -> JobHosts:
    """Query a job. For a tenant, another's job takes as long as a missing one, so timing reveals nothing."""
    if graph_context.own_job is None or not (context.origin and context.origin.tenant):
        return await graph_context.job_place(job)
    return await graph_context.own_job(job, lambda hosts: bool(find_hosts(" ".join(hosts), context.visible).hosts))


async def _find_job_hosts(job: str, context: IncidentContext, graph_context: GraphContext) -> JobHosts:
    if not job:
        return JobHosts()
    place = await _query_job_hosts(job, context, graph_context)
    placed_hosts = find_hosts(" ".join(place.hosts), context.visible).hosts
    return JobHosts(placed_hosts, "other_hosts" if place.hosts and not placed_hosts else place.why)


def _merge_unique(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for part in parts for value in part))


def _drop_vague(symptoms: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(symptom for symptom in symptoms if symptom != "vague") or symptoms


async def _apply_model_reading(
    context: IncidentContext, brief: IncidentBrief, logs: Sequence[LogDigest], turn: TurnState, graph_context: GraphContext, *, lost: bool
) -> tuple[IncidentBrief, TurnState]:
    """Let a model read what the rules could not; its causes only order the checks.

    It may name visible hosts only, and none if people named unknown hosts or jobs (`lost`).
    """
    if graph_context.model is None:
        return brief, replace(turn, without_model="no model is configured")
    if not context.item.text.strip() or lost or (set(brief.symptoms) - {"vague"} and brief.hosts):
        return brief, turn
    material = await build_material(brief, logs, context, graph_context)
    sounds = {
        label: graph_context.taxonomy.get_title(label) for label in rank_decidable_labels(graph_context.taxonomy, brief, MAX_OFFERED_LABELS)
    }
    answer = await graph_context.model.extract_report(context.id, material, context.visible, sounds)
    if isinstance(answer, DeclinedAnswer):
        return brief, replace(turn, without_model=answer.reason)
    next_turn = replace(turn, asked_model=(*turn.asked_model, "read"), reading=dict(answer.causes))
    return _merge_model_reading(brief, answer, context), next_turn


def _merge_model_reading(brief: IncidentBrief, extraction: ReportExtraction, context: IncidentContext) -> IncidentBrief:
    since, until = parse_time_window("; ".join(extraction.times), context.item.at) if extraction.times and not brief.since else (None, None)
    return brief.model_copy(
        update={
            "symptoms": _drop_vague(_merge_unique(brief.symptoms, extraction.symptoms)),
            "hosts": brief.hosts or tuple(host for host in extraction.hosts if host in context.visible),
            "job": brief.job or extraction.job,
            "signatures": _merge_unique(brief.signatures, extraction.signatures)[:12],
            "since": brief.since or since,
            "until": brief.until or until,
        }
    )


def _append_message(context: IncidentContext) -> list[Mapping[str, Any]]:
    item = context.item
    message = {"user": item.user, "text": item.text[:MAX_MESSAGE_CHARS], "at": item.at.isoformat()}
    attached = [attachment.model_dump(mode="json", exclude_defaults=True, exclude={"size"}) for attachment in item.attachments]
    messages = [*context.messages, {**message, "attachments": attached}]
    return messages if len(messages) <= MAX_MESSAGES else [messages[0], *messages[-(MAX_MESSAGES - 1) :]]


def _render_brief(brief: IncidentBrief) -> str:
    hosts = "no host known" if brief.unknown_hosts else "no host named"
    if brief.hosts:
        hosts = f"hosts {', '.join(brief.hosts[:MAX_NAMED_HOSTS])}"
    job = f"job {brief.job}" if brief.job else ""
    symptoms = f"symptoms {', '.join(brief.symptoms)}" if brief.symptoms else ""
    return "; ".join(filter(None, (hosts, job, symptoms)))


def route_after_summarise(state: IncidentState) -> str:
    """Answer questions and unknown names at once; plan checks for the rest."""
    turn = state.get("turn", {})
    is_refused = turn.get("refused") and state.get("report")
    return "plan" if (turn.get("kind") or state["item"]["kind"]) in DIAGNOSING_KINDS and not is_refused else "conclude"
