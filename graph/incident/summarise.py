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
from graph.extraction.complaints import find_physical_reports
from graph.extraction.hosts import find_group, find_hosts, resolve_hosts_and_groups
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
from graph.extraction.reports import ParsedReport, parse_report
from graph.extraction.time_window import parse_time_window
from graph.extraction.uploaded_files import MAX_NAME_CHARS, build_file_read, build_unread_file, is_file
from graph.extraction.uploaded_text import TextExtraction, extract_text
from graph.incident.context import DIAGNOSING_KINDS, MAX_UNNAMED_HOSTS, IncidentContext, TurnState, load_incident_context, merge_facts
from graph.incident.followup_turns import get_due_recheck
from graph.incident.model_hypotheses import MAX_OFFERED_LABELS, build_material
from graph.model.reasoner import DeclinedAnswer, Reasoner, ReportExtraction
from graph.report import FileReadResult
from graph.state import SIDE_KEY, TENANT_SIDE, Attachment, InboxItemKind, IncidentBrief, IncidentState, LogDigest, UnjudgedReport
from graph.ticket_export.received_ticket import parse_ticket_facts
from kb.logs.log_lines import split_prefix
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
LONGEST_HEAD = 60  # characters by which a line is found in the message that quotes it
# characters and lines at the end of a log searched for its newest time
MAX_TAIL_CHARS = 16_384
MAX_TAIL_LINES = 50
QUESTION_KINDS: frozenset[InboxItemKind] = frozenset({"status", "why", "ask"})  # items answered from what is known


async def summarise(state: IncidentState, runtime: Runtime[GraphContext]) -> dict[str, Any]:
    """Read the item of this turn."""
    ports = runtime.context
    case = await load_incident_context(state, ports)
    turn = TurnState(
        asked=case.turn.asked,
        hosts=case.turn.hosts,
        named=case.turn.named,
        recalled=case.turn.recalled,
        guide=case.turn.guide,
        began=ports.clock.now().isoformat(),
    )
    if case.kind == "ask" and ports.model and needs_model(case.message):
        case, turn = await _infer_intent(case, turn, ports, ports.model)
    second = get_due_recheck(case)
    if second:
        turn, case = replace(turn, kind="recheck"), replace(case, turn=replace(case.turn, kind="recheck"))
    if not case.looks_at_hosts and not _has_files(case):
        same = _restore_previous_subject(
            replace(turn, priors=case.turn.priors, moves=case.turn.moves, past=case.turn.past), case
        )  # an answer keeps the subject and priors of before
        return {"turn": same.to_json(), **await _store_side_facts(case, ports)}
    turn = turn if case.looks_at_hosts else replace(turn, kind="reply")
    await ports.progress(Progress(case.id, "summarise", "reading the report"))
    pasted, facts, logs, files = await _read_attachments(case, ports)
    facts = [*facts, *(mark_uploaded(case, "", fact) for fact in parse_ticket_facts(case.item))]
    turn = replace(turn, files=tuple(row.model_dump(mode="json", exclude_defaults=True) for row in files))
    new = _parse_item(case, ports)
    place = await _find_job_hosts(get_job_to_look_up(case.brief, new), case, ports)
    scope = resolve_scope(case.item, case.brief, new, place.hosts, scheduled=bool(ports.inventory.slurm))
    turn = replace(_apply_named_targets(turn, case, new, scope), why_nowhere=place.why if scope.unknown_job else "")
    if scope.refused or (case.kind == "recheck" and not turn.about):
        turn = _restore_previous_subject(turn, case)
    if scope.refused and case.report:
        return {"turn": turn.to_json(), "said": _append_message(case), "rounds": 0}
    logs_say = await asyncio.to_thread(parse_report, pasted, (), case.item.at) if pasted else None
    brief = _extend_brief(case, new, scope, logs_say or IncidentBrief())
    brief = brief.model_copy(update={"unjudged": _list_unjudged_reports(case, files)})
    turn = replace(turn, hosts=fold_host_names(scope.looked_at) or turn.hosts)
    brief, turn = await _apply_model_reading(
        case, brief, merge_log_digests(case.logs, logs), turn, ports, lost=bool(scope.unknown or scope.unknown_job)
    )
    await ports.progress(Progress(case.id, "summarise", _render_brief(brief)))
    return {
        "turn": turn.to_json(),
        "brief": brief.model_dump(mode="json"),
        **({"logs": [row.model_dump(mode="json", exclude_defaults=True) for row in merge_log_digests(case.logs, logs)]} if logs else {}),
        "said": list(case.messages) if second else _append_message(case),
        "facts": await ports.evidence.put_facts(case.id, merge_facts(case.facts, facts)) if facts else case.snapshot,
        "lifecycle": "open",
        "rounds": 0,
        "walk": {},
        "tier": "history",
    }


