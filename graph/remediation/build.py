"""Build remediations from a diagnosis: per cause and host the ordered steps. Pure.

A remediation never changes more than one host. Those of one host share its drain: the first drains the node, which
returns only when all are done (`graph.remediation.state_machine`).
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

MAX_REMEDIATIONS = 64  # Per incident. They are proposed in waves (`bot.remediation.waves`), not all at once.
# Scopes of causes that a remedy on the host can repair; switches, racks and jobs are not among them.
HOST_SCOPES = frozenset({"node", "gpu", "hca"})


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
    """Remediations, and sentences about manual work."""

    ladders: tuple[Remediation, ...] = ()
    by_hand: tuple[str, ...] = ()


# Remedies that empty a drained node that stays busy; not proposed once it is idle.
NODE_EMPTYING_REMEDIES = frozenset({"cancel_job", "evict_pods"})
# Outcomes after which the same cause on the same host is a new fault.
FAULT_GONE_OUTCOMES = frozenset({"withdrawn", "cured", "recurred"})


def build_remediations(
    causes: Iterable[Hypothesis],
    plan: PlanContext,
    remediations: Sequence[Remediation] = (),
    *,
    anew: bool = False,
    elsewhere: Collection[tuple[str, str]] = (),
) -> BuiltRemediations:
    """Return new remediations of these causes, and what is left to people.

    Args:
        known: The incident's earlier remediations.
        anew: Whether those that people had to end may start again.
        elsewhere: (label, host) that another incident repairs; an empty host stands for its manual work.
    """
    blocking = [
        row for row in remediations if row.is_open or row.outcome == "unknown" or (row.outcome not in FAULT_GONE_OUTCOMES and not anew)
    ]
    built: list[Remediation] = []
    by_hand: list[str] = []
    for cause in causes:
        leaf = plan.taxonomy.leaves.get(cause.label)
        if leaf is None:
            continue
        hosts = [host for name in find_remediation_hosts(cause, plan) if (host := plan.inventory.hosts.get(name))]
        for host in hosts:
            if (cause.label, host.name) in elsewhere or any((row.label, row.target) == (cause.label, host.name) for row in blocking):
                continue
            remediation, words = _build_remediation(leaf, cause, host, plan, [*remediations, *built])
            by_hand += words
            built += [remediation] if remediation and len(built) + len(remediations) < MAX_REMEDIATIONS else []
        by_hand += _list_manual_steps(leaf, cause) if not hosts and (cause.label, "") not in elsewhere else []
    return BuiltRemediations(tuple(built), tuple(dict.fromkeys(by_hand)))


def list_manual_work(remediations: Iterable[Remediation], taxonomy: Taxonomy) -> tuple[str, ...]:
    """Return the manual work of these remediations' present plans; none where the fault is gone."""
    manual_work = [(row, _get_manual_work(row)) for row in remediations if row.outcome not in FAULT_GONE_OUTCOMES]
    return tuple(dict.fromkeys(f"{taxonomy.get_title(row.label)} on {row.target}: {words}." for row, words in manual_work if words))


def _get_manual_work(remediation: Remediation) -> str:
    plan = (
        remediation.tried
        if remediation.current_step is None or remediation.current_step.part == "restore"
        else remediation.current_step.plan
    )
    return remediation.words[plan] if 0 <= plan < len(remediation.words) else ""


def find_remediation_hosts(cause: Hypothesis, plan: PlanContext) -> tuple[str, ...]:
    """Return where a remediation begins. A job cause has no host of its own; if a command repairs it, these are the
    hosts to which it applies.
    """
    leaf = plan.taxonomy.leaves.get(cause.label)
    if leaf is None or leaf.scope in HOST_SCOPES:
        return cause.hosts
    if leaf.scope != "job" or not leaf.remedies:
        return ()
    first = parse_plan(leaf.remedies[0])[0]
    if first.kind != "remedy":
        return ()
    hosts = (plan.inventory.hosts.get(name) for name in sorted({fact.host for fact in plan.facts}))
    return tuple(
        host.name
        for host in hosts
        if host and _is_applicable(first, StepContext(host, plan.inventory.hosts, plan.get_host_facts(host.name), cause))
    )


def _is_applicable(step: PlanStep, context: StepContext) -> bool:
    try:
        return bool(build_remediation_steps(step, context, 0))
    except StepUnavailable:
        return False


def _list_manual_steps(leaf: Leaf, cause: Hypothesis) -> list[str]:
    if leaf.scope in HOST_SCOPES and cause.hosts:
        return []
    manual_texts = [step.manual_text for step in parse_plan(leaf.remedies[0]) if step.manual_text] if leaf.remedies else []
    return [f"{leaf.title}: {', then '.join(manual_texts)}."] if manual_texts else []


def build_remediation(
    label: str, host: Host, devices: tuple[str, ...], plan_context: PlanContext, remediations: Sequence[Remediation], *, plan: int = 0
) -> Remediation | None:
    """Return a new remediation from plan number `plan` on, after a failed one; None without a step left."""
    leaf = plan_context.taxonomy.leaves.get(label)
    if leaf is None or plan >= len(leaf.remedies):
        return None
    cause = Hypothesis(label=label, hosts=(host.name,), devices=devices)
    return _build_remediation(leaf, cause, host, plan_context, remediations, first=plan)[0]


