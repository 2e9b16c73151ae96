"""Build remediations from a diagnosis: the ordered steps for each cause on each host.

A remediation never changes more than one host. The remediations of one host share its drain: the first drains the node,
and the node returns only when all are done (`graph.remediation.state_machine`).
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from graph.context import IncidentTimeouts
from graph.remediation.plan_steps import PlanStep, StepContext, StepUnavailable, build_remediation_steps, parse_plan
from graph.state import Hypothesis, Remediation, RemediationStep
from kb.taxonomy.taxonomy import Leaf, Taxonomy
from tools.fact import Fact
from tools.inventory.inventory import Host, Inventory
from tools.remedies import REMEDIES

MAX_REMEDIATIONS = 64  # per incident; they are proposed in waves (`bot.remediation.waves`)
# Scopes of causes that a remedy on the host can repair. Switches, racks and jobs need other work.
HOST_SCOPES = frozenset({"node", "gpu", "hca"})
# Remedies that empty a drained node that stays busy; they are not proposed once it is idle.
NODE_EMPTYING_REMEDIES = frozenset({"cancel_job", "evict_pods"})
# Outcomes after which the same cause on the same host is a new fault.
FAULT_GONE_OUTCOMES = frozenset({"withdrawn", "cured", "recurred"})


@dataclass(frozen=True, slots=True)
class PlanContext:
    """Inputs for building and advancing remediations."""

    incident: str
    now: datetime
    inventory: Inventory
    taxonomy: Taxonomy
    facts: Sequence[Fact]
    job: str = ""
    stuck: bool = False  # The job hangs, so a drained node will not become idle on its own.
    waits: IncidentTimeouts = field(default_factory=IncidentTimeouts)

    def get_host_facts(self, host: str) -> list[Fact]:
        """Return a host's facts, without stale ones."""
        return [fact for fact in self.facts if fact.host == host and not fact.stale]


@dataclass(frozen=True, slots=True)
class BuiltRemediations:
    """New remediations, and one sentence per piece of manual work."""

    ladders: tuple[Remediation, ...] = ()
    by_hand: tuple[str, ...] = ()


def build_remediations(
    causes: Iterable[Hypothesis],
    plan: PlanContext,
    remediations: Sequence[Remediation] = (),
    *,
    anew: bool = False,
    elsewhere: Collection[tuple[str, str]] = (),
) -> BuiltRemediations:
    """Return new remediations of these causes, and the work that is left to people.

    Args:
        remediations: The incident's earlier remediations.
        anew: Whether remediations that people had to end may start again.
        elsewhere: (label, host) that another incident repairs; an empty host stands for its manual work.
    """
    skipped_targets = {*elsewhere, *_list_blocked_targets(remediations, anew=anew)}
    built: list[Remediation] = []
    by_hand: list[str] = []
    for cause in causes:
        leaf = plan.taxonomy.leaves.get(cause.label)
        if leaf is None:
            continue
        hosts = [host for name in find_remediation_hosts(cause, plan) if (host := plan.inventory.hosts.get(name))]
        for host in hosts:
            if (cause.label, host.name) in skipped_targets:
                continue
            remediation, manual_lines = _build_remediation(leaf, cause, host, plan, [*remediations, *built])
            by_hand += manual_lines
            if remediation and len(built) + len(remediations) < MAX_REMEDIATIONS:
                built.append(remediation)
        if not hosts and (cause.label, "") not in elsewhere:
            by_hand += _list_manual_steps(leaf, cause)
    return BuiltRemediations(tuple(built), tuple(dict.fromkeys(by_hand)))


def _list_blocked_targets(remediations: Iterable[Remediation], *, anew: bool) -> list[tuple[str, str]]:
    """Return the (label, host) of earlier remediations that forbid a new one."""
    return [
        (remediation.label, remediation.target)
        for remediation in remediations
        if remediation.is_open or remediation.outcome == "unknown" or (remediation.outcome not in FAULT_GONE_OUTCOMES and not anew)
    ]


def list_manual_work(remediations: Iterable[Remediation], taxonomy: Taxonomy) -> tuple[str, ...]:
    """Return one sentence per piece of manual work in the current plans of remediations whose fault is not gone."""
    sentences: dict[str, None] = {}
    for remediation in remediations:
        manual_work = _get_manual_work(remediation)
        if manual_work and remediation.outcome not in FAULT_GONE_OUTCOMES:
            sentences[f"{taxonomy.get_title(remediation.label)} on {remediation.target}: {manual_work}."] = None
    return tuple(sentences)