async def _store_side_facts(context: IncidentContext, ports: GraphContext) -> dict[str, Any]:
    """Store what a question or request adds: pasted lines and reports that no check can judge."""
    if context.item.kind not in QUESTION_KINDS:
        return {}
    _, facts, logs, files = await _read_attachments(context, ports) if context.item.attachments else ("", [], [], [])
    unjudged = _list_unjudged_reports(context, files)
    stored_facts: dict[str, Any] = {}
    if unjudged != context.brief.unjudged:
        stored_facts["brief"] = context.brief.model_copy(update={"unjudged": unjudged}).model_dump(mode="json")
    if logs:
        stored_facts["logs"] = [row.model_dump(mode="json", exclude_defaults=True) for row in merge_log_digests(context.logs, logs)]
    if facts:
        stored_facts |= {
            "facts": await ports.evidence.put_facts(context.id, merge_facts(context.facts, facts)),
            "said": _append_message(context),
        }
    return stored_facts


def _list_unjudged_reports(context: IncidentContext, files: Sequence[FileReadResult]) -> tuple[UnjudgedReport, ...]:
    """Return reports that no check can judge, minus fixed ones; the oldest stay, as they may cover all hosts."""
    message, old = context.message, context.brief.unjudged
    if message.intent is Intent.FIXED:
        over = set(message.hosts)
        old = tuple(row for row in old if over and not set(row.hosts) & over)
    new = [UnjudgedReport(text=text, hosts=_find_named_hosts(text, context)) for text in find_physical_reports(_get_report_text(context))]
    new += [UnjudgedReport(text=row.name, file=True) for row in files if row.unread]
    return tuple(dict.fromkeys((*old, *new)))[:MAX_UNJUDGED]


def _find_named_hosts(text: str, context: IncidentContext) -> tuple[str, ...]:
    return find_hosts(text, context.names).hosts or find_hosts(context.item.text, context.names).hosts


async def _infer_intent(
    context: IncidentContext, turn: TurnState, ports: GraphContext, model: Reasoner
) -> tuple[IncidentContext, TurnState]:
    """Let a model classify a message that the rules did not understand."""
    offered = build_intent_choices(context.visible, tuple(ports.taxonomy.leaves), tuple(ports.fleet.checks), tuple(REMEDIES))
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


def _parse_item(context: IncidentContext, ports: GraphContext) -> ParsedReport:
    """Parse the item. A command's names, or a one-word reply, may be groups."""
    domains = ports.inventory.list_domains(context.visible)
    new = parse_report(
        _get_report_text(context),
        context.names,
        context.item.at,
        domains,
        lenient=context.origin is None or context.origin.customer is None,
    )
    host_text = str(context.item.data.get("hosts") or find_group(context.item.text.strip().removeprefix("@"), context.groups) or "")
    if (
        context.message.intent is Intent.WIDEN
        and context.message.group in (ALL, OTHERS)
        and not host_text
        and len(context.visible) <= MAX_UNNAMED_HOSTS
    ):
        return replace(new, hosts=context.visible)
    exact = context.item.kind != "recheck" and not set(new.symptoms) - {"vague"}  # “hosts down” names none
    resolved = resolve_hosts_and_groups(host_text, context.names, context.groups, domains, strict=exact)
    return replace(new, hosts=resolved.hosts, unknown_hosts=resolved.unknown, read_as={}) if resolved.hosts or resolved.unknown else new


def _get_report_text(context: IncidentContext) -> str:
    """Return the reported text; naming a guide reports nothing."""
    return "" if context.message.intent is Intent.RUN_GUIDE else context.item.text


