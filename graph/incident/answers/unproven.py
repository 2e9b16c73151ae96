"""Findings that no proven cause explains: uploads, likely causes, reports that no check can judge. Pure.

While one remains, no answer says that all is well. One of unknown host counts for every host.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from graph.engine.assessment import Assessment
from graph.engine.belief import Belief, has_only_old_events
from graph.engine.coverage import UNASKED_KEYS
from graph.engine.expected_devices import ELSEWHERE_ATTRIBUTE, UNLISTED
from graph.engine.fact_history import format_old_event, is_old
from graph.engine.reference_data import is_tenant_writable
from graph.incident.context import IncidentContext
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY
from tools.fact import WRITTEN_BY, Fact, Status

GIVEN = "handed in: "
MAX_TOLD = 3
MAX_CHARS = 170
CLEARED = "Have a person check it; say “it works again” when that is done."


@dataclass(frozen=True, slots=True)
class Unproven:
    """One finding. `hosts` is empty if it may be any; `of_job` says nothing of a machine."""

    says: str
    hosts: tuple[str, ...] = ()
    of_job: bool = False
    reported: bool = False  # people reported it, and no check can judge it

    def concerns(self, host: str) -> bool:
        return not self.of_job and (not self.hosts or host in self.hosts)


def list_unproven(context: IncidentContext, assessment: Assessment) -> tuple[Unproven, ...]:
    """Return all such findings, reports first."""
    reports = [
        Unproven(f"{row.text} was handed in and not read", row.hosts)
        if row.file
        else Unproven(f"reported, and no check can judge it: “{row.text}”", row.hosts, reported=True)
        for row in context.brief.unjudged
    ]
    statements = [*reports, *_iter_uploaded(context, assessment), *_iter_likely(context, assessment), *_iter_unread(context, assessment)]
    return tuple(dict.fromkeys(Unproven(row.says[:MAX_CHARS], row.hosts, row.of_job, row.reported) for row in statements))


def format_unproven(rows: Sequence[Unproven]) -> str:
    more = f"; and {len(rows) - MAX_TOLD} more" if len(rows) > MAX_TOLD else ""
    sentences = [row.says for row in rows[:MAX_TOLD]]
    repeats_prefix = [one.startswith(GIVEN) and before.startswith(GIVEN) for before, one in pairwise(("", *sentences))]
    return "; ".join(one.removeprefix(GIVEN) if repeats else one for one, repeats in zip(sentences, repeats_prefix, strict=True)) + more


def find_writing_host(fact: Fact, context: IncidentContext) -> tuple[str, ...]:
    """Return the visible host that wrote the line, if known."""
    name = str(fact.attrs.get(WRITTEN_BY) or "")
    host = context.names.get(name, name)
    return (host,) if host in context.visible else ()


def format_uploaded_fact(fact: Fact, context: IncidentContext) -> str:
    """Return `handed in: Xid 79 on 0000:9b:00.0, 191 days ago, not since`."""
    name = str(fact.attrs.get(WRITTEN_BY) or "")
    origin_note = f" of {name}, which I do not know here" if name and not find_writing_host(fact, context) else ""
    nowhere = ", a device that I know on no host here" if fact.attrs.get(ELSEWHERE_ATTRIBUTE, UNLISTED) != UNLISTED else ""
    old = is_old(fact) or bool(fact.attrs.get("aged"))
    return f"{GIVEN[:-2]}{origin_note}: {format_old_event(fact, context.item.at) if old else fact.format_sentence()}{nowhere}"


def _iter_uploaded(context: IncidentContext, assessment: Assessment) -> Iterator[Unproven]:
    for fact in assessment.uploaded_facts:
        of_job = is_tenant_writable(fact.key)
        if _is_explained(fact, context, assessment) or (of_job and assessment.roots):
            continue
        yield Unproven(format_uploaded_fact(fact, context), find_writing_host(fact, context), of_job)


def _is_explained(fact: Fact, context: IncidentContext, assessment: Assessment) -> bool:
    """Return whether a proven cause or its consequence explains the fact, on the fact's host if known."""
    hosts = set(find_writing_host(fact, context))
    follows = [row.belief for row in assessment.selection.aside if row.verdict == "rejected"]
    return any(
        id(fact) in row.explains and (not hosts or not row.subject.hosts or bool(hosts & {*row.accused, *row.shown}))
        for row in (*assessment.roots, *follows)
    )


def _iter_likely(context: IncidentContext, assessment: Assessment) -> Iterator[Unproven]:
    uploaded_fact_ids = {id(fact) for fact in assessment.uploaded_facts}
    for row in assessment.suspects:
        facts = [match.fact for match in row.support]
        hosts = tuple(filter(None, row.subject.hosts))
        if has_only_old_events(facts) or _is_consequence(row, hosts, assessment):
            continue
        if all(id(fact) in uploaded_fact_ids for fact in facts):
            writing_hosts = [find_writing_host(fact, context) for fact in facts]
            hosts = hosts or (tuple(dict.fromkeys(host for one in writing_hosts for host in one)) if all(writing_hosts) else ())
        of_job = not row.accused and all(is_tenant_writable(fact.key) for fact in facts)
        if not (of_job and assessment.roots):
            yield Unproven(f"{row.leaf.title} is likely and unproven", hosts, of_job)


def _is_consequence(row: Belief, hosts: Sequence[str], assessment: Assessment) -> bool:
    return any(row.label in root.leaf.suppresses and (not hosts or set(hosts) & {*root.accused, *root.shown}) for root in assessment.roots)


def _iter_unread(context: IncidentContext, assessment: Assessment) -> Iterator[Unproven]:
    of_jobs = {fact.sha256 for fact in context.facts if not fact.host and fact.key == "job.error" and fact.status is Status.OK}
    for fact in context.facts:
        if fact.host or fact.key not in UNASKED_KEYS or fact.status is not Status.OK:
            continue
        of_job = fact.sha256 in of_jobs and fact.key == NOT_UNDERSTOOD_KEY
        if not (of_job and assessment.roots):
            yield Unproven(f"handed in and not understood: {fact.line or fact.format_sentence()}", find_writing_host(fact, context), of_job)
