"""Run a check's commands on one host, or on several hosts together."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tools.checks.check_types import BadSlot, Check, CheckParticipant, Command, CommandFacts, JointResult, RunNamedCommand
from tools.checks.kubernetes import format_unasked_controller
from tools.fact import Fact, Status, build_unobserved_fact
from tools.fleet.answers import CheckAnswer
from tools.fleet.gpu_permit import GpuReservations, Permit, RunPassiveCheck, reserve_idle_hosts
from tools.fleet.output_reader import OutputReader, build_skipped_fact, is_missing_program
from tools.inventory.inventory import Host, Inventory
from tools.inventory.sku import Sku
from tools.nodekit.generate import LOOK_COMMAND
from tools.transport import CommandResult, Transport, Unreachable

# Run a check's commands on a host: fill in inventory values, use the node kit for root, re-ask truncated output.

DEFAULT_GPU_COUNT = 8  # for hosts whose SKU is unknown


class CommandRunner:
    """Runner of commands; passive ones go through `looks`, which may batch. Raises Unreachable and BadSlot."""

    def __init__(self, transport: Transport, looks: Transport, skus: Mapping[str, Sku]) -> None:
        self._transport, self._looks, self._skus = transport, looks, skus

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
        own = "kubernetes" if host.scheduler == "kubernetes" else "slurm"
        return [command for command in check.asked if command.scheduler in ("", own)]

    def list_missing_targets(self, host: Host, check: Check) -> list[str]:
        """Return the settings that the site lacks; commands that need them are not run."""
        slots = self.build_slots(host)
        return [name for command in self.list_commands(host, check) if (name := command.find_missing_target(slots))]

    async def run(self, host: Host, check: Check, command: Command, more: Mapping[str, str] | None = None) -> CommandResult:
        """Run one command. `more` slots never override the inventory's."""
        slots = {**(more or {}), **self.build_slots(host)}
        argv = (*LOOK_COMMAND, f"{check.id}.{command.name}") if command.privileged and host.kit else command.fill_argv(slots)
        way = self._transport if check.exclusive else self._looks
        if command.scheduler == "kubernetes":
            return await self._run_on_controller(host, check, argv, way)
        return await way.run(host.name, argv, timeout=check.timeout, cap=check.cap)

    async def _run_on_controller(self, host: Host, check: Check, argv: tuple[str, ...], way: Transport) -> CommandResult:
        """Run where kubectl is. An unreachable controller says nothing about the host."""
        try:
            return await way.run(host.controller, argv, timeout=check.timeout, cap=check.cap)
        except Unreachable as error:
            return CommandResult(b"", format_unasked_controller(host.controller, error.why).encode(), 1)

    async def run_all(self, host: Host, check: Check) -> dict[Command, CommandResult]:
        """Run the check's commands, concurrently unless exclusive, then the stand-ins of truncated outputs."""
        slots = self.build_slots(host)
        commands = [command for command in self.list_commands(host, check) if not command.find_missing_target(slots)]
        if check.exclusive or len(commands) == 1:
            rans = [await self.run(host, check, command) for command in commands]
        else:
            rans = await asyncio.gather(*(self.run(host, check, command) for command in commands))
        had = dict(zip(commands, rans, strict=True))
        short = [stand_in for command, result in had.items() if result.truncated and (stand_in := check.find_stand_in(command))]
        more = await asyncio.gather(*(self.run(host, check, command) for command in short))
        return had | dict(zip(short, more, strict=True))


# Run a check on several hosts together: choose participants, describe them, run commands.


@dataclass(frozen=True, slots=True)
class JointCheckContext:
    """The fleet's services: `looked` runs a passive check now, `known` may use a cached answer."""

    looked: RunPassiveCheck
    known: RunPassiveCheck
    commands: CommandRunner
    reader: OutputReader


