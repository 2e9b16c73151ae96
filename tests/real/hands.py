"""One remedy on the real rack as a worker runs it: a claim of the real ledger, the node kit over SSH, real tools."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from fakeredis import FakeAsyncRedis

from deploy.lab.layout import Rack
from tests.support.clock import WallClock
from tests.support.fakes_ledger import CATALOGUE, POLICY, Desk
from tests.support.inventories import inventory_of
from tools.action import Action
from tools.execution import runner as act
from tools.execution.build import ActionRequest, HostIdentity, build_action, find_execution_host
from tools.execution.conditions import read_condition
from tools.execution.identity import read_boot_id
from tools.execution.runner import ExecutionResult
from tools.inventory.inventory import Inventory
from tools.ledger.claim import Claim
from tools.remedies import REMEDIES
from tools.ssh.client import SshTransport


@dataclass
class Hands:
    """A worker's access to the rack."""

    inventory: Inventory
    ssh: SshTransport

    async def action(self, remedy: str, target: str, **args: str) -> Action:
        """Return the remedy's action as proposed now, with current boot id and host key."""
        host = self.inventory.hosts[target]
        via = find_execution_host(REMEDIES[remedy], host, self.inventory.hosts)
        seen = HostIdentity(await read_boot_id(via.name, self.ssh), await self.ssh.fingerprint(via.name))
        return build_action(ActionRequest(remedy, args, incident="inc-1"), host, via, seen, policy=POLICY, catalogue=CATALOGUE)

    async def unmet(self, action: Action) -> list[str]:
        """Return the controller's objections just before the claim."""
        controller = self.inventory.hosts[action.target].controller
        seen = [await read_condition(row, controller, self.ssh) for row in action.conditions if row.kind == "controller"]
        return [row.saw for row in seen if not row.ok]

    async def run(self, action: Action) -> ExecutionResult:
        """Approve, claim and run the action."""
        desk = Desk(FakeAsyncRedis())
        claim = await desk.claim(await desk.approved(action))
        return await act.run_action(claim, self.ssh, clock=WallClock(), beat=_alive, pause=_moment)

    async def do(self, remedy: str, target: str, **args: str) -> ExecutionResult:
        """Build and run the action; the controller must not object."""
        action = await self.action(remedy, target, **args)
        assert await self.unmet(action) == []
        return await self.run(action)


async def _alive(claim: Claim) -> None:
    """Keep the lease."""


async def _moment(seconds: float) -> None:
    await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def hands(rack: Rack) -> AsyncIterator[Hands]:
    inventory = inventory_of(rack.inventory)
    ssh = SshTransport(inventory)
    try:
        yield Hands(inventory, ssh)
    finally:
        await ssh.aclose()
