"""Complaints that decide which checks run: slowness that an exclusive check measures, and intermittent trouble."""

import re
from collections.abc import Collection
from typing import Final

# Alternative checks (the first with enough named hosts is used) and lower-case names of what they measure. Wrong
# results are a symptom of their own (`graph.engine.verdict`).
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
_INTERMITTENT_PATTERN = re.compile(
    r"\b(?:sometimes|intermittent(?:ly)?|now and (?:then|again)|occasional(?:ly)?|sporadic(?:ally)?|random(?:ly)?|flap(?:s|ped|ping|py)?|"
    r"from time to time|on and off|off and on|once in a while|every now and|comes? and goes?|up and down|at times|non-?deterministic(?:ally)?|"
    r"unstable|flaky|every (?:few|couple of|other|\d{1,3}) ?(?:s|m|h|sec|min|hour|second|minute|step|iteration|epoch)\w{0,6}|"
    r"keeps? (?:dropping|flapping|coming back|bouncing|resetting)|again and again|one in (?:\w{1,6})|"
    r"ab und zu|manchmal|gelegentlich|sporadisch|zeitweise|hin und wieder|von zeit zu zeit|immer (?:mal )?wieder|"
    r"alle (?:paar|\d{1,3}) (?:sekunden|minuten|stunden)|zufällig|unregelmäßig)\b"
)
_NOT_INTERMITTENT_PATTERN = re.compile(
    r"\brandom (?:seed|init|weights|number|crop|sampl\w{1,4})|\b(?:not|never|n't|isn.t) (?:intermittent|sporadic|random|flapping)"
)
MAX_CHARS = 4000


def find_measuring_checks(text: str, symptoms: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """Return the checks that measure what the report calls slow, each with its alternatives."""
    if "slow" not in symptoms:
        return ()
    words = text.lower()
    return tuple(dict.fromkeys(checks for checks, pattern in COMPLAINT_CHECKS if pattern.search(words)))


def is_intermittent(text: str) -> bool:
    return _INTERMITTENT_PATTERN.search(_NOT_INTERMITTENT_PATTERN.sub(" ", text[:MAX_CHARS].lower())) is not None
