"""The simulated cluster for tests: cases from one line, commands by name, facts by the real fleet and parsers."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from deploy.sandbox.cluster import grammar
from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.answer import ShellAnswer
from deploy.sandbox.cluster.cases.reader import parse_case
from tests.support.clock import SetClock
from tools.checks import CHECKS
from tools.checks.check_types import Check
from tools.evidence import EvidenceStore, MemoryEvidence
from tools.fact import Fact
from tools.fleet.answers import CheckRequest
from tools.fleet.fleet import Fleet
from tools.inventory.inventory import parse_inventory
from tools.inventory.sku import Sku, load_skus
from tools.transport import Transport

_SLOTS = {"<node>": "n1", "<gpus>": "8", "<job_logs>": "/var/log/jobs", "<nccl_tests>": "/usr/local/nccl-tests/build"}
_SLOTS |= {
    "<gpu_burn>": "/opt/gpu-burn",
    "<hca>": "mlx5_0",
    "<gpu>": "0",
    "<peer>": "n1",
    "<hosts>": "n0:8,n1:8",
    "<nodes>": "n0,n1",
    "<ranks>": "16",
    "<count>": "2",
    "<object_store>": grammar.SITE_SERVICES["object_store"],
    "<tracker>": grammar.SITE_SERVICES["tracker"],
}


def argv(command: str) -> tuple[str, ...]:
    """Return a command's argv on a node with the kit."""
    if command in grammar.PRIVILEGED_COMMANDS:
        return (*grammar.KIT_LOOK, command)
    return tuple(_filled(word) for word in grammar.UNPRIVILEGED_COMMANDS[command])


def plain_argv(command: str) -> tuple[str, ...]:
    """Return a command's argv on a node without the kit."""
    return tuple(_filled(word) for word in {**grammar.UNPRIVILEGED_COMMANDS, **grammar.PRIVILEGED_COMMANDS}[command])


def _filled(word: str) -> str:
    for slot, value in _SLOTS.items():
        word = word.replace(slot, value)
    return word


def cluster(
    *broken: str, nodes: int | Sequence[str] = 3, profile: str = "dgx-h100-8", modifiers: Iterable[str] = (), seed: int = 0, **more: Any
) -> Cluster:
    """Build a cluster with faults such as `G07` or `G07@n2` (default n1), on GPU 5."""
    rows = [{"id": f.partition("@")[0], "node": f.partition("@")[2] or "n1", "gpu": 5} for f in broken]
    names = nodes if isinstance(nodes, int) else list(nodes)
    raw = {"id": "t", "profile": profile, "nodes": names, "faults": rows, "modifiers": list(modifiers)} | more
    return Cluster.from_case(parse_case(raw), seed)


def everything(of: Cluster, host: str) -> dict[str, ShellAnswer]:
    """Return a host's answers to every command."""
    return {command: of.answer(host, argv(command)) for command in grammar.COMMANDS}


@cache
def profiles() -> Mapping[str, Sku]:
    return load_skus()


async def facts(of: Cluster, checks: Iterable[str] = (), hosts: Iterable[str] = ()) -> list[Fact]:
    """Return facts of the real fleet and parsers. Default: all checks, multi-host ones only with several hosts."""
    asked = list(hosts) or list(of.hosts)
    names = list(checks) or [name for name, check in CHECKS.items() if check.together is None or len(asked) > 1]
    wave = await fleet(of, InProcessTransport(of)).run_checks(
        "test", [CheckRequest(host, check) for host in asked for check in names], permitted=True
    )
    return wave.facts


def fleet(of: Cluster, reach: Transport, checks: Mapping[str, Check] = CHECKS, evidence: EvidenceStore | None = None) -> Fleet:
    inventory = parse_inventory(
        {"defaults": {"kit": True, **grammar.SITE_SERVICES}, "groups": {"demo": {"hosts": ",".join(of.hosts), "sku": of.profile}}}
    )
    return Fleet(reach, inventory, checks, evidence or MemoryEvidence(), SetClock(of.t0), profiles())
