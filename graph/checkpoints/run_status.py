"""Detect an interrupted graph run."""

from langgraph.types import StateSnapshot


def has_pending_tasks(snapshot: StateSnapshot) -> bool:
    """Return whether a step has yet to run, or ran and lacks its checkpoint.

    `snapshot.next` is not enough: after a process died between a node's writes and their checkpoint it is empty, as at
    the end, and new input would drop those writes (measured with kill -9: a turn's first node ran twice).
    """
    return bool(snapshot.tasks)
