"""Build the cluster's state from healthy nodes, faults and deeds, in order. A pure function of the plan."""

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
    """One run. Faults with `first` to `last` earlier deeds affected it."""

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
    over = [row for row in plan.injected_faults if row.ended is not None]
    _apply_faults(world, over, plan, runs)
    if over:
        _fade_faults(world, plan)
    lasting = [row for row in plan.injected_faults if row.ended is None]
    _apply_faults(world, [row for row in lasting if row.after == 0], plan, runs)
    if faded or hidden:
        _fade_faults(world, plan, settings=hidden)
    for modifier in plan.modifiers:
        row = CONTROLS.get(modifier.id) or MODIFIERS.get(modifier.id)
        if row is not None:
            row(world, modifier, plan.seed)
    for done, action in enumerate(plan.actions, 1):
        actions.apply_action(world, action, plan.seed)
        _apply_faults(world, [row for row in lasting if row.after == done], plan, runs)
    _sort_logs(world)
    return world


def get_modified_nodes(modifier: Modifier, names: Iterable[str]) -> list[str]:
    return [name for name in names if modifier.host in ("", "*", name)]


def _build_node(plan: Plan, name: str, index: int, job: Job) -> NodeState:
    profile, driver = plan.profile, DEFAULT_DRIVER
    for modifier in plan.of("R10"):
        if name in get_modified_nodes(modifier, plan.names):
            driver = modifier.args.get("driver", driver)
            wanted = modifier.args.get("profile", modifier.args.get("sku", profile))
            profile = wanted if wanted in PROFILES else profile
    return healthy.build_node(PROFILES[profile], name, index, plan.seed, driver=driver, job=job, age=plan.age)


def _build_controller(plan: Plan) -> ControllerState | None:
    return ControllerState(plan.controller, actions.make_boot_id(plan.seed, plan.controller, 0)) if plan.controller else None


def _apply_faults(world: ClusterState, injected_faults: Iterable[InjectedFault], plan: Plan, runs: Sequence[JobRun]) -> None:
    for injected_fault in injected_faults:
        for scene in _build_contexts(ClusterState(world.nodes, find_affected_job(injected_fault, plan, runs)), injected_fault, plan.seed):
            FAULTS[injected_fault.fault].act(scene)


def _build_contexts(world: ClusterState, injected_fault: InjectedFault, seed: int) -> list[FaultContext]:
    row = FAULTS[injected_fault.fault]
    nodes = [world.nodes[name] for name in injected_fault.nodes]
    at = injected_fault.at - (START_SECONDS if row.job == "never starts" else 0.0)
    parts: Sequence[Sequence[NodeState]] = [nodes] if row.once else [[node] for node in nodes]
    scenes = []
    for part in parts:
        roll = make_random(seed, injected_fault.fault, injected_fault.key, part[0].name)
        drawn = roll.randrange(8)
        for gpu in injected_fault.gpus if injected_fault.gpus and not row.once else injected_fault.gpus[:1] or (drawn,):
            scenes.append(FaultContext(world, part, gpu, at, injected_fault.args, roll))
    return scenes


def _fade_faults(world: ClusterState, plan: Plan, *, settings: bool = False) -> None:
    """Make the nodes healthy but keep their logs; with `settings`, also image, network type and partitions."""
    for index, (name, sick) in enumerate(world.nodes.items()):
        node = _build_node(plan, name, index, world.job)
        node.kernel_log = sick.kernel_log
        node.journal = sick.journal
        node.booted = sick.booted
        if settings:
            _keep_settings(node, sick)
        world.nodes[name] = node


def _keep_settings(node: NodeState, sick: NodeState) -> None:
    node.environment.image = sick.environment.image
    for hca, was in zip(node.hcas, sick.hcas, strict=True):
        hca.pkeys = was.pkeys
        if hca.link_layer != was.link_layer:
            hca.link_layer = was.link_layer
            hca.rate = was.rate
            hca.lid = was.lid
            hca.sm_lid = was.sm_lid


def _sort_logs(world: ClusterState) -> None:
    """Sort logs by time."""
    for node in world.nodes.values():
        node.kernel_log.sort(key=lambda line: line.t)
        node.journal.sort(key=lambda line: line.t)
    for rank in world.job.ranks:
        rank.lines.sort(key=lambda line: line.t)


def build_job_runs(plan: Plan) -> list[JobRun]:
    """Return every run, the current one last."""
    begins = [0, *(i + 1 for i, action in enumerate(plan.actions) if action.what == "job")]
    ends = [*(begin - 1 for begin in begins[1:]), len(plan.actions)]
    return [_build_job_run(plan, run, begin, end) for run, (begin, end) in enumerate(zip(begins, ends, strict=True))]


def find_affected_job(injected_fault: InjectedFault, plan: Plan, runs: Sequence[JobRun]) -> Job:
    """Return the run that a fault affected; a discarded one if none was active."""
    for run in runs:
        if run.first <= injected_fault.after <= run.last:
            return run.job
    return training.create_job(plan.names, plan.seed, started=injected_fault.at, ended=injected_fault.at)


def does_action_end_job(action: MachineAction, plan: Plan) -> bool:
    """Return whether a deed ends the job."""
    return action.what == "cancel" or (action.what == "down" and action.node in plan.names) or bool(action.args.get("ends_job"))


def _build_job_run(plan: Plan, run: int, begin: int, end: int) -> JobRun:
    stop = next((i for i in range(begin, end) if does_action_end_job(plan.actions[i], plan)), None)
    last = end if stop is None else stop
    met = [h for h in plan.injected_faults if begin <= h.after <= last]
    fate, at = _find_fate(met)
    long_ago = at - START_SECONDS if fate == "never starts" else min(-3 * HOUR - plan.age, at - HOUR / 2)
    started = plan.actions[begin - 1].at - START_SECONDS if run else long_ago
    ended = at if fate in ("dies", "never starts") else None
    stopped = stop is not None and (ended is None or plan.actions[stop].at < ended)
    if stop is not None and stopped:
        ended = plan.actions[stop].at
    job = training.create_job(plan.names, plan.seed, started=started, ended=ended, run=run)
    job.id = plan.job or training.create_job(plan.names, plan.seed, started=started, ended=ended).id
    job.silent_from = at if fate == "hangs" else None
    job.stopped = stopped
    _slow_job(job, met)
    return JobRun(job, begin, last, fate != "never starts")


def _find_fate(met: Sequence[InjectedFault]) -> tuple[str, float]:
    """Return the fate and end time of a run: of the fault that ended it first."""
    ends = [(h.at, FAULTS[h.fault].job) for h in met if FAULTS[h.fault].job in FATAL_FATES]
    at, fate = min(ends, default=(0.0, "runs"))
    return fate, at


def _slow_job(job: Job, met: Sequence[InjectedFault]) -> None:
    slow = [h for h in met if FAULTS[h.fault].job == "slows"]
    if slow:
        job.slow_from = min(h.at for h in slow)
        job.slow_factor = 1.9
        mended = [h.ended for h in slow if h.ended is not None]
        job.slow_until = max(mended) if len(mended) == len(slow) else None
