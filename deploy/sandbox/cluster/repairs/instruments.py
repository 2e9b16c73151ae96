"""The node kit's root tools on a simulated machine: output, refusals and changes. The cluster applies the
outcome.
"""

from collections.abc import Callable, Mapping, Sequence

from deploy.sandbox.cluster.answer import ShellAnswer, said
from deploy.sandbox.cluster.grammar import fits
from deploy.sandbox.cluster.machines import kubernetes, scheduler
from deploy.sandbox.cluster.machines.state import ClusterState
from deploy.sandbox.cluster.repairs import gpu_tools, node_tools
from deploy.sandbox.cluster.repairs.tool_run import OnNode, Outcome, Slots, ToolRun


def outcome(place: ToolRun, argv: Sequence[str]) -> Outcome | None:
    """Return a command's outcome, or None if no remedy uses it."""
    for template, act in ON_NODES.items():
        slots = fits(template, argv)
        if slots is not None:
            return act(place.node, place, slots) if place.node else Outcome(_not_found(argv[0]))
    for line, ask in ON_CONTROLLER.items():
        slots = fits(tuple(line.split()), argv)
        if slots is not None:
            asked = ask(place.world, place.at, slots, place.scheduler_refuses)
            return Outcome(asked.answer, (asked.deed,) if asked.deed else (), seconds=1.0)
    for line, change in kubernetes.CHANGES.items():
        slots = fits(tuple(line.split()), argv)
        if slots is not None:
            answer, deed = change(place.world, place.at, slots, place.scheduler_refuses)
            return Outcome(answer, (deed,) if deed else (), seconds=1.0)
    return None


def _not_found(word: str) -> ShellAnswer:
    return said("", 127, f"{word}: command not found\n")


# commands on a GPU node, as the kit's preconditions and remedies spell them
ON_NODES: Mapping[tuple[str, ...], OnNode] = {
    **{tuple(line.split()): act for line, act in {**gpu_tools.TOOLS, **node_tools.TOOLS}.items()},
    node_tools.OLD_FILES: node_tools.old_files,
}

# scheduler commands that change something
ON_CONTROLLER: Mapping[str, Callable[[ClusterState, float, Slots, str], scheduler.SlurmReply]] = {
    "scontrol update NodeName=<node> State=DRAIN Reason=<reason>": scheduler.drain,
    "scontrol update NodeName=<node> State=RESUME": scheduler.resume,
    "scancel <job>": scheduler.cancel,
}
