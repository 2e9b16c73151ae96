"""Run a check's commands on a host: fill in inventory values, use the node kit for root, re-ask truncated output."""

import asyncio
from collections.abc import Mapping

from tools.checks.check_types import Check, Command
from tools.checks.kubernetes import format_unasked_controller
from tools.inventory.inventory import Host
from tools.inventory.sku import Sku
from tools.nodekit.generate import LOOK_COMMAND
from tools.transport import CommandResult, Transport, Unreachable

DEFAULT_GPU_COUNT = 8  # for hosts whose SKU is unknown


class CommandRunner:
    """Runner of commands; passive ones go through `passive_transport`, which may batch.

    Raises Unreachable for a lost host, BadSlot for a value that must not be on a command line.
    """

    def __init__(self, transport: Transport, passive_transport: Transport, skus: Mapping[str, Sku]) -> None:
        self._transport = transport
        self._passive_transport = passive_transport
        self._skus = skus

    def get_gpu_count(self, host: Host) -> int:
        """Return the expected GPU count."""
        sku = self._skus.get(host.sku)
        return sku.gpus if sku else DEFAULT_GPU_COUNT

    def build_slots(self, host: Host) -> dict[str, str]:
        return {
            "object_store": host.object_store,
            "tracker": host.tracker,
            "job_logs": host.job_logs,
            "nccl_tests": host.nccl_tests,
            "gpu_burn": host.gpu_burn,
            "gpus": str(self.get_gpu_count(host)),
            "node": host.slurm_name,
            "kube_node": host.node_name,
        }

    def list_commands(self, host: Host, check: Check) -> list[Command]:
        """Return the commands for this host's scheduler, Slurm by default."""
        scheduler = "kubernetes" if host.scheduler == "kubernetes" else "slurm"
        return [command for command in check.asked if command.scheduler in ("", scheduler)]

    def list_missing_targets(self, host: Host, check: Check) -> list[str]:
        """Return the settings that the site lacks; commands that need them are not run."""
        slots = self.build_slots(host)
        return [name for command in self.list_commands(host, check) if (name := command.find_missing_target(slots))]

    async def run(self, host: Host, check: Check, command: Command, more: Mapping[str, str] | None = None) -> CommandResult:
        """Run one command. `more` slots never override the inventory's."""
        slots = {**(more or {}), **self.build_slots(host)}
        argv = (*LOOK_COMMAND, f"{check.id}.{command.name}") if command.privileged and host.kit else command.fill_argv(slots)
        transport = self._transport if check.exclusive else self._passive_transport
        if command.scheduler == "kubernetes":
            return await self._run_on_controller(host, check, argv, transport)
        return await transport.run(host.name, argv, timeout=check.timeout, cap=check.cap)

    async def _run_on_controller(self, host: Host, check: Check, argv: tuple[str, ...], transport: Transport) -> CommandResult:
        """Run where kubectl is. An unreachable controller says nothing about the host."""
        try:
            return await transport.run(host.controller, argv, timeout=check.timeout, cap=check.cap)
        except Unreachable as error:
            return CommandResult(b"", format_unasked_controller(host.controller, error.why).encode(), 1)

    async def run_all(self, host: Host, check: Check) -> dict[Command, CommandResult]:
        """Run the check's commands, concurrently unless exclusive, then the stand-ins of truncated outputs."""
        slots = self.build_slots(host)
        commands = [command for command in self.list_commands(host, check) if not command.find_missing_target(slots)]
        if check.exclusive or len(commands) == 1:
            results = [await self.run(host, check, command) for command in commands]
        else:
            results = await asyncio.gather(*(self.run(host, check, command) for command in commands))
        result_by_command = dict(zip(commands, results, strict=True))
        truncated = [command for command, result in result_by_command.items() if result.truncated]
        stand_ins = [stand_in for command in truncated if (stand_in := check.find_stand_in(command))]
        stand_in_results = await asyncio.gather(*(self.run(host, check, command) for command in stand_ins))
        return result_by_command | dict(zip(stand_ins, stand_in_results, strict=True))
