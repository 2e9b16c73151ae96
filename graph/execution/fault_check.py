"""Check before a claim, with passive checks only, whether the approved fault is still present.

It judges as the proof does (`graph.remediation.fault_condition`): what would prove a repair prevents its start.
"""

from collections.abc import Sequence
from datetime import datetime

from graph.context import GraphContext
from graph.engine.assessment import assess_facts
from graph.engine.fact_history import EVENT_KEY_PREFIXES
from graph.engine.reference_data import ReferenceData
from graph.engine.stale_facts import find_clock_skews, mark_stale_after_repairs
from graph.incident.context import build_reference_data
from graph.remediation.cause_presence import CausePresence
from graph.remediation.fault_condition import judge_fault
from tools.action import FaultCondition
from tools.execution.identity import read_boot_id
from tools.fact import Fact
from tools.fleet.answers import CheckRequest
from tools.transport import Transport, Unreachable


async def check_fault(
    fault: FaultCondition,
    incident: str,
    since: datetime,
    known_facts: Sequence[Fact],
    graph_context: GraphContext,
    transport: Transport,
    *,
    changed: bool = False,
) -> CausePresence:
    """Return whether a fault is present now.

    Log lines count from `since` on. `known_facts` are the incident's. `changed`: the host was changed since, so its old
    boot id and the old proof no longer show the fault.
    """
    if fault.lasts == "boot" and not changed and (mended := await _find_last_repair(fault, since, graph_context)):
        since, changed = mended, True  # its line is from before that repair
    if fault.lasts == "proved" and not changed:
        return CausePresence("shown", f"{fault.says}, as it was proved; no check that disturbs nobody can tell more")
    if fault.lasts in ("boot", "silence") and not changed:
        return await _check_by_boot(fault, transport)
    for _ in range(fault.reads):
        reading_result = await _check_by_reading(fault, incident, since, known_facts, graph_context)
        if reading_result.answer != "gone":
            break
    return reading_result


async def _find_last_repair(fault: FaultCondition, since: datetime, graph_context: GraphContext) -> datetime | None:
    """Return when all of the fault's devices were last repaired after `since`, by any incident."""
    names = [name.rpartition("/")[2] for name in fault.devices] or [""]
    remedy_runs = [
        remedy_run
        for remedy_run in await graph_context.treated([fault.host])
        if remedy_run.at > since and all(map(remedy_run.covers_device, names))
    ]
    return max((remedy_run.at for remedy_run in remedy_runs), default=None)


async def _check_by_boot(fault: FaultCondition, transport: Transport) -> CausePresence:
    """Judge a fault that lasts for a boot, or that consists in not answering."""
    try:
        boot = await read_boot_id(fault.host, transport)
    except Unreachable as error:
        return CausePresence("shown" if fault.lasts == "silence" else "unseen", f"{fault.host} does not answer: {error.why}")
    if fault.lasts == "silence":
        return CausePresence("gone", f"{fault.host} answers again")
    if boot != fault.boot_id:
        return CausePresence("gone", f"{fault.host} has booted since: {fault.says} was of the boot before")
    return CausePresence("shown", f"{fault.says}, in this boot")


async def _check_by_reading(
    fault: FaultCondition, incident: str, since: datetime, known_facts: Sequence[Fact], graph_context: GraphContext
) -> CausePresence:
    requests = [CheckRequest(fault.host, check) for check in list_fault_checks(fault, build_reference_data(graph_context, known_facts))]
    facts = (await graph_context.fleet.run_checks(incident, requests, fresh=True)).facts
    if not any(not fact.status.blind for fact in facts):
        return CausePresence("unseen", facts[0].line if facts else f"nothing on {fault.host} could be looked at")
    reference = build_reference_data(graph_context, [*known_facts, *facts])
    own_facts = [fact for fact in facts if fact.host == fault.host]
    known_events = mark_stale_after_repairs(
        [fact for fact in own_facts if fact.key.startswith(EVENT_KEY_PREFIXES)],
        {fault.host: since},
        find_clock_skews([*known_facts, *facts]),
    )
    return judge_fault(
        fault,
        assess_facts(
            [*(fact for fact in own_facts if not fact.key.startswith(EVENT_KEY_PREFIXES)), *known_events], reference, [fault.host]
        ),
    )


def list_fault_checks(fault: FaultCondition, reference: ReferenceData) -> tuple[str, ...]:
    """Return the checks that showed the fault and all non-exclusive ones that can decide its cause."""
    leaf = reference.taxonomy.leaves.get(fault.label)
    deciding = [check.id for check in reference.list_deciding_checks(leaf)] if leaf else []
    return tuple(
        name for name in dict.fromkeys((*fault.checks, *deciding)) if name in reference.checks and not reference.checks[name].exclusive
    )
