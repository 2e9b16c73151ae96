"""Complaints that an exclusive check can measure: "slow all_reduce" names collectives, "something is wrong" names none.
Pure.
"""

import re
from collections.abc import Collection
from typing import Final

# Alternative checks (the first with enough named hosts is used) and lower-case names of what they measure. Wrong
# results are a symptom of their own (`graph.engine.hidden_causes`).
COMPLAINT_CHECKS: Final[tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]] = (
    (("nccl2", "ibbw", "nccl1"), re.compile(r"\b(?:all[_-]?(?:reduces?|gathers?|to[_-]?alls?)|reduce[_-]?scatters?|collectives?)\b")),
    (("nccl2", "ibbw", "nccl1"), re.compile(r"\b(?:bus ?bw|nccl[_ -]tests?)\b")),
    (
        ("ibbw",),
        re.compile(r"\bib_(?:write|read|send)_(?:bw|lat)\b|\brdma\b|\bgpu ?direct\b|\b(?:infiniband|ib) (?:bandwidth|throughput|speed)\b"),
    ),
    (("bw",), re.compile(r"\b(?:h2d|d2h|host[ -]to[ -]device|device[ -]to[ -]host|bandwidthtest|pcie (?:bandwidth|cop(?:y|ies)|speed))\b")),
    (("p2p",), re.compile(r"\b(?:p2p|peer[ -]to[ -]peer|nvlink (?:bandwidth|throughput|speed|cop(?:y|ies)))\b")),
    (("gemm",), re.compile(r"\b(?:gemms?|matmuls?|matrix mult\w{1,12}|t(?:era)?flops)\b")),
)


def find_measuring_checks(text: str, symptoms: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """Return the checks that measure what the report calls slow, each with its alternatives."""
    if "slow" not in symptoms:
        return ()
    words = text.lower()
    return tuple(dict.fromkeys(checks for checks, pattern in COMPLAINT_CHECKS if pattern.search(words)))
