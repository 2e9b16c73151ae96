"""The remedy catalogue: one row a change, joined into one table. May import the action alone."""

from collections.abc import Mapping

from tools.remedies import gpu, machine, scheduler, software
from tools.remedies.row import Remedy

REMEDIES: Mapping[str, Remedy] = {row.id: row for row in (*scheduler.ROWS, *gpu.ROWS, *software.ROWS, *machine.ROWS)}
