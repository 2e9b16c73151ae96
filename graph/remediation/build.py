"""Build remediations from a diagnosis: per cause and host the ordered steps. Pure.

A remediation never changes more than one host. Those of one host share its drain: the first drains the node, which
returns only when all are done (`graph.remediation.transitions`).
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
    yard: PlanContext,
    known: Sequence[Remediation] = (),
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
    blocking = [row for row in known if row.is_open or row.outcome == "unknown" or (row.outcome not in FAULT_GONE_OUTCOMES and not anew)]
    built: list[Remediation] = []
    by_hand: list[str] = []
    for cause in causes:
        leaf = yard.taxonomy.leaves.get(cause.label)
        if leaf is None:
            continue
        hosts = [host for name in find_remediation_hosts(cause, yard) if (host := yard.inventory.hosts.get(name))]
        for host in hosts:
            if (cause.label, host.name) in elsewhere or any((row.label, row.target) == (cause.label, host.name) for row in blocking):
                continue
            ladder, words = _build_remediation(leaf, cause, host, yard, [*known, *built])
            by_hand += words
            built += [ladder] if ladder and len(built) + len(known) < MAX_REMEDIATIONS else []
        by_hand += _list_manual_steps(leaf, cause) if not hosts and (cause.label, "") not in elsewhere else []
    return BuiltRemediations(tuple(built), tuple(dict.fromkeys(by_hand)))


def list_manual_work(ladders: Iterable[Remediation], taxonomy: Taxonomy) -> tuple[str, ...]:
    """Return the manual work of these remediations' present plans; none where the fault is gone."""
    said = [(row, _get_manual_work(row)) for row in ladders if row.outcome not in FAULT_GONE_OUTCOMES]
    return tuple(dict.fromkeys(f"{taxonomy.get_title(row.label)} on {row.target}: {words}." for row, words in said if words))


def _get_manual_work(ladder: Remediation) -> str:
    plan = ladder.tried if ladder.current_step is None or ladder.current_step.part == "restore" else ladder.current_step.plan
    return ladder.words[plan] if 0 <= plan < len(ladder.words) else ""


def find_remediation_hosts(cause: Hypothesis, yard: PlanContext) -> tuple[str, ...]:
    """Return where a remediation begins. A job cause has no host of its own; if a command repairs it, these are the
    hosts to which it applies.
    """
    leaf = yard.taxonomy.leaves.get(cause.label)
    if leaf is None or leaf.scope in HOST_SCOPES:
        return cause.hosts
    if leaf.scope != "job" or not leaf.remedies:
        return ()
    first = parse_plan(leaf.remedies[0])[0]
    if first.kind != "remedy":
        return ()
    hosts = (yard.inventory.hosts.get(name) for name in sorted({fact.host for fact in yard.facts}))
    return tuple(
        host.name
        for host in hosts
        if host and _is_applicable(first, StepContext(host, yard.inventory.hosts, yard.get_host_facts(host.name), cause))
    )


def _is_applicable(step: PlanStep, ground: StepContext) -> bool:
    try:
        return bool(build_remediation_steps(step, ground, 0))
    except StepUnavailable:
        return False


def _list_manual_steps(leaf: Leaf, cause: Hypothesis) -> list[str]:
    if leaf.scope in HOST_SCOPES and cause.hosts:
        return []
    said = [step.manual_text for step in parse_plan(leaf.remedies[0]) if step.manual_text] if leaf.remedies else []
    return [f"{leaf.title}: {', then '.join(said)}."] if said else []


def build_remediation(
    label: str, host: Host, devices: tuple[str, ...], yard: PlanContext, known: Sequence[Remediation], *, plan: int = 0
) -> Remediation | None:
    """Return a new remediation from plan number `plan` on, after a failed one; None without a step left."""
    leaf = yard.taxonomy.leaves.get(label)
    if leaf is None or plan >= len(leaf.remedies):
        return None
    cause = Hypothesis(label=label, hosts=(host.name,), devices=devices)
    return _build_remediation(leaf, cause, host, yard, known, first=plan)[0]


