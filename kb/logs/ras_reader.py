"""Reader for NCCL's RAS client: ranks that lag behind in their communicator.

A report has several lines, ranks last:

    Communicator ranks have different AllReduce operation counts
    15 ranks have launched up to operation 8812
    1 ranks have launched up to operation 8811
    Rank 6 -- GPU 6 managed by process 2201 on node 172.20.8.14
"""

import re
from collections.abc import Mapping
from typing import Any

RAS_NEEDLES = (
    "operation counts",
    "launched up to operation",
    "not launched any operations",
    " managed by process ",
    "[process information not found]",
)
_DIFFERENT_PATTERN = re.compile(r"ranks have different (\w{1,40}) operation counts")
_COUNT_PATTERN = re.compile(r"(\d{1,7}) ranks? have (?:launched up to operation (\d{1,18})|not launched any operations)")
_RANK_PATTERN = re.compile(
    r"Rank (\d{1,7})(?: has (?:launched up to operation (\d{1,18})|(not) launched any operations))? -- "
    r"(?:GPU \S{1,20} managed by process \d{1,10} on node (?P<node>[\w.:\[\]-]{1,80})|\[process information not found\])"
)
_MAX_COUNTS = 64  # counts kept per report; the client groups ranks, so there are few


class RasReader:
    """Line by line reader of a report."""

    def __init__(self) -> None:
        self._operation: str | None = None
        self._counts: list[tuple[int, int]] = []

    def read_line(self, line: str) -> Mapping[str, Any] | None:
        """Return a lagging rank's op, rank, node, launched, others and counts, or None."""
        if different := _DIFFERENT_PATTERN.search(line):
            self._operation = different[1]
            self._counts = []
            return None
        if self._operation is None:
            return None
        if count := _COUNT_PATTERN.search(line):
            self._counts = [*self._counts, (int(count[1]), int(count[2] or 0))][-_MAX_COUNTS:]
            return None
        rank = _RANK_PATTERN.search(line)
        if not rank or not self._counts:
            return None
        launched = int(rank[2] or 0) if rank[2] or rank[3] else self._counts[-1][1]
        majority_launched = max(self._counts)[1]
        if launched == majority_launched:
            return None
        node = {"node": rank["node"]} if rank["node"] else {}
        return {"op": self._operation, "rank": rank[1], "launched": launched, "others": majority_launched, **node, "counts": True}
