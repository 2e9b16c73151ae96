"""All-gather over groups of hosts that `slow_group_search` plans, to find the slow one.

A group is bad if it fails or its bus bandwidth is below a share of what the SKU expects of two nodes, or else of the
run's best group. The inventory sets the launcher: `mpi` from the group's first host, `srun` on its controller,
`torchrun` on every host at once.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tools.checks.check_types import Check, CheckParticipant, Command, CommandFacts, Format, JointResult, RunNamedCommand, Unreadable
from tools.checks.exclusive import probes
from tools.checks.exclusive.nccl import is_nccl, parse_nccl
from tools.checks.exclusive.slow_group_search import HostGroup, LocalisationResult, localise_slow_hosts
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "nccl2"
SLOW_RATIO = 0.8  # of the reference; a healthy fabric varies by 20 % once in a while
PROBE = probes.load_probe("allgather")
INSTALL_HINT = "nccl-tests built with MPI=1 in the folder that the inventory calls nccl_tests: https://github.com/NVIDIA/nccl-tests, and mpirun or srun"
_SIZES = ("-b", "1G", "-e", "1G", "-g", "1", "-c", "1", "-n", "20")
_TEST_COMMAND = ("{nccl_tests}/all_gather_perf", *_SIZES)
LAUNCH_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "mpi": ("mpirun", "--host", "{hosts}", "-np", "{ranks}", "--bind-to", "none", "-x", "LD_LIBRARY_PATH", *_TEST_COMMAND),
    "srun": (
        *("srun", "--nodes={count}", "--nodelist={nodes}", "--ntasks-per-node={gpus}", "--gpus-per-node={gpus}"),
        *("--exclusive", "--immediate=30", "--time=3", "--mpi=pmix", *_TEST_COMMAND),
    ),
    "torchrun": (
        *("torchrun", "--nnodes={count}", "--nproc-per-node={gpus}", "--rdzv-backend=c10d", "--rdzv-endpoint={peer}:29577"),
        *("--rdzv-conf=timeout=45", "--no-python", "python3", "-c", PROBE),
    ),
}


def parse_pair(text: str) -> Sequence[Fact]:
    wanted_keys = ("nccl.busbw_max", "nccl.failure", "nccl.wrong")
    facts = [replace(fact, check=CHECK) for fact in parse_nccl(text) if fact.key in wanted_keys or not fact.key]
    if not facts:
        raise Unreadable("no bandwidth between ranks was measured")
    return facts


@dataclass(slots=True)
class _GroupRun:
    """`busbw` 0: it failed; None: not measured."""

    busbw: float | None
    line: str = ""
    facts: list[Fact] = field(default_factory=list)


async def run_pairs(parties: Sequence[CheckParticipant], say: RunNamedCommand) -> JointResult:
    """Run the planner's rounds, each round's groups in parallel."""
    by_name = {party.host: party for party in parties}
    search = localise_slow_hosts(sorted(by_name), lambda host: by_name[host].leaf)
    runs: dict[HostGroup, _GroupRun] = {}
    missing: set[str] = set()
    seconds = 0.0
    try:
        worlds = next(search)
        while True:
            pair_runs = await asyncio.gather(*(_launch_group([by_name[host] for host in world], say) for world in worlds))
            seconds += max((answer.seconds for answer in pair_runs), default=0.0)
            missing |= {world[0] for world, answer in zip(worlds, pair_runs, strict=True) if answer.missing}
            runs |= {world: _build_group_run(answer) for world, answer in zip(worlds, pair_runs, strict=True)}
            worlds = search.send({world: _is_bad_group(world, runs, by_name) for world in worlds})
    except StopIteration as error:
        located: LocalisationResult = error.value
    return JointResult({host: _build_host_facts(host, located, runs, by_name) for host in by_name}, seconds, frozenset(missing))


async def _launch_group(world: Sequence[CheckParticipant], say: RunNamedCommand) -> CommandFacts:
    first = world[0]
    slots = {
        "hosts": ",".join(f"{party.host}:{party.gpus}" for party in world),
        "nodes": ",".join(party.host for party in world),
        "ranks": str(sum(party.gpus for party in world)),
        "count": str(len(world)),
        "peer": first.host,
    }
    if first.launcher == "torchrun":
        return (await asyncio.gather(*(say("torchrun", party.host, slots) for party in world)))[0]
    if first.launcher == "srun" and first.controller:
        return await say("srun", first.controller, slots)
    return await say("mpi", first.host, slots)


def _build_group_run(answer: CommandFacts) -> _GroupRun:
    failed = next((fact for fact in answer.facts if fact.key == "nccl.failure"), None)
    best = max((float(fact.value) for fact in answer.facts if fact.key == "nccl.busbw_max" and isinstance(fact.value, float)), default=None)
    own = ("missing_tool", "not_enough_slots")
    if failed and failed.value not in own:
        return _GroupRun(0.0, failed.line)
    if best is None:
        return _GroupRun(None, failed.line if failed else next((fact.line for fact in answer.facts), "no answer"))
    return _GroupRun(best, next(fact.line for fact in answer.facts if fact.key == "nccl.busbw_max"))


def _is_bad_group(world: HostGroup, runs: Mapping[HostGroup, _GroupRun], parties: Mapping[str, CheckParticipant]) -> bool | None:
    busbw = runs[world].busbw
    if busbw is None:
        return None
    return busbw < SLOW_RATIO * _get_reference_busbw(parties[world[0]], runs)


def _get_reference_busbw(party: CheckParticipant, runs: Mapping[HostGroup, _GroupRun]) -> float:
    expected = party.expects("nccl.pair_busbw")
    if isinstance(expected, int | float) and not isinstance(expected, bool):
        return float(expected)
    return max((run.busbw or 0.0 for run in runs.values()), default=0.0)


def _build_host_facts(
    host: str, located: LocalisationResult, runs: Mapping[HostGroup, _GroupRun], parties: Mapping[str, CheckParticipant]
) -> list[Fact]:
    own_runs = {world: run for world, run in runs.items() if host in world}
    measured_runs = {world: run for world, run in own_runs.items() if run.busbw is not None}
    if not measured_runs:
        reason = next((run.line for run in own_runs.values() if run.line), "no group with this host ran")
        return [build_unobserved_fact(CHECK, Status.UNREADABLE, reason)]
    group, best = max(measured_runs.items(), key=lambda run: run[1].busbw or 0.0)
    mates = [mate for mate in group if mate != host]
    facts = [Fact(CHECK, "nccl.pair_busbw", best.busbw, unit="GB/s", line=best.line[:300], attrs={"with": mates})] if best.busbw else []
    verdict = _build_verdict_fact(host, located, measured_runs, mates)
    facts += [verdict] if verdict else []
    leaf = parties[host].leaf
    if leaf and leaf in located.leaves:
        facts.append(Fact(CHECK, "nccl.slow_leaf", leaf, line=f"groups of leaf {leaf} are slow and none of its hosts alone is to blame"))
    return facts


def _build_verdict_fact(host: str, located: LocalisationResult, runs: Mapping[HostGroup, _GroupRun], mates: Sequence[str]) -> Fact | None:
    """No verdict for hosts that could not be separated."""
    line = "; ".join(_format_group_rate(host, world, run) for world, run in runs.items())[:300]
    if host in located.hosts:
        failed = not any(run.busbw for run in runs.values())
        return Fact(CHECK, "nccl.suspect", "failed" if failed else "slow", line=line, attrs={"with": list(mates)})
    if host in located.among or any(host in pair for pair in located.pairs):
        return None
    return Fact(CHECK, "nccl.suspect", "clean", line=line, attrs={"with": list(mates)})


def _format_group_rate(host: str, world: HostGroup, run: _GroupRun) -> str:
    mates = " ".join(mate for mate in world if mate != host)
    return f"{host} with {mates}: {f'{run.busbw:g} GB/s' if run.busbw else 'failed'}"


CHECKS = (
    Check(
        id=CHECK,
        asks="Which host, pair or leaf switch slows an all-gather between hosts?",
        commands=tuple(Command(name, argv) for name, argv in LAUNCH_COMMANDS.items()),
        formats=(Format("nccl-tests", is_nccl, parse_pair),),
        establishes=("nccl.pair_busbw", "nccl.suspect", "nccl.slow_leaf", "nccl.busbw_max", "nccl.failure", "nccl.wrong"),
        seconds=90.0,
        scope="group",
        exclusive=True,
        timeout=120.0,
        tool=INSTALL_HINT,
        together=run_pairs,
    ),
)
