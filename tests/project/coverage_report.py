"""Which check sees which fault, on the simulated cluster: `python -m tests.project.coverage_report` writes
docs/COVERAGE.md, a test compares it.

A check sees a fault if its facts differ from those of the same cluster whose job ended alike without the fault; logs
are compared with a healthy cluster's running job, and the mere end of ranks that lost a peer does not count.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.cases.reader import parse_case
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.machines.profiles import WITHOUT_NVLINK
from deploy.sandbox.cluster.machines.state import ClusterState, HcaState, NodeState
from deploy.sandbox.cluster.machines.training import NCCL_VERSION
from kb.logs.job_error_rules import CONSEQUENCE_CAUSES
from tests.support.fakes_cluster import cluster, fleet
from tools.checks import CHECKS
from tools.checks.check_types import Check, Format
from tools.evidence import MemoryEvidence
from tools.fact import Fact
from tools.fleet.answers import CheckRequest

COVERAGE = Path(__file__).parents[2] / "docs" / "COVERAGE.md"
NODES = 3
PROFILE = "dgx-h100-8"
LOGS = ("dmesg", "sysd", "joblog")  # checks that keep history; compared with those of a running job
MOST_KEYS = 8

# the verification checks of AidAI's taxonomy (category, check), our counterparts, and differences
AIDAI = (
    ("GPU", "GPU configuration check", ("smi", "topo", "dcgm1"), ""),
    ("GPU", "GPU NVLink check", ("nvlink", "topo", "p2p"), ""),
    ("GPU", "Host-device bandwidth check", ("bw", "lspci"), ""),
    ("GPU", "GPU execution check", ("cuda", "gemm", "dcgm2", "sdc"), ""),
    ("System Software", "CUDA execution check", ("cuda", "docker", "vers"), ""),
    ("System Software", "GPU driver check", ("mods", "smi", "sysd"), ""),
    ("System Software", "Dmesg check", ("dmesg",), ""),
    ("System Software", "System configuration check", ("sysd", "disk", "mem", "cpu", "time", "store", "procs"), ""),
    ("Interconnect & Networking", "Collective communication check", ("nccl1", "nccl2"), ""),
    ("Interconnect & Networking", "NIC configuration check", ("ibstat", "net", "fabric"), ""),
    ("Interconnect & Networking", "NVLink/PCIe check", ("nvlink", "lspci", "p2p", "bw"), ""),
    ("Interconnect & Networking", "RDMA perftest", ("ibbw",), ""),
    ("Framework & Library", "End-to-End model training", ("e2e",), ""),
    ("Framework & Library", "Framework stress test", ("e2e", "nccl1", "sdc"), ""),
    (
        "Framework & Library",
        "Model/Checkpoint load check",
        ("joblog", "e2e"),
        "the job's log says why loading failed; nobody's program is run",
    ),
    ("Framework & Library", "Version compatibility check", ("vers", "docker", "mods"), ""),
    ("User Application", "End-to-End model training", ("e2e", "env", "joblog"), "our own loop runs: theirs is to blame"),
    ("Other", "Report to infrastructure support team", ("sched", "ipmi", "store"), "the hand-off is the report"),
)


# faults that show more on another machine type (profile, reason) and are measured there too
ELSEWHERE = {"S16": (WITHOUT_NVLINK, "copies between its GPUs go over PCIe; with NVLink they never do")}

# faults that need a specially built cluster, which is not the fault: the reference has the same adapters
BUILT = {"U03": "an adapter that speaks Ethernet is how the cluster was built; a right job leaves it out of NCCL_IB_HCA"}

# checks expected to see a fault, and why they rightly do not
SILENT = {
    "S02": (
        "cuda",
        (
            "the probe asks the driver's library on the host, and a container borrows that very library: it would pass in both. "
            "What the driver refuses is the CUDA of the image; `vers` and `docker` read its version, `joblog` the refusal"
        ),
    ),
    "F05": (
        "e2e",
        "our own loop loads no checkpoint and is well, which is the answer: nodes, CUDA and training work, the file is to blame",
    ),
}


class AtOnce(InProcessTransport):
    """An in-process transport at a fixed time, so that no counter rises between two checks."""

    def _at(self, host: str) -> float:
        return 0.0


class NoEvidence(MemoryEvidence):
    async def put_text(self, incident: str, text: str) -> str:
        return ""


def _caching(check: Check) -> Check:
    """Cache a check's parsing: healthy hosts repeat outputs, and parsers are pure."""
    formats = tuple(Format(shape.name, shape.sniff, lru_cache(4096)(shape.parse)) for shape in check.formats)
    return replace(check, formats=formats)


_CACHING = {name: _caching(check) for name, check in CHECKS.items()}