def _build_remediation(
    leaf: Leaf, cause: Hypothesis, host: Host, yard: PlanContext, known: Sequence[Remediation], first: int = 0
) -> tuple[Remediation | None, list[str]]:
    ground = StepContext(host, yard.inventory.hosts, yard.get_host_facts(host.name), cause, yard.job)
    shared = any(row.is_open and row.target == host.name and any(rung.remedy == "drain_node" for rung in row.rungs) for row in known)
    rungs, words, missing = _build_plans(leaf, ground, first, shared=shared)
    sentences = dict.fromkeys([*missing, *filter(None, words[first : first + 1])])
    said = [f"{leaf.title} on {host.name}: {sentence}." for sentence in sentences]
    if not rungs:
        return None, said
    rungs = _insert_emptying_steps(rungs, ground, yard)
    drains = any(rung.remedy == "drain_node" for rung in rungs)
    rungs += [build_return_step(host.name)] if drains and any(rung.part == "fix" for rung in rungs) else []
    devices = tuple(name for name in cause.devices if name.partition("/")[0] == host.name)
    count = sum((row.label, row.target) == (leaf.label, host.name) for row in known)
    name = hashlib.sha256(f"{yard.incident} {leaf.label} {host.name} {count}".encode()).hexdigest()[:8]
    ladder = Remediation(id=name, label=leaf.label, target=host.name, devices=devices, rungs=tuple(rungs), words=tuple(words))
    return enter_step(ladder, 0, yard), said


def _build_plans(leaf: Leaf, ground: StepContext, first: int, *, shared: bool) -> tuple[list[RemediationStep], list[str], list[str]]:
    """Return all steps from plan `first` on, manual work per plan, and what cannot be offered."""
    rungs: list[RemediationStep] = []
    words: list[str] = [""] * first
    missing: list[str] = []
    for number, plan in enumerate(leaf.remedies[first:], first):
        own, left, lost = _build_plan(parse_plan(plan), ground, number, drained=shared or any(r.remedy == "drain_node" for r in rungs))
        rungs += own
        words.append(left)
        missing += lost
        if not own and not rungs:
            break  # the plan starts with manual work: change nothing on the host before that
    return rungs, words, missing


def _build_plan(
    steps: Sequence[PlanStep], ground: StepContext, number: int, *, drained: bool
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
            rungs += build_remediation_steps(step, ground, number)
        except StepUnavailable as why:
            missing.append(str(why))
            if step.name != "drain_node":
                return rungs, str(why), missing
    return rungs, "", missing


def _insert_emptying_steps(rungs: list[RemediationStep], ground: StepContext, yard: PlanContext) -> list[RemediationStep]:
    """Empty the node after the drain where a stuck job or endless pods would keep it busy."""
    at = next((n for n, rung in enumerate(rungs) if rung.remedy == "drain_node"), None)
    waits = any("drained" in REMEDIES[rung.remedy].needs for rung in rungs)
    pods = ground.host.scheduler == "kubernetes"
    if at is None or not waits or not (pods or yard.stuck):
        return rungs
    try:
        empties = build_remediation_steps(PlanStep("evict_pods" if pods else "cancel_job"), ground, rungs[at].plan)
    except StepUnavailable:
        return rungs
    return [*rungs[: at + 1], *empties, *rungs[at + 1 :]]


def build_return_step(host: str) -> RemediationStep:
    return RemediationStep(remedy="resume_node", args={"node": host}, plan=-1, part="restore")


def build_approval_id(incident: str, ladder: Remediation) -> str:
    """Return the present attempt's approval id; deterministic, so that no action is proposed twice."""
    text = f"{incident} {ladder.id} {ladder.rung} {ladder.attempt}"
    return f"apr-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def enter_step(ladder: Remediation, at: int, yard: PlanContext) -> Remediation:
    """Enter step `at` and wait for a decision, or first for the node to become idle."""
    rung, waits = ladder.rungs[at], yard.waits
    ladder = ladder.model_copy(update={"rung": at, "attempt": 1, "outcome": "", "approval": "", "says": ""})
    if rung.part == "restore":
        return ladder.model_copy(update={"waiting_for": "none", "due": None})
    if needs_idle_node(rung, yard.inventory.hosts.get(ladder.target)):
        patience = waits.busy if rung.remedy in NODE_EMPTYING_REMEDIES else waits.idle
        return ladder.model_copy(update={"waiting_for": "idle", "due": yard.now + patience})
    return request_approval(ladder, yard)


def request_approval(ladder: Remediation, yard: PlanContext) -> Remediation:
    return ladder.model_copy(update={"waiting_for": "approval", "due": None, "approval": build_approval_id(yard.incident, ladder)})


def needs_idle_node(rung: RemediationStep, host: Host | None) -> bool:
    """Return whether the node must be drained and without jobs; only a scheduler can tell."""
    return bool(host and host.controller) and (rung.remedy in NODE_EMPTYING_REMEDIES or "drained" in REMEDIES[rung.remedy].needs)
