"""Answer whether a fault is to be paged or can wait, and whether it needs hands on site or a replacement."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from graph.incident.answers.action_details import list_pending_approvals
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    format_age,
    get_read_time,
    render_citation,
    render_recheck_offer,
    render_unknown_names,
)
from graph.incident.answers.host_jobs import HostJobs, read_host_jobs
from graph.incident.answers.unproven import format_unproven, list_unproven
from graph.incident.turn_result import TurnResult
from graph.remediation.plan_steps import PARTS_BY_REMEDY, PlanStep, parse_plan
from graph.state import Hypothesis
from kb.taxonomy.taxonomy import Leaf, Owner, Scope
from tools.checks.scheduler import OUT_OF_SERVICE_WORDS
from tools.inventory.host_ranges import fold_host_names
from tools.remedies import REMEDIES

SHARED_SCOPES: Final[frozenset[Scope]] = frozenset({"switch", "rack", "cluster"})
# Manual steps of the taxonomy's plans that are done at the machine.
HANDS_STEPS: Final = frozenset({"escalate_rma", "escalate_hw", "escalate_cable", "escalate_cooling", "escalate_facility"})
REPLACEMENT_STEP, DRAIN_STEP = "escalate_rma", "drain_node"
MAX_OTHER_CAUSES, MAX_BUSY_HOSTS, MAX_NAMED_JOBS = 2, 3, 4
StepTime = Literal["now", "later", "never"]


class Urgency(StrEnum):
    PAGE = "page"
    DRAIN_FIRST = "drain_first"
    WAIT = "wait"
    UNKNOWN = "unknown"


class UrgencyReason(StrEnum):
    """What decided. The order of a decision's reasons is that of the answer."""

    NO_CAUSE = "no_cause"
    CUSTOMER_ACTS = "customer_acts"
    SHARED_PART = "shared_part"
    NOT_READ = "not_read"
    JOB_RUNS = "job_runs"
    NO_JOB = "no_job"
    REMOTE_FIX = "remote_fix"
    IN_SERVICE = "in_service"
    OUT_OF_SERVICE = "out_of_service"
    SPARE = "spare"
    NO_SPARE = "no_spare"


@dataclass(frozen=True, slots=True)
class UrgencyFacts:
    """What decides how urgent a proven cause is.

    Attributes:
        is_proven: Whether a cause is proven at all.
        hands: When the cause's plans need hands at the machine.
        drains: Whether the first plan begins with a drain.
        unread_hosts: Accused hosts of which neither jobs nor the scheduler's state were read.
        busy_hosts: Accused hosts with a running job.
        serving_hosts: Accused hosts that take jobs.
        spare_hosts: Idle hosts of the same kind without a fault, outside of the incident's job.
        kin_hosts: Hosts of the same kind without a fault, outside of the incident's job, whose state was read.
    """

    is_proven: bool
    owner: Owner = "provider"
    scope: Scope = "node"
    hands: StepTime = "never"
    drains: bool = True
    unread_hosts: tuple[str, ...] = ()
    busy_hosts: tuple[str, ...] = ()
    serving_hosts: tuple[str, ...] = ()
    spare_hosts: tuple[str, ...] = ()
    kin_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UrgencyDecision:
    urgency: Urgency
    reasons: tuple[UrgencyReason, ...]


def decide_urgency(facts: UrgencyFacts) -> UrgencyDecision:
    """Return how urgent it is, and why.

    A shared part is paged, because draining a host contains nothing. A busy host that needs hands and has no spare is
    paged too. A host in service is drained first, if its plan says so. Whatever else can wait.
    """
    if not facts.is_proven:
        return UrgencyDecision(Urgency.UNKNOWN, (UrgencyReason.NO_CAUSE,))
    if facts.owner == "customer":
        return UrgencyDecision(Urgency.WAIT, (UrgencyReason.CUSTOMER_ACTS,))
    if facts.scope in SHARED_SCOPES:
        return UrgencyDecision(Urgency.PAGE, (UrgencyReason.SHARED_PART,))
    if facts.unread_hosts:
        return UrgencyDecision(Urgency.UNKNOWN, (UrgencyReason.NOT_READ,))
    spare = (UrgencyReason.SPARE,) if facts.spare_hosts else (UrgencyReason.NO_SPARE,) if facts.kin_hosts else ()
    job = UrgencyReason.JOB_RUNS if facts.busy_hosts else UrgencyReason.NO_JOB
    service = UrgencyReason.IN_SERVICE if facts.serving_hosts else UrgencyReason.OUT_OF_SERVICE
    remote = (UrgencyReason.REMOTE_FIX,) if facts.hands != "now" else ()
    if facts.busy_hosts and UrgencyReason.NO_SPARE in spare and not remote:
        return UrgencyDecision(Urgency.PAGE, (job, service, *spare))
    must_drain = facts.serving_hosts and (facts.drains or not remote)
    return UrgencyDecision(Urgency.DRAIN_FIRST if must_drain else Urgency.WAIT, (*remote, job, service, *spare))


