"""The remedy catalogue: one row a change, joined into one table. May import the action alone."""

from collections.abc import Mapping, Sequence

from tools.remedies import gpu, kubernetes, machine, scheduler, software
from tools.remedies.remedy import Remedy

REMEDIES: Mapping[str, Remedy] = {
    remedy.id: remedy for remedy in (*scheduler.ROWS, *kubernetes.ROWS, *gpu.ROWS, *software.ROWS, *machine.ROWS)
}

# Rows for other schedulers, by their own ids. The node kit holds them beside the main rows.
REMEDY_VARIANTS: Mapping[str, Remedy] = {variant.id: variant for remedy in REMEDIES.values() for variant in remedy.ways.values()}


def get_scheduler_variant(remedy: Remedy, scheduler: str) -> Remedy:
    """Return the row for this scheduler."""
    return remedy.ways.get(scheduler, remedy)


def get_executed_remedy(argv: Sequence[str], remedy: str) -> Remedy:
    """Return the row with the id `argv[0]`. KeyError if the catalogue no longer has it."""
    return REMEDY_VARIANTS[argv[0]] if argv and argv[0] in REMEDY_VARIANTS else REMEDIES[remedy]
