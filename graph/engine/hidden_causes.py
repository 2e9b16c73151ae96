"""Find causes that fit the complaint and that only an exclusive check can show.

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
    """A cause that no passive check can show.

    Attributes:
        checks: Exclusive checks, cheapest first. Each of them can decide.
        hosts: Hosts on which none of the checks ran.
        why: Why a check was skipped, or an empty string.
        measured: Whether the complaint is about exactly what the check measures.
    """

    leaf: Leaf
    checks: tuple[Check, ...]
    hosts: tuple[str, ...]
    why: str = ""
    measured: bool = False

    @property
    def check_names(self) -> str:
        return " or ".join(check.id for check in self.checks)

    @property
    def says(self) -> str:
        claim = f"{self.leaf.title} would show in {self.check_names} alone"
        if self.measured:
            claim = f"what is reported as slow is measured by {self.check_names}"
        reason = f" ({self.why})" if self.why else ""
        return f"{claim}, which did not look at {fold_host_names(self.hosts)}{reason}"


def find_hidden_causes(
    verdicts: Iterable[LabelVerdict],
    symptoms: Collection[str],
    reference: ReferenceData,
    coverage: Coverage,
    measured: Iterable[Sequence[str]] = (),
) -> tuple[HiddenCause, ...]:
    """Return the hidden ones among the likeliest causes of the symptoms.

    Args:
        verdicts: Most likely first.
        coverage: The checks that ran on the hosts of the complaint.
        measured: Names of checks that measure the complaint, each with its alternatives for fewer hosts.
    """
    fitting_verdicts = [verdict for verdict in verdicts if not set(symptoms).isdisjoint(verdict.best.leaf.symptoms)]
    likely_causes: list[HiddenCause | None] = []  # None for a likely cause that is not hidden
    for verdict in fitting_verdicts:
        if verdict.verdict == "confirmed":
            continue
        leaf = verdict.best.leaf
        hidden_cause = _build_hidden_cause(leaf, _list_exclusive_checks(leaf, reference), coverage)
        if hidden_cause is not None or verdict.verdict != "rejected":
            likely_causes.append(hidden_cause)
    measured_causes = [_find_measured_cause(check_names, fitting_verdicts, reference, coverage) for check_names in measured]
    return tuple(cause for cause in (*likely_causes[:MAX_LIKELY_CAUSES], *measured_causes) if cause is not None)


def _find_measured_cause(
    check_names: Sequence[str], fitting_verdicts: Sequence[LabelVerdict], reference: ReferenceData, coverage: Coverage
) -> HiddenCause | None:
    """Return the first alternative that can run on this many hosts, with the likeliest cause it can confirm."""
    checks = [reference.checks[name] for name in check_names if name in reference.checks]
    check = next((check for check in checks if len(coverage.hosts) >= MIN_HOSTS_BY_SCOPE.get(check.scope, 1)), None)
    if check is None:
        return None
    leaf = next((verdict.best.leaf for verdict in fitting_verdicts if check.id in verdict.best.leaf.confirms), None)
    if leaf is None:
        return None
    hidden_cause = _build_hidden_cause(leaf, [check], coverage)
    return replace(hidden_cause, measured=True) if hidden_cause else None


def _build_hidden_cause(leaf: Leaf, checks: Sequence[Check], coverage: Coverage) -> HiddenCause | None:
    """Return the cause with the hosts that no check observed; None if there is no such host."""
    hosts = tuple(host for host in coverage.hosts if not any(coverage.has_observed(host, check.id) for check in checks))
    if not checks or not hosts:
        return None
    skip_reasons = [coverage.skipped[host, check.id] for check in checks for host in hosts if (host, check.id) in coverage.skipped]
    return HiddenCause(leaf, tuple(checks), hosts, skip_reasons[0] if skip_reasons else "")


def _list_exclusive_checks(leaf: Leaf, reference: ReferenceData) -> Sequence[Check]:
    """Return the exclusive checks that decide a leaf; empty if a passive one can."""
    if reference.list_deciding_checks(leaf):
        return ()
    exclusive_names = {
        check.id for key in reference.list_decisive_keys(leaf) for check in reference.list_establishing_checks(key) if check.exclusive
    }
    checks = [reference.checks[name] for name in leaf.confirms if name in exclusive_names]
    return sorted(checks, key=lambda check: (check.seconds, check.id))