_HEADS: Final[Mapping[Urgency, str]] = {
    Urgency.PAGE: "Page now:",
    Urgency.DRAIN_FIRST: "Drain first, then it can wait:",
    Urgency.WAIT: "It can wait:",
    Urgency.UNKNOWN: "I cannot tell whether it can wait:",
}


async def answer_page_or_wait(context: AnswerContext) -> TurnResult:
    """Answer with the decision and its facts, and with what the cause's plans ask of people."""
    cause = _select_cause(context)
    if cause is None:
        return build_answer(context, [*render_unknown_names(context), *_render_undecided(context)])
    leaf = context.assessment.reference.taxonomy.get_leaf(cause.label)
    host_jobs = [read_host_jobs(context, host) for host in cause.hosts]
    steps = read_manual_steps(leaf, tried=_is_left_to_people(context, cause))
    facts = gather_facts(context, cause, leaf, steps, host_jobs)
    decision = decide_urgency(facts)
    title = (
        f"{leaf.title} on {fold_host_names(cause.hosts)}{render_citation(cause)}"
        if cause.hosts
        else f"{leaf.title}{render_citation(cause)}"
    )
    lines = [f"{_HEADS[decision.urgency]} {title}."]
    given = _Rendering(context, facts, host_jobs)
    lines += [f"• {_RENDERERS[reason](given)}." for reason in decision.reasons]
    if facts.owner != "customer":
        lines += _render_manual_steps(steps)
    others = [f"{context.get_title(other.label)}{render_citation(other)}" for other in context.root_causes if other != cause]
    lines.append(f"Also found: {'; '.join(others[:MAX_OTHER_CAUSES])}." if others else "")
    return build_answer(context, [*render_unknown_names(context), *lines, render_recheck_offer(context, cause.hosts)])


def _select_cause(context: AnswerContext) -> Hypothesis | None:
    """Return the proven cause that the message names by host or label, or the first."""
    hosts, labels = set(context.message.hosts), set(context.message.labels)
    causes = [cause for cause in context.root_causes if hosts & set(cause.hosts) or cause.label in labels]
    if not causes and not hosts:
        causes = list(context.root_causes)
    return causes[0] if causes else None


def _render_undecided(context: AnswerContext) -> list[str]:
    """Say that no cause decides it, what is suspected, and what would tell."""
    hosts = context.message.hosts or context.incident.hosts
    where = f" on {fold_host_names(hosts)}" if hosts else ""
    findings = list_unproven(context.incident, context.assessment)
    report = context.incident.report
    would_tell = report.next_step if report and report.outcome == "abstained" and not context.message.hosts else ""
    recheck = f"say `recheck {fold_host_names(hosts)}`" if hosts else "name the hosts and say `recheck HOSTS`"
    return [
        f"{_HEADS[Urgency.UNKNOWN]} no cause is proven{where}.",
        f"• Not explained: {format_unproven(findings)}." if findings else "",
        f"This would tell: {clean_text(would_tell, 200)}" if would_tell else f"This would tell: {recheck}.",
    ]


