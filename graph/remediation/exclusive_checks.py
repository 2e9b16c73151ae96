"""Propose exclusive checks that could decide but were skipped because the GPUs are in use, one at a time. Pure."""

import hashlib
from collections.abc import Sequence

from graph.engine.assessment import Assessment
from graph.engine.check_selection import list_hosts_to_test
from graph.remediation.build import PlanContext, enter_step
from graph.state import Remediation, RemediationStep
from tools.checks.check import Check

MAX_TEST_HOSTS = 16


def build_check_remediations(now: Assessment, yard: PlanContext, known: Sequence[Remediation]) -> list[Remediation]:
    """Return the cheapest check of the likeliest cause that waits for busy hosts; none while one is open or was
    proposed.
    """
    if any(row.is_open and row.current_step and row.current_step.remedy == "run_check" for row in known):
        return []
    busy = {(fact.check, fact.host) for fact in yard.facts if fact.key == "check.skipped" and fact.value == "busy" and not fact.stale}
    for row in now.rows:
        if row.proven:
            continue
        checks = [now.lens.checks[name] for name in row.leaf.confirms if name in now.lens.checks]
        for check in sorted(checks, key=lambda check: check.seconds):
            hosts = sorted(host for host in list_hosts_to_test(row, check, now) if (check.id, host) in busy)[:MAX_TEST_HOSTS]
            if hosts and not _was_proposed(check, hosts, known):
                return [_build_check_remediation(row.label, check, hosts, yard, known)]
    return []


def build_requested_check(
    check: Check, hosts: Sequence[str], now: Assessment, yard: PlanContext, known: Sequence[Remediation]
) -> Remediation:
    """Return the requested check for the likeliest cause that it can confirm."""
    able = [row for row in now.rows if check.id in row.leaf.confirms]
    label = next((row.label for row in able if row.leaf.scope != "job"), able[0].label if able else "")
    return _build_check_remediation(label, check, sorted(hosts), yard, known)


def _was_proposed(check: Check, hosts: Sequence[str], known: Sequence[Remediation]) -> bool:
    target = ",".join(hosts)
    return any(row.target == target and any(rung.args.get("check") == check.id for rung in row.rungs) for row in known)


def _build_check_remediation(
    label: str, check: Check, hosts: Sequence[str], yard: PlanContext, known: Sequence[Remediation]
) -> Remediation:
    target = ",".join(hosts)
    name = hashlib.sha256(f"{yard.incident} {label} {target} {check.id} {len(known)}".encode()).hexdigest()[:8]
    return enter_step(
        Remediation(id=name, label=label, target=target, rungs=(RemediationStep(remedy="run_check", args={"check": check.id}),)), 0, yard
    )