class Healed(Cluster):
    """The same cluster with the same end of its job, without the fault."""

    def world(self, at: float = 0.0, *, faded: bool = False, hidden: bool = False) -> ClusterState:
        world = super().world(at, faded=True)
        if not any(row.fault in BUILT for row in self.injected_faults):
            return world
        sick = super().world(at).nodes
        return replace(world, nodes={name: _with_adapters(node, sick[name].hcas) for name, node in world.nodes.items()})


def _with_adapters(node: NodeState, hcas: list[HcaState]) -> NodeState:
    """Return the node with these adapters and a job that uses the suitable ones."""
    fit = ",".join(hca.name for hca in hcas if hca.link_layer == "InfiniBand")
    return replace(node, hcas=hcas, env={**node.env, "NCCL_IB_HCA": fit})


@dataclass(frozen=True, slots=True)
class Told:
    """One fact as compared."""

    check: str
    host: str
    key: str
    device: str
    value: str


@dataclass(frozen=True, slots=True)
class Row:
    """A fault with what each check sees of it, and which checks see it on the ELSEWHERE machine."""

    fault: str
    seen: Mapping[str, frozenset[Told]]
    elsewhere: frozenset[str] = frozenset()

    @property
    def keys(self) -> list[str]:
        return sorted({told.key or "could not look" for seen in self.seen.values() for told in seen})

    def of(self, check: str) -> frozenset[tuple[str, str, str]]:
        """Return one check's differences, on any host."""
        return frozenset((told.key, told.device, told.value) for told in self.seen.get(check, ()))


def case(fault: str, profile: str = PROFILE) -> dict[str, Any]:
    """Return a case with this fault alone: on one device, one node, two nodes of a switch or rack, or all."""
    scope = FAULTS[fault].scope
    nodes: object = {"gpu": "n1", "node": "n1", "switch": ["n1", "n2"], "rack": ["n1", "n2"]}.get(scope, "*")
    return {
        "id": "coverage",
        "profile": profile,
        "nodes": NODES,
        "faults": [{"id": fault, "node": nodes} | ({"gpu": 5} if scope == "gpu" else {})],
    }


@cache
def measured() -> tuple[Row, ...]:
    """Return all faults' rows, measured once per process."""
    return asyncio.run(_measured())


async def _measured() -> tuple[Row, ...]:
    running = {profile: await _told(cluster(nodes=NODES, profile=profile), LOGS) for profile in {PROFILE, *dict(ELSEWHERE.values())}}
    well: dict[str, frozenset[Told]] = {}
    rows = []
    for fault in sorted(FAULTS):
        seen = await _seen(case(fault), running[PROFILE], well)
        profile = ELSEWHERE.get(fault, ("",))[0]
        elsewhere = await _seen(case(fault, profile), running[profile], well) if profile else {}
        rows.append(Row(fault, seen, frozenset(elsewhere)))
    return tuple(rows)


async def _seen(posed: Mapping[str, Any], running: frozenset[Told], well: dict[str, frozenset[Told]]) -> Mapping[str, frozenset[Told]]:
    """Return the differences by check. `well` caches healthy facts: many faults end a job alike."""
    healed = Healed.from_case(parse_case(posed))
    world = healed.world()
    alike = repr((world.nodes, world.job.ended, world.job.has_log))
    if alike not in well:
        well[alike] = await _told(healed, [name for name in CHECKS if name not in LOGS])
    sick = await _told(Cluster.from_case(parse_case(posed)), list(CHECKS))
    return _by_check(sick ^ (well[alike] | running))


async def _told(of: Cluster, checks: Sequence[str]) -> frozenset[Told]:
    """Return the facts without wording and times, and without log lines that only follow from other ranks' ends."""
    asks = [CheckRequest(host, check) for host in of.hosts for check in checks]
    found = (await fleet(of, AtOnce(of), _CACHING, NoEvidence()).run_checks("test", asks, permitted=True)).facts
    return frozenset(
        Told(fact.check, fact.host, fact.key, fact.device or "", _value(fact))
        for fact in found
        if not (fact.check == "joblog" and _follows(fact))
    )


def _value(fact: Fact) -> str:
    """Return the compared value; a Python exception by its type."""
    return "could not look" if fact.status.blind else f"{fact.value!r} {fact.attrs.get('type', '') if fact.key == 'job.error' else ''}"


def _follows(fact: Fact) -> bool:
    """Return whether the fact follows from lost peers, or is a usual line beyond a long log's tail."""
    usual = fact.key == "job.nccl_version" and str(fact.value).startswith(NCCL_VERSION)
    ended = fact.key == "job.error" and (fact.value in CONSEQUENCE_CAUSES or not fact.value)
    return usual or ended or fact.key in ("job.first_error_rank", "job.ranks")