def gather_facts(
    context: AnswerContext, cause: Hypothesis, leaf: Leaf, steps: "ManualSteps", host_jobs: Sequence[HostJobs]
) -> UrgencyFacts:
    drained = {host for fix in context.incident.remediations if fix.drained for host in fix.target.split(",")}
    others = [read_host_jobs(context, host) for host in _list_other_hosts(context, cause)]
    read_others = [jobs for jobs in others if jobs.is_read and jobs.state]
    return UrgencyFacts(
        is_proven=True,
        owner=leaf.owner,
        scope=leaf.scope,
        hands=steps.hands,
        drains=steps.drains,
        unread_hosts=tuple(jobs.host for jobs in host_jobs if not jobs.is_read or not (jobs.state or jobs.host in drained)),
        busy_hosts=tuple(jobs.host for jobs in host_jobs if jobs.is_busy),
        serving_hosts=tuple(jobs.host for jobs in host_jobs if jobs.host not in drained and not _is_out_of_service(jobs)),
        spare_hosts=tuple(jobs.host for jobs in read_others if jobs.state == "IDLE" and not jobs.is_busy),
        kin_hosts=tuple(jobs.host for jobs in read_others),
    )


def _is_out_of_service(jobs: HostJobs) -> bool:
    return any(word in jobs.state for word in OUT_OF_SERVICE_WORDS)


def _list_other_hosts(context: AnswerContext, cause: Hypothesis) -> list[str]:
    """Return observed hosts of the accused hosts' kind without a fault, outside of the incident's job."""
    inventory, faulty = context.graph_context.inventory.hosts, set(context.faulty_hosts)
    kinds = {(inventory[host].group, inventory[host].sku) for host in cause.hosts if host in inventory}
    in_job = context.incident.brief.hosts if context.incident.brief.job else ()
    return [
        host
        for host in context.observed_hosts
        if host not in faulty and host not in in_job and host in inventory and (inventory[host].group, inventory[host].sku) in kinds
    ]


@dataclass(frozen=True, slots=True)
class _Rendering:
    """What a reason's sentence is made from."""

    context: AnswerContext
    facts: UrgencyFacts
    host_jobs: Sequence[HostJobs]

    @property
    def hosts(self) -> list[str]:
        return [jobs.host for jobs in self.host_jobs]

    def cite(self, hosts: Sequence[str]) -> str:
        """Return ` (sched on gpu-003, read 4 min ago)`."""
        if not hosts:
            return ""
        coverage = self.context.assessment.coverage
        check = "sched" if any(coverage.has_observed(host, "sched") for host in hosts) else "procs"
        read_time = min((time for host in hosts if (time := get_read_time(self.context, host, check))), default=None)
        return f" ({check} on {fold_host_names(hosts)}, read {format_age(read_time, self.context.current_time)})"


def _render_shared_part(given: _Rendering) -> str:
    return f"it concerns a shared part ({given.facts.scope}), so draining a host does not contain it"


def _render_not_read(given: _Rendering) -> str:
    hosts = fold_host_names(given.facts.unread_hosts)
    return f"I did not read whether {hosts} runs jobs or takes new ones. This would tell: say `recheck {hosts}`"


def _render_running_job(given: _Rendering) -> str:
    busy = [jobs for jobs in given.host_jobs if jobs.is_busy]
    names = [f"{_name_work(jobs)} on {jobs.host}" for jobs in busy[:MAX_BUSY_HOSTS]]
    more = f" and on {len(busy) - MAX_BUSY_HOSTS} more hosts" if len(busy) > MAX_BUSY_HOSTS else ""
    return f"work runs there now: {'; '.join(names)}{more}{given.cite(given.facts.busy_hosts)}"


def _name_work(jobs: HostJobs) -> str:
    if jobs.job_ids:
        return f"job {', '.join(jobs.job_ids[:MAX_NAMED_JOBS])}"
    return f"pod {', '.join(jobs.pods[:MAX_NAMED_JOBS])}" if jobs.pods else "processes outside of jobs"


def _render_in_service(given: _Rendering) -> str:
    hosts = fold_host_names(given.facts.serving_hosts)
    hint = f"; say `drain {hosts}` for a card" if given.facts.drains or given.facts.hands == "now" else ""
    pending = {fix.target for fix in list_pending_approvals(given.context)}
    if pending.intersection(given.facts.serving_hosts):
        hint = "; a card waits for approval"
    return f"{hosts} still takes new jobs{given.cite(given.facts.serving_hosts)}{hint}"