def _get_manual_work(remediation: Remediation) -> str:
    step = remediation.current_step
    plan_number = remediation.tried if step is None or step.part == "restore" else step.plan
    return remediation.words[plan_number] if 0 <= plan_number < len(remediation.words) else ""


def find_remediation_hosts(cause: Hypothesis, plan: PlanContext) -> tuple[str, ...]:
    """Return the hosts on which a remediation of this cause begins.

    A cause of scope job has no host of its own; if a command repairs it, these are the hosts to which the command applies.
    """
    leaf = plan.taxonomy.leaves.get(cause.label)
    if leaf is None or leaf.scope in HOST_SCOPES:
        return cause.hosts
    if leaf.scope != "job" or not leaf.remedies:
        return ()
    first_step = parse_plan(leaf.remedies[0])[0]
    if first_step.kind != "remedy":
        return ()
    applicable_hosts: list[str] = []
    for name in sorted({fact.host for fact in plan.facts}):
        host = plan.inventory.hosts.get(name)
        if host and _is_applicable(first_step, StepContext(host, plan.inventory.hosts, plan.get_host_facts(name), cause)):
            applicable_hosts.append(name)
    return tuple(applicable_hosts)


def _is_applicable(step: PlanStep, context: StepContext) -> bool:
    try:
        return bool(build_remediation_steps(step, context, 0))
    except StepUnavailable:
        return False


def _list_manual_steps(leaf: Leaf, cause: Hypothesis) -> list[str]:
    if leaf.scope in HOST_SCOPES and cause.hosts:
        return []
    first_plan = parse_plan(leaf.remedies[0]) if leaf.remedies else ()
    manual_texts = [step.manual_text for step in first_plan if step.manual_text]
    return [f"{leaf.title}: {', then '.join(manual_texts)}."] if manual_texts else []


def build_remediation(
    label: str, host: Host, devices: tuple[str, ...], plan_context: PlanContext, remediations: Sequence[Remediation], *, plan: int = 0
) -> Remediation | None:
    """Return a remediation that starts with plan number `plan`, after an earlier one failed; None if no step is left."""
    leaf = plan_context.taxonomy.leaves.get(label)
    if leaf is None or plan >= len(leaf.remedies):
        return None
    cause = Hypothesis(label=label, hosts=(host.name,), devices=devices)
    return _build_remediation(leaf, cause, host, plan_context, remediations, first=plan)[0]


def _build_remediation(
    leaf: Leaf, cause: Hypothesis, host: Host, plan: PlanContext, remediations: Sequence[Remediation], first: int = 0
) -> tuple[Remediation | None, list[str]]:
    step_context = StepContext(host, plan.inventory.hosts, plan.get_host_facts(host.name), cause, plan.job)
    is_drain_shared = any(
        remediation.is_open and remediation.target == host.name and _has_drain(remediation.rungs) for remediation in remediations
    )
    steps, manual_work, unavailable = _build_plans(leaf, step_context, first, shared=is_drain_shared)
    first_manual_work = [work for work in manual_work[first : first + 1] if work]
    manual_lines = [f"{leaf.title} on {host.name}: {sentence}." for sentence in dict.fromkeys([*unavailable, *first_manual_work])]
    if not steps:
        return None, manual_lines
    steps = _insert_emptying_steps(steps, step_context, plan)
    if _has_drain(steps) and any(step.part == "fix" for step in steps):
        steps.append(build_return_step(host.name))
    devices = tuple(name for name in cause.devices if name.partition("/")[0] == host.name)
    earlier_count = sum((remediation.label, remediation.target) == (leaf.label, host.name) for remediation in remediations)
    seed = f"{plan.incident} {leaf.label} {host.name} {earlier_count}"
    remediation = Remediation(
        id=hashlib.sha256(seed.encode()).hexdigest()[:8],
        label=leaf.label,
        target=host.name,
        devices=devices,
        rungs=tuple(steps),
        words=tuple(manual_work),
    )
    return enter_step(remediation, 0, plan), manual_lines


def _has_drain(steps: Iterable[RemediationStep]) -> bool:
    return any(step.remedy == "drain_node" for step in steps)


