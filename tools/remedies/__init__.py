"""The remedy catalogue: rows joined into one table."""

from collections.abc import Mapping

from tools.remedies.rows import REMEDIES_ROWS
from tools.remedy import Remedy

REMEDIES: Mapping[str, Remedy] = {row.id: row for row in REMEDIES_ROWS}
