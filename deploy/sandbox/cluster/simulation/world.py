"""Build the cluster's state from healthy nodes, faults and actions, in order. A pure function of the plan."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deploy.sandbox.cluster.cases.controls import CONTROLS
from deploy.sandbox.cluster.cases.modifiers import MODIFIERS
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.faults.context import FaultContext
from deploy.sandbox.cluster.machines import healthy, training
from deploy.sandbox.cluster.machines.log_lines import Job
from deploy.sandbox.cluster.machines.profiles import DEFAULT_DRIVER, PROFILES
from deploy.sandbox.cluster.machines.state import ClusterState, ControllerState, NodeState
from deploy.sandbox.cluster.plan import InjectedFault, MachineAction, Modifier, Plan
from deploy.sandbox.cluster.seeded_random import make_random
from deploy.sandbox.cluster.simulation import actions

HOUR = 3600.0
START_SECONDS = 45.0  # a job that never starts was launched this many seconds before the fault showed

FATAL_FATES = ("never starts", "dies", "hangs")


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of the job. Faults that began after `first` to `last` actions affected it."""

    job: Job
    first: int
    last: int
    trained: bool


def build_world(plan: Plan, *, faded: bool = False, hidden: bool = False) -> ClusterState:
    """Build the state of a plan. `faded`: faults leave traces only in the logs. `hidden`: the same, but operator
    settings (image, partitions, network type) stay as they are.
    """
    runs = build_job_runs(plan)
    job = runs[-1].job
    nodes = {name: _build_node(plan, name, i, job) for i, name in enumerate(plan.names)}
    world = ClusterState(nodes, job, _build_controller(plan), plan.reported_job)
    for run in runs:
        training.write_healthy_log(run.job, world.nodes, plan.seed, trained=run.trained)
    ended_faults = [fault for fault in plan.injected_faults if fault.ended is not None]
    _apply_faults(world, ended_faults, plan, runs)
    if ended_faults:
        _fade_faults(world, plan)
    active_faults = [fault for fault in plan.injected_faults if fault.ended is None]
    _apply_faults(world, [fault for fault in active_faults if fault.after == 0], plan, runs)
    if faded or hidden:
        _fade_faults(world, plan, settings=hidden)
    for modifier in plan.modifiers:
        apply_modifier = CONTROLS.get(modifier.id) or MODIFIERS.get(modifier.id)
        if apply_modifier is not None:
            apply_modifier(world, modifier, plan.seed)
    for number, action in enumerate(plan.actions, 1):
        actions.apply_action(world, action, plan.seed)
        _apply_faults(world, [fault for fault in active_faults if fault.after == number], plan, runs)
    _sort_logs(world)
    return world


def get_modified_nodes(modifier: Modifier, names: Iterable[str]) -> list[str]:
    return [name for name in names if modifier.host in ("", "*", name)]


def _build_node(plan: Plan, name: str, index: int, job: Job) -> NodeState:
    profile, driver = plan.profile, DEFAULT_DRIVER
    for modifier in plan.of("R10"):
        if name in get_modified_nodes(modifier, plan.names):
            driver = modifier.args.get("driver", driver)
            other_profile = modifier.args.get("profile", modifier.args.get("sku", profile))
            if other_profile in PROFILES:
                profile = other_profile
    return healthy.build_node(PROFILES[profile], name, index, plan.seed, driver=driver, job=job, age=plan.age)


def _build_controller(plan: Plan) -> ControllerState | None:
    return ControllerState(plan.controller, actions.make_boot_id(plan.seed, plan.controller, 0)) if plan.controller else None


def _apply_faults(world: ClusterState, injected_faults: Iterable[InjectedFault], plan: Plan, runs: Sequence[JobRun]) -> None:
    for injected_fault in injected_faults:
        affected_world = ClusterState(world.nodes, find_affected_job(injected_fault, plan, runs))
        for context in _build_contexts(affected_world, injected_fault, plan.seed):
            FAULTS[injected_fault.fault].act(context)


def _build_contexts(world: ClusterState, injected_fault: InjectedFault, seed: int) -> list[FaultContext]:
    """Return one context for each node and GPU that the fault affects; only one context if it happens once for all."""
    fault = FAULTS[injected_fault.fault]
    nodes = [world.nodes[name] for name in injected_fault.nodes]
    at = injected_fault.at - (START_SECONDS if fault.job == "never starts" else 0.0)
    node_groups: Sequence[Sequence[NodeState]] = [nodes] if fault.once else [[node] for node in nodes]
    contexts = []
    for node_group in node_groups:
        roll = make_random(seed, injected_fault.fault, injected_fault.key, node_group[0].name)
        random_gpu = roll.randrange(8)  # drawn even if it is not used, so that later draws stay the same
        gpus = injected_fault.gpus or (random_gpu,)
        if fault.once:
            gpus = gpus[:1]
        for gpu in gpus:
            contexts.append(FaultContext(world, node_group, gpu, at, injected_fault.args, roll))
    return contexts