def _build_plans(leaf: Leaf, context: StepContext, first: int, *, shared: bool) -> tuple[list[RemediationStep], list[str], list[str]]:
    """Return all steps from plan `first` on, the manual work of each plan, and why steps are unavailable."""
    steps: list[RemediationStep] = []
    manual_work: list[str] = [""] * first
    unavailable: list[str] = []
    for number, plan in enumerate(leaf.remedies[first:], first):
        drained = shared or _has_drain(steps)
        plan_steps, plan_manual_work, plan_unavailable = _build_plan(parse_plan(plan), context, number, drained=drained)
        steps += plan_steps
        manual_work.append(plan_manual_work)
        unavailable += plan_unavailable
        if not steps:
            break  # the plan starts with manual work: change nothing on the host before that
    return steps, manual_work, unavailable


def _build_plan(
    steps: Sequence[PlanStep], context: StepContext, number: int, *, drained: bool
) -> tuple[list[RemediationStep], str, list[str]]:
    """Return the steps before the first manual one, the manual work, and why steps are unavailable."""
    built_steps: list[RemediationStep] = []
    unavailable: list[str] = []
    for index, step in enumerate(steps):
        if step.kind == "people":
            manual_texts = [later_step.manual_text for later_step in steps[index:] if later_step.manual_text]
            return built_steps, ", then ".join(manual_texts), unavailable
        if step.name == "drain_node" and drained:
            continue
        try:
            built_steps += build_remediation_steps(step, context, number)
        except StepUnavailable as error:
            unavailable.append(str(error))
            if step.name != "drain_node":
                return built_steps, str(error), unavailable
    return built_steps, "", unavailable


def _insert_emptying_steps(steps: list[RemediationStep], context: StepContext, plan: PlanContext) -> list[RemediationStep]:
    """Empty the node after its drain if a stuck job or endless pods would keep it busy."""
    drain_indexes = [index for index, step in enumerate(steps) if step.remedy == "drain_node"]
    needs_drained = any("drained" in REMEDIES[step.remedy].needs for step in steps)
    runs_pods = context.host.scheduler == "kubernetes"
    if not drain_indexes or not needs_drained or not (runs_pods or plan.stuck):
        return steps
    drain_index = drain_indexes[0]
    emptying_step = PlanStep("evict_pods" if runs_pods else "cancel_job")
    try:
        emptying_steps = build_remediation_steps(emptying_step, context, steps[drain_index].plan)
    except StepUnavailable:
        return steps
    return [*steps[: drain_index + 1], *emptying_steps, *steps[drain_index + 1 :]]


def build_return_step(host: str) -> RemediationStep:
    return RemediationStep(remedy="resume_node", args={"node": host}, plan=-1, part="restore")


def build_approval_id(incident: str, remediation: Remediation) -> str:
    """Return the approval id of the current attempt. It is deterministic, so that no action is proposed twice."""
    text = f"{incident} {remediation.id} {remediation.rung} {remediation.attempt}"
    return f"apr-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def enter_step(remediation: Remediation, index: int, plan: PlanContext) -> Remediation:
    """Enter a step and wait for its approval, or first for the node to become idle."""
    step = remediation.rungs[index]
    remediation = remediation.model_copy(update={"rung": index, "attempt": 1, "outcome": "", "approval": "", "says": ""})
    if step.part == "restore":
        return remediation.model_copy(update={"waiting_for": "none", "due": None})
    if needs_idle_node(step, plan.inventory.hosts.get(remediation.target)):
        timeout = plan.waits.busy if step.remedy in NODE_EMPTYING_REMEDIES else plan.waits.idle
        return remediation.model_copy(update={"waiting_for": "idle", "due": plan.now + timeout})
    return request_approval(remediation, plan)


def request_approval(remediation: Remediation, plan: PlanContext) -> Remediation:
    return remediation.model_copy(
        update={"waiting_for": "approval", "due": None, "approval": build_approval_id(plan.incident, remediation)}
    )


def needs_idle_node(step: RemediationStep, host: Host | None) -> bool:
    """Return whether the node must be drained and without jobs; without a scheduler that cannot be known."""
    if host is None or not host.controller:
        return False
    return step.remedy in NODE_EMPTYING_REMEDIES or "drained" in REMEDIES[step.remedy].needs