def _render_spare(given: _Rendering) -> str:
    return f"idle and of the same kind: {fold_host_names(given.facts.spare_hosts)}{given.cite(given.facts.spare_hosts)}"


_RENDERERS: Final[Mapping[UrgencyReason, Callable[[_Rendering], str]]] = {
    UrgencyReason.NO_CAUSE: lambda given: "no cause is proven",
    UrgencyReason.CUSTOMER_ACTS: lambda given: "the job's owner has to act; nothing is to be done at the machines",
    UrgencyReason.SHARED_PART: _render_shared_part,
    UrgencyReason.REMOTE_FIX: lambda given: "the first step for this cause needs nobody at the machine",
    UrgencyReason.NOT_READ: _render_not_read,
    UrgencyReason.JOB_RUNS: _render_running_job,
    UrgencyReason.NO_JOB: lambda given: f"no job runs there now{given.cite(given.hosts)}",
    UrgencyReason.IN_SERVICE: _render_in_service,
    UrgencyReason.OUT_OF_SERVICE: lambda given: f"no new job starts there, it is out of service{given.cite(given.hosts)}",
    UrgencyReason.SPARE: _render_spare,
    UrgencyReason.NO_SPARE: lambda given: f"none of the hosts of the same kind is idle{given.cite(given.facts.kin_hosts)}",
}
assert set(_RENDERERS) == set(UrgencyReason)


@dataclass(frozen=True, slots=True)
class ManualSteps:
    """What a cause's plans ask of people. `first`: the first plan without its preparation, in words."""

    first: str
    hands: StepTime
    hands_text: str
    replacement: StepTime
    drains: bool


def read_manual_steps(leaf: Leaf, *, tried: bool) -> ManualSteps:
    """Read the taxonomy's plans. `tried`: RackMedic's own steps are over, and people go on."""
    plans = [parse_plan(plan) for plan in leaf.remedies]
    fixes = [fix for plan in plans if (fix := [step for step in plan if PARTS_BY_REMEDY.get(step.name) != "prepare"])]
    hands, hands_text = _find_step_time(fixes, HANDS_STEPS, tried=tried)
    replacement, _ = _find_step_time(fixes, frozenset({REPLACEMENT_STEP}), tried=tried)
    drains = bool(plans) and any(step.name == DRAIN_STEP for step in plans[0])
    return ManualSteps(_describe_steps(fixes[0]) if fixes else "", hands, hands_text, replacement, drains)


def _is_left_to_people(context: AnswerContext, cause: Hypothesis) -> bool:
    fixes = [fix for fix in context.incident.remediations if fix.label == cause.label and set(fix.target.split(",")) & set(cause.hosts)]
    return any(fix.outcome == "ticket" for fix in fixes)


def _render_manual_steps(steps: ManualSteps) -> list[str]:
    hands = {
        "now": f"needed: {steps.hands_text}",
        "later": f"not yet; first {steps.first}, and only if that fails: {steps.hands_text}",
        "never": f"not among the steps for this cause{f', which are: {steps.first}' if steps.first else ''}",
    }
    replacement = {
        "now": "yes, by the steps for this cause; the vendor asks for the serial number, say “serial number?”",
        "later": f"only if it is still there after the first step ({steps.first})",
        "never": "not among the steps for this cause",
    }
    return [f"Hands on site: {hands[steps.hands]}.", f"RMA: {replacement[steps.replacement]}."]


def _find_step_time(plans: Sequence[Sequence[PlanStep]], names: frozenset[str], *, tried: bool) -> tuple[StepTime, str]:
    """Return when a plan reaches one of the manual steps, and the step's text."""
    for number, plan in enumerate(plans):
        for step in plan:
            if step.name in names:
                return ("now" if number == 0 or tried else "later"), step.manual_text
    return "never", ""


def _describe_steps(plan: Sequence[PlanStep]) -> str:
    return " and ".join(_describe_step(step) for step in plan)


def _describe_step(step: PlanStep) -> str:
    remedy = REMEDIES.get(step.name) if step.kind == "remedy" else None
    if remedy is None:
        return step.manual_text or "nothing"
    return step.name.replace("_", " ")
