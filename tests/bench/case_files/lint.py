"""Check that a case is well posed: readable, markable, solved by the oracle, and each fault visible to a check. Visible
means the cluster without the fault answers a command differently.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.cases.case import SimulatedCase
from deploy.sandbox.cluster.cases.reader import BadCase, parse_case
from tests.bench.arms.rule_arms import Oracle
from tests.bench.case_files.truth import BadTruth, Truth, read_truth, table
from tests.bench.run.setup import stand, without, world_seed
from tests.bench.score import Marked
from tools.checks import CHECKS
from tools.checks.check_types import BadSlot

LOOKS = 3  # repetitions of a command; a fault seen in one of three must be seen

SLOTS = {"gpus": "8", "job_logs": "/var/log/jobs", "nccl_tests": "/usr/local/nccl-tests/build", "gpu_burn": "/opt/gpu-burn"}
LOOK = ("sudo", "-n", "/usr/local/sbin/rackmedic-look")


def problems(raw: Mapping[str, Any]) -> list[str]:
    """Return a case's problems."""
    name = str(raw.get("id", "case"))
    try:
        case = parse_case(dict(raw), name)
        truth = read_truth(case.truth, name)
    except (BadCase, BadTruth) as error:
        return [str(error)]
    found = [] if case.ticket.text.strip() else [f"{name}: ticket.text is empty"]
    found += [] if case.layer else [f"{name}: layer is missing"]
    if case.outputs:  # the oracle sees injected faults, but no handwritten outputs
        return found + [f"{name}: `{check}` shows nothing on any machine" for check in _silent_checks(case, truth)]
    found += asyncio.run(_oracle(case, truth))
    return found + [f"{name}: nothing that any check asks shows faults[{n}] ({fault})" for n, fault in _invisible(case)]


def _silent_checks(case: SimulatedCase, truth: Truth) -> Iterable[str]:
    """Yield decisive checks that print the same as on healthy machines."""
    well = replace(case, faults=(), outputs={}, modifiers=())
    for check in sorted({check for check, _ in truth.proofs}):
        if not any(_differs(case, well, host, (check,)) for host in case.nodes):
            yield check


async def _oracle(case: SimulatedCase, truth: Truth) -> list[str]:
    async with stand(case, without(frozenset(truth.removed)), oracle=True) as ready:
        answer = await Oracle().solve(ready.stage)
    found = (
        []
        if Marked(case.id, case.layer, truth, answer).right
        else [f"{case.id}: the oracle names {answer.labels}, the truth {truth.labels}"]
    )
    if not truth.removed and (frozenset(answer.hosts) != truth.hosts or frozenset(answer.devices) != truth.devices):
        found.append(
            f"{case.id}: the oracle accuses {answer.hosts} {answer.devices}, the truth {sorted(truth.hosts)} {sorted(truth.devices)}"
        )
    return found


def _invisible(case: SimulatedCase) -> Iterable[tuple[int, str]]:
    """Yield faults that no command shows."""
    for n, row in enumerate(case.faults):
        healthy = replace(case, faults=tuple(other for other in case.faults if other is not row))
        hosts = row.nodes if len(row.nodes) < 3 else (row.nodes[0], row.nodes[-1], *row.nodes[1:-1])
        if not any(_differs(case, healthy, host, table()[row.fault].shows) for host in hosts) and not _silent(case, hosts):
            yield n, row.fault


def _silent(case: SimulatedCase, hosts: Sequence[str]) -> bool:
    """Return whether a machine is unreachable, which shows the fault."""
    cluster = Cluster.from_case(case, world_seed(case, 0))
    return any(not cluster.reachable(host) for host in hosts)


def _differs(case: SimulatedCase, healthy: SimulatedCase, host: str, checks: Sequence[str]) -> bool:
    sick, well = (Cluster.from_case(one, world_seed(case, 0)) for one in (case, healthy))
    for argv in commands(checks, host):
        said = [sick.answer(host, argv) for _ in range(LOOKS)]
        calm = well.answer(host, argv)
        if any((one.stdout, one.status, one.hangs) != (calm.stdout, calm.status, calm.hangs) for one in said):
            return True
    return False


def commands(checks: Sequence[str], host: str = "") -> Iterable[tuple[str, ...]]:
    """Yield the checks' commands that need only the host to be filled in."""
    slots = {**SLOTS, "node": host} if host else SLOTS
    for check in (CHECKS[name] for name in checks if name in CHECKS):
        for command in check.commands:
            try:
                yield (*LOOK, f"{check.id}.{command.name}") if command.privileged else command.fill_argv(slots)
            except BadSlot:
                continue