def _fade_faults(world: ClusterState, plan: Plan, *, settings: bool = False) -> None:
    """Make the nodes healthy but keep their logs; with `settings`, also image, network type and partitions."""
    for index, (name, faulty_node) in enumerate(world.nodes.items()):
        node = _build_node(plan, name, index, world.job)
        node.kernel_log = faulty_node.kernel_log
        node.journal = faulty_node.journal
        node.booted = faulty_node.booted
        if settings:
            _keep_settings(node, faulty_node)
        world.nodes[name] = node


def _keep_settings(node: NodeState, faulty_node: NodeState) -> None:
    node.environment.image = faulty_node.environment.image
    for hca, faulty_hca in zip(node.hcas, faulty_node.hcas, strict=True):
        hca.pkeys = faulty_hca.pkeys
        if hca.link_layer != faulty_hca.link_layer:
            hca.link_layer = faulty_hca.link_layer
            hca.rate = faulty_hca.rate
            hca.lid = faulty_hca.lid
            hca.sm_lid = faulty_hca.sm_lid


def _sort_logs(world: ClusterState) -> None:
    for node in world.nodes.values():
        node.kernel_log.sort(key=lambda line: line.t)
        node.journal.sort(key=lambda line: line.t)
    for rank in world.job.ranks:
        rank.lines.sort(key=lambda line: line.t)


def build_job_runs(plan: Plan) -> list[JobRun]:
    """Return every run, the current one last."""
    restarts = [number for number, action in enumerate(plan.actions) if action.kind == "job"]
    begins = [0, *(number + 1 for number in restarts)]
    ends = [*restarts, len(plan.actions)]
    return [_build_job_run(plan, run, begin, end) for run, (begin, end) in enumerate(zip(begins, ends, strict=True))]


def find_affected_job(injected_fault: InjectedFault, plan: Plan, runs: Sequence[JobRun]) -> Job:
    """Return the run that a fault affected; a discarded one if none was active."""
    for run in runs:
        if run.first <= injected_fault.after <= run.last:
            return run.job
    return training.create_job(plan.names, plan.seed, started=injected_fault.at, ended=injected_fault.at)


def does_action_end_job(action: MachineAction, plan: Plan) -> bool:
    """Return whether an action ends the job."""
    stops_node = action.kind == "down" and action.node in plan.names
    return action.kind == "cancel" or stops_node or bool(action.args.get("ends_job"))


def _build_job_run(plan: Plan, run: int, begin: int, end: int) -> JobRun:
    stop = next((i for i in range(begin, end) if does_action_end_job(plan.actions[i], plan)), None)
    last = end if stop is None else stop
    faults = [fault for fault in plan.injected_faults if begin <= fault.after <= last]
    fate, at = _find_fate(faults)
    first_start = at - START_SECONDS if fate == "never starts" else min(-3 * HOUR - plan.age, at - HOUR / 2)
    started = plan.actions[begin - 1].at - START_SECONDS if run else first_start
    ended = at if fate in ("dies", "never starts") else None
    stopped = stop is not None and (ended is None or plan.actions[stop].at < ended)
    if stop is not None and stopped:
        ended = plan.actions[stop].at
    job = training.create_job(plan.names, plan.seed, started=started, ended=ended, run=run)
    job.id = plan.job or training.create_job(plan.names, plan.seed, started=started, ended=ended).id
    job.silent_from = at if fate == "hangs" else None
    job.stopped = stopped
    _slow_job(job, faults)
    return JobRun(job, begin, last, fate != "never starts")


def _find_fate(faults: Sequence[InjectedFault]) -> tuple[str, float]:
    """Return the fate and end time of a run: of the fault that ended it first."""
    ends = [(fault.at, FAULTS[fault.fault].job) for fault in faults if FAULTS[fault.fault].job in FATAL_FATES]
    at, fate = min(ends, default=(0.0, "runs"))
    return fate, at


def _slow_job(job: Job, faults: Sequence[InjectedFault]) -> None:
    slowing_faults = [fault for fault in faults if FAULTS[fault.fault].job == "slows"]
    if slowing_faults:
        job.slow_from = min(fault.at for fault in slowing_faults)
        job.slow_factor = 1.9
        end_times = [fault.ended for fault in slowing_faults if fault.ended is not None]
        job.slow_until = max(end_times) if len(end_times) == len(slowing_faults) else None
