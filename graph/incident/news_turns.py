"""Handle news about an incident: choose the checks that it points to, and say what it changes."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from graph.dialogue.intents import Intent
from graph.dialogue.said import get_parsed_message
from graph.engine.assessment import Assessment
from graph.engine.check_selection import list_first_wave
from graph.engine.priors import compute_word_priors
from graph.extraction.physical_reports import find_physical_reports
from graph.extraction.reports import parse_report
from graph.incident.context import IncidentContext
from graph.incident.host_findings import describe_unknown_writers
from graph.incident.turn_result import TurnResult
from graph.report import Report
from graph.state import IncidentBrief

NOT_CHECKABLE_TEXT: Final = (
    "Noted. No check of mine can judge that, so I call nothing safe until a person has checked it. Have it checked now."
)
NO_CAUSE_PROVEN_TEXT: Final = "Noted; no cause is proven by it."

MAX_SUSPECTS: Final = 3  # causes that news may point to
MAX_FRESH_AGE: Final = timedelta(minutes=3)  # checks that ran within it are not repeated
# checks to repeat after people changed a part
CHECKS_BY_CHANGED_PART: Final[Mapping[str, tuple[str, ...]]] = {
    "driver": ("vers", "mods", "env", "smi"),
    "cuda": ("vers", "env", "docker"),
    "nccl": ("vers", "env"),
    "image": ("vers", "env", "docker"),
    "container": ("vers", "env", "docker"),
    "kernel": ("vers", "mods", "dmesg"),
    "firmware": ("vers", "ibstat"),
    "cable": ("ibstat",),
}


def brings_new_facts(context: IncidentContext) -> bool:
    """Return whether a reply adds facts to an observed incident and is neither a command nor a question."""
    has_message = bool(context.turn.said) or get_parsed_message(context.item) is not None
    names_no_target = not context.turn.only and not context.turn.unknown and not {"hosts", "job"} & context.item.data.keys()
    has_diagnosis = (
        context.report is not None
        and context.report.outcome in ("diagnosed", "no_fault", "abstained")
        and any(fact.host for fact in context.facts)
    )
    if context.kind != "reply" or not has_message or not names_no_target or not has_diagnosis:
        return False
    return context.message.intent is Intent.NEW_FACTS


def list_checks_for_news(context: IncidentContext, assessment: Assessment) -> list[tuple[str, str]]:
    """Return the (host, check) pairs that the news points to.

    On all hosts these are the passive checks that never ran there. On observed hosts they include, unless they ran just
    now, the checks of the causes that the news suggests and of the parts that people changed.
    """
    news = parse_report(context.item.text, context.names, context.item.at)
    observed_hosts = {fact.host for fact in context.facts}
    asked_checks = {(fact.host, fact.check) for fact in context.facts}
    # Checks that failed on the hosts of the news may succeed by now.
    asked_checks -= {(fact.host, fact.check) for fact in context.facts if fact.status.blind and fact.host in news.hosts}
    first_wave = list_first_wave(assessment.reference, dict.fromkeys((*news.hosts, *context.hosts)))
    new_checks = [host_check for host_check in first_wave if host_check not in asked_checks]
    just_read = {(fact.host, fact.check) for fact in context.facts if fact.time and context.item.at - fact.time < MAX_FRESH_AGE}
    passive_checks = {check.id for check in assessment.reference.list_passive_checks()}
    news_brief = IncidentBrief(text=context.item.text, symptoms=news.symptoms, signatures=news.signatures)
    implied_checks = [check for check in _list_implied_checks(assessment, news_brief) if check in passive_checks]
    hosts = [host for host in (news.hosts or context.hosts) if host in observed_hosts]
    return [*new_checks, *((host, check) for host in hosts for check in implied_checks if (host, check) not in just_read)]


def _list_implied_checks(assessment: Assessment, news_brief: IncidentBrief) -> list[str]:
    """Return the checks of the parts that people changed, then those of the causes that the news suggests."""
    text = news_brief.text.lower()
    checks = [check for part, part_checks in CHECKS_BY_CHANGED_PART.items() if part in text for check in part_checks]
    if set(news_brief.symptoms) - {"vague"} or news_brief.signatures:
        priors = compute_word_priors(assessment.reference.taxonomy, news_brief)
        labels = sorted(priors, key=lambda label: -priors[label])[:MAX_SUSPECTS]
        leaves = [assessment.reference.taxonomy.get_leaf(label) for label in labels]
        checks += [check.id for leaf in leaves for check in assessment.reference.list_deciding_checks(leaf)]
        checks += [check for leaf in leaves for check in leaf.checks]
    return list(dict.fromkeys(checks))


def add_change_summary(result: TurnResult, context: IncidentContext, causes_text: str, hosts_text: str) -> TurnResult:
    """Add what the news changes, or reply in a line that it changes nothing."""
    previous_report, report = context.report, result.report
    if previous_report is None:
        return result
    has_changed = _get_conclusion_key(previous_report) != _get_conclusion_key(report)
    if has_changed or report.unknown_hosts or report.unknown_job:
        change = "Changed."
        if previous_report.headline and previous_report.headline != report.headline:
            change = f"Changed. Before: {previous_report.headline}"
        return replace(result, report=report.model_copy(update={"changed": change}))
    if report.questions:
        return replace(result, report=report.model_copy(update={"changed": NO_CAUSE_PROVEN_TEXT}))
    sentences = [
        _acknowledge_news(context, report),
        describe_unknown_writers(context) if report.outcome != "abstained" else "",
        hosts_text,
        _render_unchanged_conclusion(report, causes_text),
    ]
    return replace(result, report=report.model_copy(update={"reply": " ".join(sentence for sentence in sentences if sentence)}))


def _acknowledge_news(context: IncidentContext, report: Report) -> str:
    if find_physical_reports(context.item.text):
        return NOT_CHECKABLE_TEXT
    if context.item.attachments or (report.about is not None and report.about.found in ("odd", "fault")):
        return NO_CAUSE_PROVEN_TEXT
    return "Noted; nothing that I know changes by it."


def _render_unchanged_conclusion(report: Report, causes_text: str) -> str:
    if report.root_causes:
        return f"The cause stays: {causes_text}."
    return report.headline if report.outcome == "abstained" else ""


def _get_conclusion_key(report: Report) -> tuple[str, frozenset[tuple[str, tuple[str, ...]]]]:
    return report.outcome, frozenset((cause.label, tuple(sorted(cause.hosts))) for cause in report.root_causes)
