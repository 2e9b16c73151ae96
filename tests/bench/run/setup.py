"""Set a case up for one solver, in process or behind real SSH servers, count its commands, and check that it changed
nothing.
"""

import contextlib
import tempfile
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from bot.app.site_files import add_log_rules, load_site_incidents, load_site_taxonomy
from deploy.sandbox.cluster.access.case_run import CaseClock
from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.cases.case import SimulatedCase
from deploy.sandbox.cluster.grammar import SITE_SERVICES
from kb.taxonomy.taxonomy import Taxonomy
from tests.bench.arms.arm import Knowledge, Stage
from tests.bench.model.endpoint import Line
from tests.bench.run.cache import remembering
from tests.support.inventories import inventory_of
from tools.checks import CHECKS
from tools.inventory.inventory import Inventory, parse_inventory
from tools.inventory.sku import load_skus
from tools.ssh.client import SshLimits, SshTransport
from tools.transport import CommandResult, Transport


@dataclass(slots=True)
class Meter:
    """A counting transport. `seconds` are the transport's own."""

    inner: Transport
    commands: int = 0
    seconds: float = 0.0
    clock: str = "real"

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.commands += 1
        ran = await self.inner.run(host, argv, timeout=timeout, cap=cap)
        self.seconds += ran.seconds
        return ran

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass(frozen=True, slots=True)
class Stand:
    """A case ready to be solved, with data for checks afterwards."""

    stage: Stage
    cluster: Cluster
    meter: Meter
    before: str  # digest of the cluster's state before the solver

    @property
    def unchanged(self) -> bool:
        return self.cluster.untouched or self.cluster.state_hash() == self.before


def world_seed(case: SimulatedCase, attempt: int) -> int:
    """Return a world's seed: another attempt has other noise around the same fault."""
    return zlib.crc32(f"{case.id}/{attempt}".encode())


@contextlib.asynccontextmanager
async def stand(
    case: SimulatedCase, knowledge: Knowledge, *, attempt: int = 0, transport: str = "inprocess", oracle: bool = False, line: Line | None = None,
    before: str = "",
) -> AsyncIterator[Stand]:  # fmt: skip
    """Yield the case and close everything afterwards. `before`: the world's digest if known."""
    cluster = Cluster.from_case(case, world_seed(case, attempt))
    async with _reached(case, cluster, transport) as (reach, inventory):
        meter = Meter(reach, clock=getattr(reach, "clock", "real"))
        attached = tuple((row.name, row.text) for row in case.ticket.attachments)
        stage = Stage(case.ticket.text, attached, inventory, meter, CaseClock(case.t0), knowledge, cluster if oracle else None, line)
        yield Stand(stage, cluster, meter, before or cluster.state_hash())


@contextlib.asynccontextmanager
async def _reached(case: SimulatedCase, cluster: Cluster, transport: str) -> AsyncIterator[tuple[Transport, Inventory]]:
    if transport == "inprocess":
        groups = {"job": {"hosts": ",".join(case.nodes), "sku": cluster.profile}}
        reach: Transport = InProcessTransport(cluster)
        try:
            yield reach, parse_inventory({"defaults": {"kit": True, **SITE_SERVICES}, "groups": groups}, case.id)
        finally:
            await reach.aclose()
        return
    from deploy.sandbox.cluster.access.sshd import SshCluster

    with tempfile.TemporaryDirectory(prefix="rackmedic-bench-") as folder:
        async with SshCluster(cluster, Path(folder)):
            inventory = inventory_of(Path(folder) / "inventory.yaml")
            ssh = SshTransport(inventory, SshLimits())
            try:
                yield ssh, inventory
            finally:
                await ssh.aclose()


@cache
def everything(kb: Path | None = None) -> Knowledge:
    """Return RackMedic's knowledge including a site folder's, with cached parsing."""
    checks = {name: remembering(check) for name, check in add_log_rules(CHECKS, kb).items()}
    taxonomy = load_site_taxonomy(kb)
    return Knowledge(taxonomy, load_site_incidents(kb, taxonomy), checks, load_skus())


@lru_cache(maxsize=4)
def without(removed: frozenset[str], kb: Path | None = None) -> Knowledge:
    """Return the knowledge without some labels, in taxonomy and past incidents."""
    known = everything(kb) if kb else everything()
    if not removed:
        return known
    past = tuple(row for row in known.past if row.label not in removed)
    return replace(known, taxonomy=known.taxonomy.without_labels(*removed), past=past, removed=removed)


def renamed(names: dict[str, str], removed: frozenset[str] = frozenset()) -> Knowledge:
    """Return the knowledge under other label names: a solver that uses evidence must do as well."""
    known = without(removed)
    leaves = {
        names[label]: replace(leaf, label=names[label], suppresses=tuple(names.get(other, other) for other in leaf.suppresses))
        for label, leaf in known.taxonomy.leaves.items()
    }
    past = tuple(replace(row, label=names.get(row.label, row.label)) for row in known.past)
    gone = frozenset(names.get(label, label) for label in removed)
    return replace(known, taxonomy=Taxonomy(leaves, known.taxonomy.branches), past=past, removed=gone)
