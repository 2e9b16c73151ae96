"""Builds the cluster as it is: healthy nodes first, then what happened to them, in order. A pure function of the plan."""

from collections.abc import Iterable, Sequence

from deploy.sandbox.cluster import healthy, training
from deploy.sandbox.cluster.chance import dice
from deploy.sandbox.cluster.controls import CONTROLS
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.lines import Job
from deploy.sandbox.cluster.modifiers import MODIFIERS
from deploy.sandbox.cluster.plan import Happening, Modifier, Plan
from deploy.sandbox.cluster.profiles import DEFAULT_DRIVER, PROFILES
from deploy.sandbox.cluster.scene import Scene
from deploy.sandbox.cluster.state import NodeState, World

HOUR = 3600.0
START_SECONDS = 45.0
"""A job that never starts was launched this long before the fault showed."""


def build(plan: Plan, *, faded: bool = False) -> World:
    """The world of a plan, everything in it having happened. `faded`: what went wrong has left its traces in the logs and nowhere else."""
    job = _job(plan)
    world = World({name: _node(plan, name, i, job) for i, name in enumerate(plan.names)}, job)
    training.write_healthy_log(job, world.nodes, plan.seed, trained=_fate(plan)[0] != "never starts")
    for happening in plan.happenings:
        for scene in _scenes(world, happening, plan.seed):
            FAULTS[happening.fault].act(scene)
    if faded:
        _fade(world, plan)
    for modifier in plan.modifiers:
        row = CONTROLS.get(modifier.id) or MODIFIERS.get(modifier.id)
        if row is not None:
            row(world, modifier, plan.seed)
    _settle(world)
    return world


def names_of(modifier: Modifier, names: Iterable[str]) -> list[str]:
    """The nodes a modifier speaks of: its host, else all."""
    return [name for name in names if modifier.host in ("", "*", name)]


def _fate(plan: Plan) -> tuple[str, float]:
    """What became of the job, by the fault that ended it first, and when."""
    ends = [(h.at, FAULTS[h.fault].job) for h in plan.happenings if FAULTS[h.fault].job in ("never starts", "dies", "hangs")]
    at, fate = min(ends, default=(0.0, "runs"))
    return fate, at


def _job(plan: Plan) -> Job:
    fate, at = _fate(plan)
    started = at - START_SECONDS if fate == "never starts" else min(-3 * HOUR - plan.age, at - HOUR / 2)
    job = training.new_job(plan.names, plan.seed, started=started, ended=at if fate in ("dies", "never starts") else None)
    job.id = plan.job or job.id
    job.silent_from = at if fate == "hangs" else None
    slow = [h.at for h in plan.happenings if FAULTS[h.fault].job == "slows"]
    if slow:
        job.slow_from, job.slow_factor = min(slow), 1.9
    return job


def _node(plan: Plan, name: str, index: int, job: Job) -> NodeState:
    profile, driver = plan.profile, DEFAULT_DRIVER
    for modifier in plan.of("R10"):
        if name in names_of(modifier, plan.names):
            driver = modifier.args.get("driver", driver)
            wanted = modifier.args.get("profile", modifier.args.get("sku", profile))
            profile = wanted if wanted in PROFILES else profile
    return healthy.node(PROFILES[profile], name, index, plan.seed, driver=driver, job=job, age=plan.age)


def _scenes(world: World, happening: Happening, seed: int) -> list[Scene]:
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


def _fade(world: World, plan: Plan) -> None:
    """Healthy nodes again, with the logs of the sick ones."""
    for index, (name, sick) in enumerate(world.nodes.items()):
        node = _node(plan, name, index, world.job)
        node.kernel_log, node.journal, node.booted = sick.kernel_log, sick.journal, sick.booted
        world.nodes[name] = node


def _settle(world: World) -> None:
    """Logs in order of time."""
    for node in world.nodes.values():
        node.kernel_log.sort(key=lambda line: line.t)
        node.journal.sort(key=lambda line: line.t)
    for rank in world.job.ranks:
        rank.lines.sort(key=lambda line: line.t)
