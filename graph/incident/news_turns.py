"""Turns after news: run the checks that the news points to, and say what it changes."""

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

UNJUDGED: Final = "Noted. No check of mine can judge that, so I call nothing safe until a person has checked it. Have it checked now."
NO_CAUSE_PROVEN: Final = "Noted; no cause is proven by it."

MAX_SUSPECTS: Final = 3  # causes that news may point to
MAX_FRESH_AGE: Final = timedelta(minutes=3)
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
    plain = not context.turn.only and not context.turn.unknown and not {"hosts", "job"} & context.item.data.keys()
    has_diagnosis = (
        context.report is not None
        and context.report.outcome in ("diagnosed", "no_fault", "abstained")
        and any(fact.host for fact in context.facts)
    )
    return context.kind == "reply" and has_message and plain and has_diagnosis and context.message.intent is Intent.NEW_FACTS


def list_checks_for_news(context: IncidentContext, assessment: Assessment) -> list[tuple[str, str]]:
    """Return the (host, check) pairs that news point to, unless read just now.

    All passive checks never asked on their hosts; on observed hosts those of the suggested causes and of the parts
    changed.
    """
    news = parse_report(context.item.text, context.names, context.item.at)
    observed_hosts, asked_checks = {fact.host for fact in context.facts}, {(fact.host, fact.check) for fact in context.facts}
    asked_checks -= {
        (fact.host, fact.check) for fact in context.facts if fact.status.blind and fact.host in news.hosts
    }  # may be observable by now
    first = [
        pair for pair in list_first_wave(assessment.reference, dict.fromkeys((*news.hosts, *context.hosts))) if pair not in asked_checks
    ]
    just_read = {(fact.host, fact.check) for fact in context.facts if fact.time and context.item.at - fact.time < MAX_FRESH_AGE}
    passive = {check.id for check in assessment.reference.list_passive_checks()}
    implied_checks = [
        check
        for check in _list_implied_checks(
            context, assessment, IncidentBrief(text=context.item.text, symptoms=news.symptoms, signatures=news.signatures)
        )
        if check in passive
    ]
    hosts = [host for host in (news.hosts or context.hosts) if host in observed_hosts]
    return [*first, *((host, check) for host in hosts for check in implied_checks if (host, check) not in just_read)]


def _list_implied_checks(context: IncidentContext, assessment: Assessment, news_brief: IncidentBrief) -> list[str]:
    likely = (
        compute_word_priors(assessment.reference.taxonomy, news_brief)
        if set(news_brief.symptoms) - {"vague"} or news_brief.signatures
        else {}
    )
    labels = sorted(likely, key=lambda label: -likely[label])[:MAX_SUSPECTS]
    leaves = [assessment.reference.taxonomy.get_leaf(label) for label in labels]
    words = news_brief.text.lower()
    changed = [check for word, checks in CHECKS_BY_CHANGED_PART.items() if word in words for check in checks]
    return list(
        dict.fromkeys(
            [
                *changed,
                *(check.id for leaf in leaves for check in assessment.reference.list_deciding_checks(leaf)),
                *(c for leaf in leaves for c in leaf.checks),
            ]
        )
    )


def add_change_summary(result: TurnResult, context: IncidentContext, causes: str, about: str) -> TurnResult:
    """Say what news change, else in a line that nothing does. `causes`: in words; `about`: the hosts named."""
    previous_report, after = context.report, result.report
    if previous_report is None:
        return result
    if _get_conclusion_key(previous_report) != _get_conclusion_key(after) or after.unknown_hosts or after.unknown_job:
        was = previous_report.headline if previous_report.headline != after.headline else ""
        return replace(result, report=after.model_copy(update={"changed": f"Changed. Before: {was}" if was else "Changed."}))
    if after.questions:
        return replace(result, report=after.model_copy(update={"changed": NO_CAUSE_PROVEN}))
    unknown_writers = describe_unknown_writers(context) if after.outcome != "abstained" else ""
    parts = (_acknowledge_news(context, after), unknown_writers, about, _render_unchanged_conclusion(after, causes))
    return replace(result, report=after.model_copy(update={"reply": " ".join(filter(None, parts))}))


def _acknowledge_news(context: IncidentContext, report: Report) -> str:
    if find_physical_reports(context.item.text):
        return UNJUDGED
    if context.item.attachments or (report.about is not None and report.about.found in ("odd", "fault")):
        return NO_CAUSE_PROVEN
    return "Noted; nothing that I know changes by it."


def _render_unchanged_conclusion(report: Report, causes: str) -> str:
    if report.root_causes:
        return f"The cause stays: {causes}."
    return report.headline if report.outcome == "abstained" else ""


def _get_conclusion_key(report: Report) -> tuple[str, frozenset[tuple[str, tuple[str, ...]]]]:
    return report.outcome, frozenset((cause.label, tuple(sorted(cause.hosts))) for cause in report.root_causes)
