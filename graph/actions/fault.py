"""The last look before a claim: whether the fault that people approved a remedy for is still there. Passive checks only; it changes nothing.

The verdict is the proof's own (`graph.engine.shown`): what would end a repair as "passes now" keeps it from starting.
"""

from collections.abc import Sequence
from datetime import datetime

from graph.engine.after_repairs import after_repairs, skews_of
from graph.engine.age import EVENTS
from graph.engine.assess import assess
from graph.engine.reference import Lens
from graph.engine.shown import Presence
from graph.incident.case import lens_of
from graph.ladders.fault import judged
from graph.ports import Ports
from tools.acting.identity import boot_id
from tools.action import FaultCondition
from tools.fact import Fact
from tools.fleet.answers import Ask
from tools.transport import Transport, Unreachable


async def fault_now(
    fault: FaultCondition,
    incident: str,
    since: datetime,
    known: Sequence[Fact],
    reading: Ports,
    transport: Transport,
    *,
    changed: bool = False,
) -> Presence:
    """What a fault is at this moment. Lines of a log count from `since` on. `known` is what the incident knows; `changed`: something was done
    to the host since, so that neither its old boot nor the old proof speaks for the fault."""
    if fault.lasts == "boot" and not changed and (mended := await _mended(fault, since, reading)):
        since, changed = mended, True  # its line is of before that
    if fault.lasts == "proved" and not changed:
        return Presence("shown", f"{fault.says}, as it was proved; no check that disturbs nobody can tell more")
    if fault.lasts in ("boot", "silence") and not changed:
        return await _by_boot(fault, transport)
    for _ in range(fault.reads):
        seen = await _read(fault, incident, since, known, reading)
        if seen.answer != "gone":
            break
    return seen


async def _mended(fault: FaultCondition, since: datetime, reading: Ports) -> datetime | None:
    """When some incident last mended its devices after `since`, where it did."""
    names = [name.rpartition("/")[2] for name in fault.devices] or [""]
    rows = [row for row in await reading.treated([fault.host]) if row.at > since and all(map(row.concerns, names))]
    return max((row.at for row in rows), default=None)


async def _by_boot(fault: FaultCondition, transport: Transport) -> Presence:
    """What stands for its boot, and what consists in not answering."""
    try:
        boot = await boot_id(fault.host, transport)
    except Unreachable as why:
        return Presence("shown" if fault.lasts == "silence" else "unseen", f"{fault.host} does not answer: {why.why}")
    if fault.lasts == "silence":
        return Presence("gone", f"{fault.host} answers again")
    if boot != fault.boot_id:
        return Presence("gone", f"{fault.host} has booted since: {fault.says} was of the boot before")
    return Presence("shown", f"{fault.says}, in this boot")


async def _read(fault: FaultCondition, incident: str, since: datetime, known: Sequence[Fact], reading: Ports) -> Presence:
    asks = [Ask(fault.host, check) for check in checks_of(fault, lens_of(reading, known))]
    facts = (await reading.fleet.look(incident, asks, fresh=True)).facts
    if not any(not fact.status.blind for fact in facts):
        return Presence("unseen", facts[0].line if facts else f"nothing on {fault.host} could be looked at")
    lens = lens_of(reading, [*known, *facts])
    own = [fact for fact in facts if fact.host == fault.host]
    told = after_repairs([fact for fact in own if fact.key.startswith(EVENTS)], {fault.host: since}, skews_of([*known, *facts]))
    return judged(fault, assess([*(fact for fact in own if not fact.key.startswith(EVENTS)), *told], lens, [fault.host]))


def checks_of(fault: FaultCondition, lens: Lens) -> tuple[str, ...]:
    """Those that told the fault, and every other that disturbs nobody and can decide for its cause."""
    leaf = lens.taxonomy.leaves.get(fault.label)
    deciding = [check.id for check in lens.deciding(leaf)] if leaf else []
    return tuple(name for name in dict.fromkeys((*fault.checks, *deciding)) if name in lens.checks and not lens.checks[name].exclusive)