async def run_joint_check(
    check: Check,
    hosts: Sequence[str],
    hands: JointCheckContext,
    inventory: Inventory,
    skus: Mapping[str, Sku],
    holds: GpuReservations,
    now: datetime,
    *,
    permitted: bool = False,
) -> list[CheckAnswer]:
    """Run on the idle hosts, or on all with people's permission. Every host gets an answer, not dated yet."""
    assert check.together is not None
    known_hosts = [host for host in hosts if host in inventory.hosts]
    async with reserve_idle_hosts(known_hosts, check, holds, None if permitted else hands.looked) as may:
        parties = await asyncio.gather(
            *(_build_participant(inventory.hosts[host], hands, skus) for host in known_hosts if host in may.free)
        )
        joint = await check.together(parties, _build_command_runner(check, hands, inventory, now)) if parties else JointResult({})
    return [_build_answer(check, host, may, joint) for host in hosts]


def _build_answer(check: Check, host: str, may: Permit, joint: JointResult) -> CheckAnswer:
    spent = may.seconds.get(host, 0.0)
    if host not in may.uses:
        return _build_single_answer(check, host, build_unobserved_fact(check.id, Status.UNREACHABLE, "not in the inventory"), 0.0)
    use = may.uses[host]
    if use.why:
        return _build_single_answer(check, host, build_skipped_fact(check, use.why, f"{check.id} was not run on {host}: {use.says}"), spent)
    if host in joint.missing:
        return _build_single_answer(
            check, host, build_skipped_fact(check, "no_tool", f"{check.id} needs {check.tool}"), joint.seconds + spent
        )
    facts = tuple(joint.facts.get(host, ()))
    reasons = "; ".join(dict.fromkeys(fact.line for fact in facts if not fact.key))
    return CheckAnswer(host, check.id, facts, joint.seconds + spent, reasons)


def _build_single_answer(check: Check, host: str, fact: Fact, seconds: float) -> CheckAnswer:
    return CheckAnswer(host, check.id, (fact,), seconds, fact.line)


async def _build_participant(row: Host, hands: JointCheckContext, skus: Mapping[str, Sku]) -> CheckParticipant:
    """List only adapters with an active port."""
    sku = skus.get(row.sku)
    ports, _ = await hands.looked(row.name, "ibstat")
    up = sorted({fact.device for fact in ports if fact.key == "ib.state" and fact.device and fact.value == "Active"})
    expects: Callable[[str], object] = (lambda key: sku.get_expected(key, None)) if sku else (lambda key: None)
    leaf = row.leaf or await _find_leaf(row.name, hands)
    return CheckParticipant(row.name, row.address, sku.gpus if sku else 8, leaf, row.launcher, row.controller, tuple(up), expects)


async def _find_leaf(host: str, hands: JointCheckContext) -> str:
    """A cached answer suffices: cabling does not change during an incident."""
    facts, _ = await hands.known(host, "fabric")
    return next((str(fact.value) for fact in facts if fact.key == "fabric.leaf" and fact.value), "")


def _build_command_runner(check: Check, hands: JointCheckContext, inventory: Inventory, now: datetime) -> RunNamedCommand:
    commands = {command.name: command for command in check.commands}

    async def say(name: str, host: str, slots: Mapping[str, str]) -> CommandFacts:
        row = inventory.hosts.get(host)
        if row is None:
            return CommandFacts((build_unobserved_fact(check.id, Status.UNREACHABLE, f"{host} is not in the inventory", host),))
        try:
            result = await hands.commands.run(row, check, commands[name], slots)
        except Unreachable as error:
            return CommandFacts((build_unobserved_fact(check.id, error.status, error.why, host),))
        except BadSlot as error:
            return CommandFacts((build_unobserved_fact(check.id, Status.DENIED, f"refused to put {error} on a command line", host),))
        facts = await hands.reader.read_command_facts(host, check, commands[name], result, now)
        return CommandFacts(tuple(facts), result.seconds, is_missing_program(result))

    return say