async def _read_attachments(context: IncidentContext, ports: GraphContext) -> tuple[str, list[Fact], list[LogDigest], list[FileReadResult]]:
    """Return the texts (cut), facts, digests of long logs, and file results. Parsing runs off the event loop."""
    texts: list[str] = []
    facts: list[Fact] = []
    logs: list[LogDigest] = []
    files: list[FileReadResult] = []
    addresses = list_gpu_addresses(context, ports)
    for attachment in context.item.attachments:
        text = None if attachment.unread else await ports.evidence.get_text(attachment.sha256)
        if text is None:
            files.append(build_unread_file(attachment, attachment.unread or "gone"))
            continue
        read = await _parse_attachment(attachment, text, context, ports)
        if read is None:
            files.append(build_unread_file(attachment, "too_long"))
            continue
        own_facts, left_out = select_own_facts(read.pasted, (*context.facts, *facts), addresses)
        if not is_file(attachment):  # a pasted block may be a command, which is no log to be read
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
        logs += [read.digest] if read.digest else []
        texts.append(text[:MAX_LOG_CHARS])
        files += (
            [build_file_read(attachment, own_facts, is_abnormal, left_out, recognised=read.pasted.recognised)]
            if is_file(attachment)
            else []
        )
    return "\n".join(texts), facts, logs, files[:MAX_FILES]


def _add_writing_host(fact: Fact, said: str, context: IncidentContext) -> Fact:
    """Add the host that wrote the line, if the line or the text before it says so; other hosts in it do not count.

    `said`: the message in which it was pasted.
    """
    line = fact.line.strip()
    if not line:
        return fact
    matching_line = next((row for row in split_lines(said) if line[:LONGEST_HEAD] in row), line)
    writing_hosts = find_hosts(get_line_head(matching_line), context.names).hosts
    name = writing_hosts[0] if len(writing_hosts) == 1 else "" if writing_hosts else get_line_writer(matching_line)
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


def list_gpu_addresses(context: IncidentContext, ports: GraphContext) -> frozenset[str]:
    """Return every possible GPU address of the visible hosts; none if one has no profile."""
    tables = [ports.skus.get(ports.inventory.hosts[host].sku) for host in context.visible]
    if not tables or not all(tables):
        return frozenset()
    listed = (str(fact.value) for fact in context.facts if fact.key == "gpu.bdf" and fact.value)
    return frozenset(filter(None, map(normalize_bdf, (*(address for sku in tables if sku for address in sku.bus), *listed))))


async def _parse_attachment(given: Attachment, text: str, context: IncidentContext, ports: GraphContext) -> TextExtraction | None:
    at = context.item.at
    if ports.reader is not None and len(text) >= MIN_SEPARATE_PROCESS_CHARS:
        return await ports.reader(given.name, given.sha256, text, at)
    return await asyncio.to_thread(extract_text, given.name, given.sha256, text, at, ports.fleet.checks)


def _apply_named_targets(turn: TurnState, context: IncidentContext, report: ParsedReport, named: IncidentScope) -> TurnState:
    """Set what the item names and asks. Hosts of `diagnose --hosts` are no question about them."""
    text = context.item.text
    return replace(
        turn,
        about=fold_host_names(named.looked_at or find_asked_hosts(text, report)),
        question=(bool(named.looked_at) and context.item.kind != "mention") or is_host_health_question(text),
        only=bool(named.looked_at),
        unknown=named.unknown,
        read_as=report.read_as,
        unknown_job=named.unknown_job,
        refused=named.refused,
    )


def _restore_previous_subject(turn: TurnState, context: IncidentContext) -> TurnState:
    """Restore the earlier subject, unless the last turn was limited to a few hosts."""
    return turn if context.turn.only else replace(turn, about=context.turn.about, question=context.turn.question)


def _extend_brief(
    context: IncidentContext, report: ParsedReport, named: IncidentScope, logs: ParsedReport | IncidentBrief
) -> IncidentBrief:
    """Extend the brief. A log names many healthy hosts, so its hosts do not count."""
    old = context.brief
    return IncidentBrief(
        text="\n".join(filter(None, (old.text, _get_report_text(context))))[-MAX_BRIEF_CHARS:],
        symptoms=_drop_vague(_merge_unique(old.symptoms, report.symptoms, logs.symptoms)),
        signatures=_merge_unique(old.signatures, report.signatures, logs.signatures)[:12],
        hosts=tuple(host for host in named.hosts if host in context.visible),
        unknown_hosts=named.unknown[:12],
        job=named.job,
        since=old.since or report.since,
        until=report.until or old.until,
    )


