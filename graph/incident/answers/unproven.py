"""List findings that no proven cause explains: uploads, likely causes, and reports that no check can judge.

While one remains, no answer says that all is well. A finding without a known host counts for every host.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graph.engine.assessment import Assessment
from graph.engine.belief import Belief, has_only_old_events
from graph.engine.coverage import UNASKED_KEYS
from graph.engine.expected_devices import ELSEWHERE_ATTRIBUTE, UNLISTED
from graph.engine.fact_history import format_old_event, is_old
from graph.engine.reference_data import is_tenant_writable
from graph.incident.context import IncidentContext
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY
from tools.fact import WRITTEN_BY, Fact, Status

UPLOADED_PREFIX = "handed in: "
MAX_NAMED_FINDINGS = 3
MAX_CHARS = 170
CLEARED = "Have a person check it; say “it works again” when that is done."


@dataclass(frozen=True, slots=True)
class Unproven:
    """One finding. `hosts` is empty if they are unknown; a finding `of_job` is not about a machine."""

    says: str
    hosts: tuple[str, ...] = ()
    of_job: bool = False
    reported: bool = False  # people reported it, and no check can judge it

    def concerns(self, host: str) -> bool:
        return not self.of_job and (not self.hosts or host in self.hosts)


def list_unproven(context: IncidentContext, assessment: Assessment) -> tuple[Unproven, ...]:
    """Return the findings that no proven cause explains, reports first."""
    reports = [
        Unproven(f"{report.text} was handed in and not read", report.hosts)
        if report.file
        else Unproven(f"reported, and no check can judge it: “{report.text}”", report.hosts, reported=True)
        for report in context.brief.unjudged
    ]
    findings = [
        *reports,
        *_iter_uploaded(context, assessment),
        *_iter_likely(context, assessment),
        *_iter_unparsed(context, assessment),
    ]
    return tuple(dict.fromkeys(replace(finding, says=finding.says[:MAX_CHARS]) for finding in findings))


def format_unproven(findings: Sequence[Unproven]) -> str:
    """Join the first findings. Of uploads in sequence, only the first says that it was uploaded."""
    clauses: list[str] = []
    was_uploaded = False
    for finding in findings[:MAX_NAMED_FINDINGS]:
        clauses.append(finding.says.removeprefix(UPLOADED_PREFIX) if was_uploaded else finding.says)
        was_uploaded = finding.says.startswith(UPLOADED_PREFIX)
    if len(findings) > MAX_NAMED_FINDINGS:
        clauses.append(f"and {len(findings) - MAX_NAMED_FINDINGS} more")
    return "; ".join(clauses)


def find_writing_host(fact: Fact, context: IncidentContext) -> tuple[str, ...]:
    """Return the visible host that wrote the line, if known."""
    name = str(fact.attrs.get(WRITTEN_BY) or "")
    host = context.names.get(name, name)
    return (host,) if host in context.visible else ()


def format_uploaded_fact(fact: Fact, context: IncidentContext) -> str:
    """Return `handed in: Xid 79 on 0000:9b:00.0, 191 days ago, not since`."""
    name = str(fact.attrs.get(WRITTEN_BY) or "")
    origin_note = f" of {name}, which I do not know here" if name and not find_writing_host(fact, context) else ""
    device_note = ", a device that I know on no host here" if fact.attrs.get(ELSEWHERE_ATTRIBUTE, UNLISTED) != UNLISTED else ""
    is_old_event = is_old(fact) or bool(fact.attrs.get("aged"))
    sentence = format_old_event(fact, context.item.at) if is_old_event else fact.format_sentence()
    return f"{UPLOADED_PREFIX[:-2]}{origin_note}: {sentence}{device_note}"


def _iter_uploaded(context: IncidentContext, assessment: Assessment) -> Iterator[Unproven]:
    for fact in assessment.uploaded_facts:
        of_job = is_tenant_writable(fact.key)
        if _is_explained(fact, context, assessment) or (of_job and assessment.roots):
            continue
        yield Unproven(format_uploaded_fact(fact, context), find_writing_host(fact, context), of_job)


def _is_explained(fact: Fact, context: IncidentContext, assessment: Assessment) -> bool:
    """Return whether a proven cause or its consequence explains the fact, on the fact's host if known."""
    hosts = set(find_writing_host(fact, context))
    consequences = [set_aside.belief for set_aside in assessment.selection.aside if set_aside.verdict == "rejected"]
    for belief in (*assessment.roots, *consequences):
        may_be_same_host = not hosts or not belief.subject.hosts or not hosts.isdisjoint((*belief.accused, *belief.shown))
        if id(fact) in belief.explains and may_be_same_host:
            return True
    return False


def _iter_likely(context: IncidentContext, assessment: Assessment) -> Iterator[Unproven]:
    uploaded_fact_ids = {id(fact) for fact in assessment.uploaded_facts}
    for belief in assessment.suspects:
        facts = [match.fact for match in belief.support]
        hosts = tuple(filter(None, belief.subject.hosts))
        if has_only_old_events(facts) or _is_consequence(belief, hosts, assessment):
            continue
        if not hosts and all(id(fact) in uploaded_fact_ids for fact in facts):
            writing_hosts = [find_writing_host(fact, context) for fact in facts]
            if all(writing_hosts):
                hosts = tuple(dict.fromkeys(host for fact_hosts in writing_hosts for host in fact_hosts))
        of_job = not belief.accused and all(is_tenant_writable(fact.key) for fact in facts)
        if not (of_job and assessment.roots):
            yield Unproven(f"{belief.leaf.title} is likely and unproven", hosts, of_job)


def _is_consequence(belief: Belief, hosts: Sequence[str], assessment: Assessment) -> bool:
    """Return whether a proven cause on one of the hosts has this cause as a consequence."""
    for root in assessment.roots:
        is_same_host = not hosts or not set(hosts).isdisjoint((*root.accused, *root.shown))
        if belief.label in root.leaf.suppresses and is_same_host:
            return True
    return False


def _iter_unparsed(context: IncidentContext, assessment: Assessment) -> Iterator[Unproven]:
    job_log_digests = {fact.sha256 for fact in context.facts if not fact.host and fact.key == "job.error" and fact.status is Status.OK}
    for fact in context.facts:
        if fact.host or fact.key not in UNASKED_KEYS or fact.status is not Status.OK:
            continue
        of_job = fact.sha256 in job_log_digests and fact.key == NOT_UNDERSTOOD_KEY
        if not (of_job and assessment.roots):
            yield Unproven(f"handed in and not understood: {fact.line or fact.format_sentence()}", find_writing_host(fact, context), of_job)
