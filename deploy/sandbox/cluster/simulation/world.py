"""Build the cluster's state from healthy nodes, faults and deeds, in order. A pure function of the plan."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deploy.sandbox.cluster.cases.controls import CONTROLS
from deploy.sandbox.cluster.cases.modifiers import MODIFIERS
from deploy.sandbox.cluster.chance import dice
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.faults.scene import Scene
from deploy.sandbox.cluster.machines import healthy, training
from deploy.sandbox.cluster.machines.lines import Job
from deploy.sandbox.cluster.machines.profiles import DEFAULT_DRIVER, PROFILES
from deploy.sandbox.cluster.machines.state import ClusterState, ControllerState, NodeState
from deploy.sandbox.cluster.plan import Deed, Happening, Modifier, Plan
from deploy.sandbox.cluster.simulation import deeds

HOUR = 3600.0
START_SECONDS = 45.0  # a job that never starts was launched this many seconds before the fault showed

FATAL = ("never starts", "dies", "hangs")


@dataclass(frozen=True, slots=True)
class Stint:
    """One run. Faults with `first` to `last` earlier deeds affected it."""

    job: Job
    first: int
    last: int
    trained: bool


def build(plan: Plan, *, faded: bool = False, hidden: bool = False) -> ClusterState:
    """Build the state of a plan. `faded`: faults leave traces only in the logs. `hidden`: the same, but operator
    settings (image, partitions, network type) stay as they are.
    """
    runs = stints(plan)
    job = runs[-1].job
    nodes = {name: _node(plan, name, i, job) for i, name in enumerate(plan.names)}
    world = ClusterState(nodes, job, _controller(plan), plan.reported_job)
    for run in runs:
        training.write_healthy_log(run.job, world.nodes, plan.seed, trained=run.trained)
    over = [row for row in plan.happenings if row.ended is not None]
    _happen(world, over, plan, runs)
    if over:
        _fade(world, plan)
    lasting = [row for row in plan.happenings if row.ended is None]
    _happen(world, [row for row in lasting if row.after == 0], plan, runs)
    if faded or hidden:
        _fade(world, plan, settings=hidden)
    for modifier in plan.modifiers:
        row = CONTROLS.get(modifier.id) or MODIFIERS.get(modifier.id)
        if row is not None:
            row(world, modifier, plan.seed)
    for done, deed in enumerate(plan.deeds, 1):
        deeds.do(world, deed, plan.seed)
        _happen(world, [row for row in lasting if row.after == done], plan, runs)
    _settle(world)
    return world


def names_of(modifier: Modifier, names: Iterable[str]) -> list[str]:
    return [name for name in names if modifier.host in ("", "*", name)]


def _node(plan: Plan, name: str, index: int, job: Job) -> NodeState:
    profile, driver = plan.profile, DEFAULT_DRIVER
    for modifier in plan.of("R10"):
        if name in names_of(modifier, plan.names):
            driver = modifier.args.get("driver", driver)
            wanted = modifier.args.get("profile", modifier.args.get("sku", profile))
            profile = wanted if wanted in PROFILES else profile
    return healthy.node(PROFILES[profile], name, index, plan.seed, driver=driver, job=job, age=plan.age)


def _controller(plan: Plan) -> ControllerState | None:
    return ControllerState(plan.controller, deeds.boot_id(plan.seed, plan.controller, 0)) if plan.controller else None


def _happen(world: ClusterState, happenings: Iterable[Happening], plan: Plan, runs: Sequence[Stint]) -> None:
    for happening in happenings:
        for scene in _scenes(ClusterState(world.nodes, job_met(happening, plan, runs)), happening, plan.seed):
            FAULTS[happening.fault].act(scene)


def _scenes(world: ClusterState, happening: Happening, seed: int) -> list[Scene]:
    row = FAULTS[happening.fault]
    nodes = [world.nodes[name] for name in happening.nodes]
    at = happening.at - (START_SECONDS if row.job == "never starts" else 0.0)
    parts: Sequence[Sequence[NodeState]] = [nodes] if row.once else [[node] for node in nodes]
    scenes = []
    for part in parts:
        roll = dice(seed, happening.fault, happening.key, part[0].name)
        drawn = roll.randrange(8)
        for gpu in happening.gpus if happening.gpus and not row.once else happening.gpus[:1] or (drawn,):
            scenes.append(Scene(world, part, gpu, at, happening.args, roll))
    return scenes


def _fade(world: ClusterState, plan: Plan, *, settings: bool = False) -> None:
    """Make the nodes healthy but keep their logs; with `settings`, also image, network type and partitions."""
    for index, (name, sick) in enumerate(world.nodes.items()):
        node = _node(plan, name, index, world.job)
        node.kernel_log = sick.kernel_log
        node.journal = sick.journal
        node.booted = sick.booted
        if settings:
            _keep_settings(node, sick)
        world.nodes[name] = node


def _keep_settings(node: NodeState, sick: NodeState) -> None:
    node.around.image = sick.around.image
    for hca, was in zip(node.hcas, sick.hcas, strict=True):
        hca.pkeys = was.pkeys
        if hca.link_layer != was.link_layer:
            hca.link_layer = was.link_layer
            hca.rate = was.rate
            hca.lid = was.lid
            hca.sm_lid = was.sm_lid


def _settle(world: ClusterState) -> None:
    """Sort logs by time."""
    for node in world.nodes.values():
        node.kernel_log.sort(key=lambda line: line.t)
        node.journal.sort(key=lambda line: line.t)
    for rank in world.job.ranks:
        rank.lines.sort(key=lambda line: line.t)


def stints(plan: Plan) -> list[Stint]:
    """Return every run, the current one last."""
    begins = [0, *(i + 1 for i, deed in enumerate(plan.deeds) if deed.what == "job")]
    ends = [*(begin - 1 for begin in begins[1:]), len(plan.deeds)]
    return [_stint(plan, run, begin, end) for run, (begin, end) in enumerate(zip(begins, ends, strict=True))]


def job_met(happening: Happening, plan: Plan, runs: Sequence[Stint]) -> Job:
    """Return the run that a fault affected; a discarded one if none was active."""
    for run in runs:
        if run.first <= happening.after <= run.last:
            return run.job
    return training.new_job(plan.names, plan.seed, started=happening.at, ended=happening.at)


def ends_job(deed: Deed, plan: Plan) -> bool:
    """Return whether a deed ends the job."""
    return deed.what == "cancel" or (deed.what == "down" and deed.node in plan.names) or bool(deed.args.get("ends_job"))


def _stint(plan: Plan, run: int, begin: int, end: int) -> Stint:
    stop = next((i for i in range(begin, end) if ends_job(plan.deeds[i], plan)), None)
    last = end if stop is None else stop
    met = [h for h in plan.happenings if begin <= h.after <= last]
    fate, at = _fate(met)
    long_ago = at - START_SECONDS if fate == "never starts" else min(-3 * HOUR - plan.age, at - HOUR / 2)
    started = plan.deeds[begin - 1].at - START_SECONDS if run else long_ago
    ended = at if fate in ("dies", "never starts") else None
    stopped = stop is not None and (ended is None or plan.deeds[stop].at < ended)
    if stop is not None and stopped:
        ended = plan.deeds[stop].at
    job = training.new_job(plan.names, plan.seed, started=started, ended=ended, run=run)
    job.id = plan.job or training.new_job(plan.names, plan.seed, started=started, ended=ended).id
    job.silent_from = at if fate == "hangs" else None
    job.stopped = stopped
    _slow(job, met)
    return Stint(job, begin, last, fate != "never starts")


def _fate(met: Sequence[Happening]) -> tuple[str, float]:
    """Return the fate and end time of a run: of the fault that ended it first."""
    ends = [(h.at, FAULTS[h.fault].job) for h in met if FAULTS[h.fault].job in FATAL]
    at, fate = min(ends, default=(0.0, "runs"))
    return fate, at


def _slow(job: Job, met: Sequence[Happening]) -> None:
    slow = [h for h in met if FAULTS[h.fault].job == "slows"]
    if slow:
        job.slow_from = min(h.at for h in slow)
        job.slow_factor = 1.9
        mended = [h.ended for h in slow if h.ended is not None]
        job.slow_until = max(mended) if len(mended) == len(slow) else None