async def _query_job_hosts(job: str, context: IncidentContext, ports: GraphContext) -> JobHosts:
    """Query a job. For a tenant, another's job takes as long as a missing one, so timing reveals nothing."""
    if ports.own_job is None or not (context.origin and context.origin.tenant):
        return await ports.job_place(job)
    return await ports.own_job(job, lambda hosts: bool(find_hosts(" ".join(hosts), context.visible).hosts))


async def _find_job_hosts(job: str, context: IncidentContext, ports: GraphContext) -> JobHosts:
    if not job:
        return JobHosts()
    place = await _query_job_hosts(job, context, ports)
    placed_hosts = find_hosts(" ".join(place.hosts), context.visible).hosts
    return JobHosts(placed_hosts, "other_hosts" if place.hosts and not placed_hosts else place.why)


def _merge_unique(*parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for part in parts for value in part))


def _drop_vague(symptoms: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(symptom for symptom in symptoms if symptom != "vague") or symptoms


async def _apply_model_reading(
    context: IncidentContext, brief: IncidentBrief, logs: Sequence[LogDigest], turn: TurnState, ports: GraphContext, *, lost: bool
) -> tuple[IncidentBrief, TurnState]:
    """Let a model read what the rules could not; its causes only order the checks.

    It may name visible hosts only, and none if people named unknown hosts or jobs (`lost`).
    """
    if ports.model is None:
        return brief, replace(turn, without_model="no model is configured")
    if not context.item.text.strip() or lost or (set(brief.symptoms) - {"vague"} and brief.hosts):
        return brief, turn
    material = await build_material(brief, logs, context, ports)
    sounds = {label: ports.taxonomy.get_title(label) for label in rank_decidable_labels(ports.taxonomy, brief, MAX_OFFERED_LABELS)}
    answer = await ports.model.extract_report(context.id, material, context.visible, sounds)
    if isinstance(answer, DeclinedAnswer):
        return brief, replace(turn, without_model=answer.reason)
    next_turn = replace(turn, asked_model=(*turn.asked_model, "read"), reading=dict(answer.causes))
    return _merge_model_reading(brief, answer, context), next_turn


def _merge_model_reading(brief: IncidentBrief, guess: ReportExtraction, context: IncidentContext) -> IncidentBrief:
    since, until = parse_time_window("; ".join(guess.times), context.item.at) if guess.times and not brief.since else (None, None)
    return brief.model_copy(
        update={
            "symptoms": _drop_vague(_merge_unique(brief.symptoms, guess.symptoms)),
            "hosts": brief.hosts or tuple(host for host in guess.hosts if host in context.visible),
            "job": brief.job or guess.job,
            "signatures": _merge_unique(brief.signatures, guess.signatures)[:12],
            "since": brief.since or since,
            "until": brief.until or until,
        }
    )


def _append_message(context: IncidentContext) -> list[Mapping[str, Any]]:
    item = context.item
    row = {"user": item.user, "text": item.text[:MAX_MESSAGE_CHARS], "at": item.at.isoformat()}
    attached = [attachment.model_dump(mode="json", exclude_defaults=True, exclude={"size"}) for attachment in item.attachments]
    messages = [*context.messages, {**row, "attachments": attached}]
    return messages if len(messages) <= MAX_MESSAGES else [messages[0], *messages[-(MAX_MESSAGES - 1) :]]


def _render_brief(brief: IncidentBrief) -> str:
    parts = [f"hosts {', '.join(brief.hosts[:6])}" if brief.hosts else "no host known" if brief.unknown_hosts else "no host named"]
    parts += [f"job {brief.job}"] if brief.job else []
    parts += [f"symptoms {', '.join(brief.symptoms)}"] if brief.symptoms else []
    return "; ".join(parts)


def route_after_summarise(state: IncidentState) -> str:
    """Answer questions and unknown names at once; plan checks for the rest."""
    turn = state.get("turn", {})
    is_refused = turn.get("refused") and state.get("report")
    return "plan" if (turn.get("kind") or state["item"]["kind"]) in DIAGNOSING_KINDS and not is_refused else "conclude"
