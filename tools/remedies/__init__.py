"""The remedy catalogue: one row a change, joined into one table. May import the action alone."""

from collections.abc import Mapping, Sequence

from tools.remedies import gpu, kubernetes, machine, scheduler, software
from tools.remedies.remedy import Remedy

REMEDIES: Mapping[str, Remedy] = {row.id: row for row in (*scheduler.ROWS, *kubernetes.ROWS, *gpu.ROWS, *software.ROWS, *machine.ROWS)}

REMEDY_VARIANTS: Mapping[str, Remedy] = {way.id: way for row in REMEDIES.values() for way in row.ways.values()}
"""How another scheduler does what a row says, by their own ids: the node kit has them beside the rows."""


def get_scheduler_variant(remedy: Remedy, scheduler: str) -> Remedy:
    """The row that is carried out where this scheduler is asked."""
    return remedy.ways.get(scheduler, remedy)


def get_executed_remedy(argv: Sequence[str], remedy: str) -> Remedy:
    """The row that an action is carried out by: its own id stands first in `argv`. KeyError for one that the catalogue has no more."""
    return REMEDY_VARIANTS[argv[0]] if argv and argv[0] in REMEDY_VARIANTS else REMEDIES[remedy]
