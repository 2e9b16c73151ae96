"""Propose exclusive checks that could decide but were skipped because the GPUs are in use, one at a time. Pure."""

import hashlib
from collections.abc import Sequence

from graph.engine.assessment import Assessment
from graph.engine.check_selection import list_hosts_to_test
from graph.remediation.build import PlanContext, enter_step
from graph.state import Remediation, RemediationStep
from tools.checks.check import Check

MAX_TEST_HOSTS = 16


def build_check_remediations(assessment: Assessment, plan: PlanContext, remediations: Sequence[Remediation]) -> list[Remediation]:
    """Return the cheapest check of the likeliest cause that waits for busy hosts; none while one is open or was
    proposed.
    """
    if any(row.is_open and row.current_step and row.current_step.remedy == "run_check" for row in remediations):
        return []
    busy = {(fact.check, fact.host) for fact in plan.facts if fact.key == "check.skipped" and fact.value == "busy" and not fact.stale}
    for row in assessment.beliefs:
        if row.proven:
            continue
        checks = [assessment.reference.checks[name] for name in row.leaf.confirms if name in assessment.reference.checks]
        for check in sorted(checks, key=lambda check: check.seconds):
            hosts = sorted(host for host in list_hosts_to_test(row, check, assessment) if (check.id, host) in busy)[:MAX_TEST_HOSTS]
            if hosts and not _was_proposed(check, hosts, remediations):
                return [_build_check_remediation(row.label, check, hosts, plan, remediations)]
    return []


def build_requested_check(
    check: Check, hosts: Sequence[str], assessment: Assessment, plan: PlanContext, remediations: Sequence[Remediation]
) -> Remediation:
    """Return the requested check for the likeliest cause that it can confirm."""
    able = [row for row in assessment.beliefs if check.id in row.leaf.confirms]
    label = next((row.label for row in able if row.leaf.scope != "job"), able[0].label if able else "")
    return _build_check_remediation(label, check, sorted(hosts), plan, remediations)


def _was_proposed(check: Check, hosts: Sequence[str], remediations: Sequence[Remediation]) -> bool:
    target = ",".join(hosts)
    return any(row.target == target and any(step.args.get("check") == check.id for step in row.rungs) for row in remediations)


def _build_check_remediation(
    label: str, check: Check, hosts: Sequence[str], plan: PlanContext, remediations: Sequence[Remediation]
) -> Remediation:
    target = ",".join(hosts)
    name = hashlib.sha256(f"{plan.incident} {label} {target} {check.id} {len(remediations)}".encode()).hexdigest()[:8]
    return enter_step(
        Remediation(id=name, label=label, target=target, rungs=(RemediationStep(remedy="run_check", args={"check": check.id}),)), 0, plan
    )
