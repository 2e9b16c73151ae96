"""Causes that no passive check shows: they fit the complaint, and only an exclusive check can decide.

An example is a GPU that computes wrong numbers while every health check passes.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from graph.engine.coverage import Coverage
from graph.engine.reference_data import ReferenceData
from graph.engine.verdict import LabelVerdict
from kb.taxonomy.taxonomy import Leaf
from tools.checks.check_types import Check
from tools.inventory.host_ranges import fold_host_names

MIN_HOSTS_BY_SCOPE = {"pair": 2, "group": 3}  # hosts a multi-host check needs to find the guilty one by comparison
MAX_LIKELY_CAUSES = 3  # possible causes per report that justify an exclusive check


@dataclass(frozen=True, slots=True)
class HiddenCause:
    """A cause, its exclusive checks (each can tell, cheapest first), the hosts none observed, and why if one was asked."""

    leaf: Leaf
    checks: tuple[Check, ...]
    hosts: tuple[str, ...]
    why: str = ""
    measured: bool = False  # the report complains of exactly what the check measures

    @property
    def check_names(self) -> str:
        return " or ".join(check.id for check in self.checks)

    @property
    def says(self) -> str:
        host_names = fold_host_names(self.hosts)
        if self.measured:
            return f"what is reported as slow is measured by {self.check_names}, which did not look at {host_names}{f' ({self.why})' if self.why else ''}"
        return f"{self.leaf.title} would show in {self.check_names} alone, which did not look at {host_names}{f' ({self.why})' if self.why else ''}"


def find_hidden_causes(
    verdicts: Iterable[LabelVerdict],
    symptoms: Collection[str],
    reference: ReferenceData,
    coverage: Coverage,
    measured: Iterable[Sequence[str]] = (),
) -> tuple[HiddenCause, ...]:
    """Return the hidden ones among the likeliest causes of the symptoms.

    Args:
        standings: Most likely first.
        coverage: Of the hosts complained of.
        measured: Checks that measure the complaint, each with its alternatives for fewer hosts.
    """
    fitting = [verdict for verdict in verdicts if not set(symptoms).isdisjoint(verdict.best.leaf.symptoms)]
    rows = [
        (verdict, _build_hidden_cause(verdict.best.leaf, _list_exclusive_checks(verdict.best.leaf, reference), coverage))
        for verdict in fitting
        if verdict.verdict != "confirmed"
    ]
    possible = [hidden for verdict, hidden in rows if hidden is not None or verdict.verdict != "rejected"]
    hidden_causes = tuple(hidden for hidden in possible[:MAX_LIKELY_CAUSES] if hidden is not None)
    measured_causes = (_find_measured_cause(names, fitting, reference, coverage) for names in measured)
    return (*hidden_causes, *(hidden_cause for hidden_cause in measured_causes if hidden_cause is not None))


def _find_measured_cause(
    check_names: Sequence[str], fitting_verdicts: Sequence[LabelVerdict], reference: ReferenceData, coverage: Coverage
) -> HiddenCause | None:
    """Return the first alternative that can run on this many hosts, with the likeliest cause it can confirm."""
    able = (reference.checks[name] for name in check_names if name in reference.checks)
    check = next((check for check in able if len(coverage.hosts) >= MIN_HOSTS_BY_SCOPE.get(check.scope, 1)), None)
    leaf = next((verdict.best.leaf for verdict in fitting_verdicts if check and check.id in verdict.best.leaf.confirms), None)
    hidden = _build_hidden_cause(leaf, [check], coverage) if check and leaf else None
    return replace(hidden, measured=True) if hidden else None


def _build_hidden_cause(leaf: Leaf, checks: Sequence[Check], coverage: Coverage) -> HiddenCause | None:
    hosts = tuple(host for host in coverage.hosts if not any(coverage.has_observed(host, check.id) for check in checks))
    skip_reason = next((coverage.skipped[host, check.id] for check in checks for host in hosts if (host, check.id) in coverage.skipped), "")
    return HiddenCause(leaf, tuple(checks), hosts, skip_reason) if checks and hosts else None


def _list_exclusive_checks(leaf: Leaf, reference: ReferenceData) -> Sequence[Check]:
    """Return the exclusive checks that decide a leaf; empty if a passive one can."""
    if reference.list_deciding_checks(leaf):
        return ()
    able = {check.id for key in reference.list_decisive_keys(leaf) for check in reference.list_establishing_checks(key) if check.exclusive}
    return sorted((reference.checks[name] for name in leaf.confirms if name in able), key=lambda check: (check.seconds, check.id))
