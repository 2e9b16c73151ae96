"""Garbage collection thresholds. Python's default of 700 new objects cost a sixth of a fleet-wide check and blocks the
event loop.
"""

import gc

GC_YOUNG_THRESHOLD = 20_000  # new objects per young collection: some megabytes, thirty times fewer collections


def relax_garbage_collection() -> None:
    """Collect less often. For commands that process many facts."""
    gc.set_threshold(GC_YOUNG_THRESHOLD, 10, 10)


def freeze_startup_objects() -> None:
    """Exclude the objects of startup (modules, tables) from collection. For long-lived processes."""
    gc.collect()
    gc.freeze()