def _build_remediation(
    leaf: Leaf, cause: Hypothesis, host: Host, plan: PlanContext, remediations: Sequence[Remediation], first: int = 0
) -> tuple[Remediation | None, list[str]]:
    step_context = StepContext(host, plan.inventory.hosts, plan.get_host_facts(host.name), cause, plan.job)
    shared = any(row.is_open and row.target == host.name and any(step.remedy == "drain_node" for step in row.rungs) for row in remediations)
    steps, words, missing = _build_plans(leaf, step_context, first, shared=shared)
    sentences = dict.fromkeys([*missing, *filter(None, words[first : first + 1])])
    manual_lines = [f"{leaf.title} on {host.name}: {sentence}." for sentence in sentences]
    if not steps:
        return None, manual_lines
    steps = _insert_emptying_steps(steps, step_context, plan)
    drains = any(step.remedy == "drain_node" for step in steps)
    steps += [build_return_step(host.name)] if drains and any(step.part == "fix" for step in steps) else []
    devices = tuple(name for name in cause.devices if name.partition("/")[0] == host.name)
    count = sum((row.label, row.target) == (leaf.label, host.name) for row in remediations)
    name = hashlib.sha256(f"{plan.incident} {leaf.label} {host.name} {count}".encode()).hexdigest()[:8]
    remediation = Remediation(id=name, label=leaf.label, target=host.name, devices=devices, rungs=tuple(steps), words=tuple(words))
    return enter_step(remediation, 0, plan), manual_lines


def _build_plans(leaf: Leaf, context: StepContext, first: int, *, shared: bool) -> tuple[list[RemediationStep], list[str], list[str]]:
    """Return all steps from plan `first` on, manual work per plan, and what cannot be offered."""
    steps: list[RemediationStep] = []
    words: list[str] = [""] * first
    missing: list[str] = []
    for number, plan in enumerate(leaf.remedies[first:], first):
        own, manual_steps, lost = _build_plan(
            parse_plan(plan), context, number, drained=shared or any(r.remedy == "drain_node" for r in steps)
        )
        steps += own
        words.append(manual_steps)
        missing += lost
        if not own and not steps:
            break  # the plan starts with manual work: change nothing on the host before that
    return steps, words, missing


def _build_plan(
    steps: Sequence[PlanStep], context: StepContext, number: int, *, drained: bool
) -> tuple[list[RemediationStep], str, list[str]]:
    """Return the steps before the first manual one, the manual work, and what cannot be offered."""
    rungs: list[RemediationStep] = []
    missing: list[str] = []
    for at, step in enumerate(steps):
        if step.kind == "people":
            return rungs, ", then ".join(filter(None, (later.manual_text for later in steps[at:]))), missing
        if step.name == "drain_node" and drained:
            continue
        try:
            rungs += build_remediation_steps(step, context, number)
        except StepUnavailable as error:
            missing.append(str(error))
            if step.name != "drain_node":
                return rungs, str(error), missing
    return rungs, "", missing


def _insert_emptying_steps(steps: list[RemediationStep], context: StepContext, plan: PlanContext) -> list[RemediationStep]:
    """Empty the node after the drain where a stuck job or endless pods would keep it busy."""
    at = next((n for n, step in enumerate(steps) if step.remedy == "drain_node"), None)
    needs_drained = any("drained" in REMEDIES[step.remedy].needs for step in steps)
    pods = context.host.scheduler == "kubernetes"
    if at is None or not needs_drained or not (pods or plan.stuck):
        return steps
    try:
        empties = build_remediation_steps(PlanStep("evict_pods" if pods else "cancel_job"), context, steps[at].plan)
    except StepUnavailable:
        return steps
    return [*steps[: at + 1], *empties, *steps[at + 1 :]]


def build_return_step(host: str) -> RemediationStep:
    return RemediationStep(remedy="resume_node", args={"node": host}, plan=-1, part="restore")


def build_approval_id(incident: str, remediation: Remediation) -> str:
    """Return the present attempt's approval id; deterministic, so that no action is proposed twice."""
    text = f"{incident} {remediation.id} {remediation.rung} {remediation.attempt}"
    return f"apr-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def enter_step(remediation: Remediation, at: int, plan: PlanContext) -> Remediation:
    """Enter step `at` and wait for a decision, or first for the node to become idle."""
    step, waiting_for = remediation.rungs[at], plan.waits
    remediation = remediation.model_copy(update={"rung": at, "attempt": 1, "outcome": "", "approval": "", "says": ""})
    if step.part == "restore":
        return remediation.model_copy(update={"waiting_for": "none", "due": None})
    if needs_idle_node(step, plan.inventory.hosts.get(remediation.target)):
        patience = waiting_for.busy if step.remedy in NODE_EMPTYING_REMEDIES else waiting_for.idle
        return remediation.model_copy(update={"waiting_for": "idle", "due": plan.now + patience})
    return request_approval(remediation, plan)


def request_approval(remediation: Remediation, plan: PlanContext) -> Remediation:
    return remediation.model_copy(
        update={"waiting_for": "approval", "due": None, "approval": build_approval_id(plan.incident, remediation)}
    )


def needs_idle_node(step: RemediationStep, host: Host | None) -> bool:
    """Return whether the node must be drained and without jobs; only a scheduler can tell."""
    return bool(host and host.controller) and (step.remedy in NODE_EMPTYING_REMEDIES or "drained" in REMEDIES[step.remedy].needs)