def _by_check(differing: Iterable[Told]) -> Mapping[str, frozenset[Told]]:
    found: dict[str, set[Told]] = defaultdict(set)
    for row in differing:
        found[row.check].add(row)
    return {check: frozenset(found[check]) for check in CHECKS if check in found}


def fewest(rows: Sequence[Row], checks: Sequence[str]) -> tuple[str, ...]:
    """Return a smallest set of these checks that sees every fault any of them sees."""
    left = [frozenset(row.seen) & frozenset(checks) for row in rows]
    left = [seen for seen in left if seen]
    needed = {check for seen in left if len(seen) == 1 for check in seen}
    left = [seen for seen in left if not seen & needed]
    others = sorted({check for seen in left for check in seen})
    for size in range(len(others) + 1):
        for more in itertools.combinations(others, size):
            if all(seen & set(more) for seen in left):
                return tuple(check for check in CHECKS if check in needed or check in more)
    raise AssertionError("all of them see all that any of them sees")


def apart(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the fewest checks (at most three) that distinguish the fault from every other, or ()."""
    others = [other for other in rows if other.fault != row.fault]
    for size in (1, 2, 3):
        for checks in itertools.combinations(row.seen, size):
            if all(any(row.of(check) != other.of(check) for check in checks) for other in others):
                return checks
    return ()


def rendered() -> str:
    rows = measured()
    passive = [name for name, check in CHECKS.items() if not check.exclusive]
    parts = [
        "# What the checks see",
        "",
        "Written by `python -m tests.project.coverage_report` from the simulated cluster; a test keeps it true. Each fault is made alone on a healthy",
        f"cluster of {NODES} DGX H100 nodes, all {len(CHECKS)} checks are run, and their facts are compared with those of the same cluster whose job",
        "came to the same end without the fault (logs: with those of a running job, not counting ranks that only lost their peers).",
        "*Exclusive* checks, which need idle GPUs, are set in italics. It shows what this project believes nodes answer, not what real ones do.",
        "",
        f"- Faults: {len(rows)}. Seen by some check: {sum(bool(row.seen) for row in rows)}.",
        f"- Seen by a passive check: {sum(bool(set(row.seen) & set(passive)) for row in rows)}.",
        f"- Fewest checks that see them all: {_names(fewest(rows, list(CHECKS)))}.",
        f"- Fewest passive ones for what passive ones see: {_names(fewest(rows, passive))}.",
        "",
        "## Faults",
        "",
        "*Told apart by*: the fewest checks whose answers no other fault gives.",
        "",
        "| fault | label | seen by | keys that differ | told apart by |",
        "|---|---|---|---|---|",
        *(_fault(row, rows) for row in rows),
        "",
        *(f"{fault} is made on {profile} as well: {why}." for fault, (profile, why) in ELSEWHERE.items()),
        *(f"{fault} is compared with a cluster of the same adapters: {why}." for fault, why in BUILT.items()),
        "",
        "## Expected, and rightly not seen",
        "",
        "| fault | label | check | why |",
        "|---|---|---|---|",
        *(f"| {fault} | {FAULTS[fault].label} | {_name(check)} | {why} |" for fault, (check, why) in SILENT.items()),
        "",
        "## Checks",
        "",
        "| check | faults it sees | faults it alone sees |",
        "|---|---|---|",
        *(_check(name, rows) for name in CHECKS),
        "",
        "## AidAI's verification checks",
        "",
        "The checks that AidAI's incident taxonomy asks for (table 7 of the paper), and ours that answer.",
        "",
        "| category | check | ours | |",
        "|---|---|---|---|",
        *(f"| {category} | {asked} | {_names(ours)} | {note} |" for category, asked, ours, note in AIDAI),
    ]
    return "\n".join(parts) + "\n"


def _name(check: str) -> str:
    return f"*{check}*" if CHECKS[check].exclusive else check


def _names(checks: Iterable[str]) -> str:
    return ", ".join(map(_name, checks))


def _fault(row: Row, rows: Sequence[Row]) -> str:
    keys = row.keys
    shown = ", ".join(f"`{key}`" for key in keys[:MOST_KEYS]) + (f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else "")
    more = [check for check in CHECKS if check in row.elsewhere and check not in row.seen]
    seen = _names(row.seen) + (f"; on {ELSEWHERE[row.fault][0]} also {_names(more)}" if more else "")
    return f"| {row.fault} | {FAULTS[row.fault].label} | {seen} | {shown} | {_names(apart(row, rows)) or '–'} |"


def _check(name: str, rows: Sequence[Row]) -> str:
    seen = [row.fault for row in rows if name in row.seen]
    alone = [row.fault for row in rows if list(row.seen) == [name]]
    return f"| {_name(name)} | {len(seen)} | {len(alone)}{': ' + ' '.join(alone) if alone else ''} |"


if __name__ == "__main__":
    COVERAGE.write_text(rendered())
