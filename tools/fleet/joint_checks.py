"""Run a check on several hosts together: choose participants, describe them, run commands."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tools.checks.check_types import BadSlot, Check, CheckParticipant, CommandFacts, JointResult, RunNamedCommand
from tools.fact import Fact, Status, build_unobserved_fact
from tools.fleet.answers import CheckAnswer
from tools.fleet.check_runner import CommandRunner
from tools.fleet.gpu_permit import GpuReservations, Permit, RunPassiveCheck, reserve_idle_hosts
from tools.fleet.output_reader import OutputReader
from tools.fleet.skipped_checks import build_skipped_fact, is_missing_program
from tools.inventory.inventory import Host, Inventory
from tools.inventory.sku import Sku
from tools.transport import Unreachable


@dataclass(frozen=True, slots=True)
class JointCheckContext:
    """The fleet's services: `run_passive` asks now, `run_cached` may use a cached answer."""

    run_passive: RunPassiveCheck
    run_cached: RunPassiveCheck
    commands: CommandRunner
    reader: OutputReader


async def run_joint_check(
    check: Check,
    hosts: Sequence[str],
    context: JointCheckContext,
    inventory: Inventory,
    skus: Mapping[str, Sku],
    reservations: GpuReservations,
    now: datetime,
    *,
    permitted: bool = False,
) -> list[CheckAnswer]:
    """Run on the idle hosts, or on all with people's permission. Every host gets an answer, not dated yet."""
    assert check.together is not None
    known_hosts = [host for host in hosts if host in inventory.hosts]
    async with reserve_idle_hosts(known_hosts, check, reservations, None if permitted else context.run_passive) as permit:
        participants = await asyncio.gather(
            *(_build_participant(inventory.hosts[host], context, skus) for host in known_hosts if host in permit.free)
        )
        joint = (
            await check.together(participants, _build_command_runner(check, context, inventory, now)) if participants else JointResult({})
        )
    return [_build_answer(check, host, permit, joint) for host in hosts]


def _build_answer(check: Check, host: str, permit: Permit, joint: JointResult) -> CheckAnswer:
    permit_seconds = permit.seconds.get(host, 0.0)
    if host not in permit.uses:
        return _build_single_answer(check, host, build_unobserved_fact(check.id, Status.UNREACHABLE, "not in the inventory"), 0.0)
    use = permit.uses[host]
    if use.why:
        return _build_single_answer(
            check, host, build_skipped_fact(check, use.why, f"{check.id} was not run on {host}: {use.says}"), permit_seconds
        )
    if host in joint.missing:
        return _build_single_answer(
            check, host, build_skipped_fact(check, "no_tool", f"{check.id} needs {check.tool}"), joint.seconds + permit_seconds
        )
    facts = tuple(joint.facts.get(host, ()))
    reasons = "; ".join(dict.fromkeys(fact.line for fact in facts if not fact.key))
    return CheckAnswer(host, check.id, facts, joint.seconds + permit_seconds, reasons)


def _build_single_answer(check: Check, host: str, fact: Fact, seconds: float) -> CheckAnswer:
    return CheckAnswer(host, check.id, (fact,), seconds, fact.line)


async def _build_participant(host: Host, context: JointCheckContext, skus: Mapping[str, Sku]) -> CheckParticipant:
    """Describe a host to the check, with only those adapters that have an active port."""
    sku = skus.get(host.sku)
    ports, _ = await context.run_passive(host.name, "ibstat")
    active_adapters = sorted({fact.device for fact in ports if fact.key == "ib.state" and fact.device and fact.value == "Active"})
    expects: Callable[[str], object] = (lambda key: sku.get_expected(key, None)) if sku else (lambda key: None)
    leaf = host.leaf or await _find_leaf(host.name, context)
    return CheckParticipant(
        host.name, host.address, sku.gpus if sku else 8, leaf, host.launcher, host.controller, tuple(active_adapters), expects
    )


async def _find_leaf(host: str, context: JointCheckContext) -> str:
    """Return the host's leaf switch. A cached answer suffices: cabling does not change during an incident."""
    facts, _ = await context.run_cached(host, "fabric")
    return next((str(fact.value) for fact in facts if fact.key == "fabric.leaf" and fact.value), "")


def _build_command_runner(check: Check, context: JointCheckContext, inventory: Inventory, now: datetime) -> RunNamedCommand:
    commands = {command.name: command for command in check.commands}

    async def run_command(name: str, host: str, slots: Mapping[str, str]) -> CommandFacts:
        known_host = inventory.hosts.get(host)
        if known_host is None:
            return CommandFacts((build_unobserved_fact(check.id, Status.UNREACHABLE, f"{host} is not in the inventory", host),))
        try:
            result = await context.commands.run(known_host, check, commands[name], slots)
        except Unreachable as error:
            return CommandFacts((build_unobserved_fact(check.id, error.status, error.why, host),))
        except BadSlot as error:
            return CommandFacts((build_unobserved_fact(check.id, Status.DENIED, f"refused to put {error} on a command line", host),))
        facts = await context.reader.read_command_facts(host, check, commands[name], result, now)
        return CommandFacts(tuple(facts), result.seconds, is_missing_program(result))

    return run_command
