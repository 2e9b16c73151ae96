"""A check of several hosts together: who may take part, what each is told, and how a command of it is run. What it means is the check's own."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tools.checks.row import BadSlot, Check, Command, Joint, Party, Say, Told
from tools.fact import Fact, Status, blind
from tools.fleet.holds import Holds
from tools.fleet.permit import Looked, permit
from tools.fleet.skipped import is_missing, skipped
from tools.inventory.hosts import Host, Inventory
from tools.inventory.sku import Sku
from tools.transport import Ran, Unreachable


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of it for one host."""

    facts: tuple[Fact, ...]
    seconds: float = 0.0
    could_not: str = ""


@dataclass(frozen=True, slots=True)
class Hands:
    """What the fleet lends: `looked` asks a passive check now, `known` takes an answer that was had before where there is a fresh enough one,
    `run` runs a command with more slots, `read` makes facts of what it printed."""

    looked: Looked
    known: Looked
    run: Callable[[Host, Check, Command, Mapping[str, str]], Awaitable[Ran]]
    read: Callable[[Host, Check, Command, Ran, datetime], Awaitable[Iterable[Fact]]]


async def jointly(
    check: Check,
    hosts: Sequence[str],
    hands: Hands,
    inventory: Inventory,
    skus: Mapping[str, Sku],
    holds: Holds,
    now: datetime,
    *,
    permitted: bool = False,
) -> dict[str, Heard]:
    """Run it on those hosts that are idle, or on all where people have permitted it. Every host is answered for."""
    assert check.together is not None
    known = [host for host in hosts if host in inventory.hosts]
    async with permit(known, check, holds, None if permitted else hands.looked) as may:
        parties = await asyncio.gather(*(_party(inventory.hosts[host], hands, skus) for host in known if host in may.free))
        joint = await check.together(parties, _sayer(check, hands, inventory, now)) if parties else Joint({})
    heard: dict[str, Heard] = {}
    for host in hosts:
        spent = may.seconds.get(host, 0.0)
        if host not in inventory.hosts:
            heard[host] = _one(blind(check.id, Status.UNREACHABLE, "not in the inventory"), 0.0)
        elif may.uses[host].why:
            use = may.uses[host]
            heard[host] = _one(skipped(check, use.why or "busy", f"{check.id} was not run on {host}: {use.says}"), spent)
        elif host in joint.missing:
            heard[host] = _one(skipped(check, "no_tool", f"{check.id} needs {check.tool}"), joint.seconds + spent)
        else:
            facts = tuple(joint.facts.get(host, ()))
            why = "; ".join(dict.fromkeys(fact.line for fact in facts if not fact.key))
            heard[host] = Heard(facts, joint.seconds + spent, why)
    return heard


def _one(fact: Fact, seconds: float) -> Heard:
    return Heard((fact,), seconds, fact.line)


async def _party(row: Host, hands: Hands, skus: Mapping[str, Sku]) -> Party:
    """A host as the check sees it. Adapters are those whose port is up now."""
    sku = skus.get(row.sku)
    ports, _ = await hands.looked(row.name, "ibstat")
    up = sorted({fact.device for fact in ports if fact.key == "ib.state" and fact.device and fact.value == "Active"})
    expects: Callable[[str], object] = (lambda key: sku.expected(key, None)) if sku else (lambda key: None)
    leaf = row.leaf or await _leaf(row.name, hands)
    return Party(row.name, row.address, sku.gpus if sku else 8, leaf, row.launcher, row.controller, tuple(up), expects)


async def _leaf(host: str, hands: Hands) -> str:
    """The leaf switch that the fabric itself names, where the inventory does not; it does not move while an incident lasts."""
    facts, _ = await hands.known(host, "fabric")
    return next((str(fact.value) for fact in facts if fact.key == "fabric.leaf" and fact.value), "")


def _sayer(check: Check, hands: Hands, inventory: Inventory, now: datetime) -> Say:
    commands = {command.name: command for command in check.commands}

    async def say(name: str, host: str, slots: Mapping[str, str]) -> Told:
        row = inventory.hosts.get(host)
        if row is None:
            return Told((blind(check.id, Status.UNREACHABLE, f"{host} is not in the inventory", host),))
        try:
            ran = await hands.run(row, check, commands[name], slots)
        except Unreachable as why:
            return Told((blind(check.id, why.status, why.why, host),))
        except BadSlot as why:
            return Told((blind(check.id, Status.DENIED, f"refused to put {why} on a command line", host),))
        return Told(tuple(await hands.read(row, check, commands[name], ran, now)), ran.seconds, is_missing(ran))

    return say
