"""Whether a graph's run was cut off."""

from langgraph.types import StateSnapshot


def has_pending_tasks(snapshot: StateSnapshot) -> bool:
    """A step is still to be taken, or was taken and waits for its checkpoint.

    `snapshot.next` names only the steps to be taken: of a process that died between a node's writes and the checkpoint behind them
    it is empty, as at the end. New input would then drop those writes (seen: a turn's first node twice, measured with kill -9)."""
    return bool(snapshot.tasks)
