"""Which checks were observed on which hosts, and why not: separates healthy from unobserved. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graph.engine.reference_data import ReferenceData, is_tenant_writable
from kb.taxonomy.taxonomy import Leaf
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY
from tools.fact import Fact, Status

# keys of facts that report an omitted part of a check
UNASKED_KEYS = frozenset({"check.no_target", "check.left_out", "check.foreign", NOT_UNDERSTOOD_KEY})
_CHECK_STATUS_KEYS = UNASKED_KEYS | {"check.skipped", "job.log"}
# reasons why a passive check did not run; the host may be healthy, but part of it is unobserved
MISSING_TARGET_REASONS = frozenset({"no_tool", "no_device"})


@dataclass(slots=True)
class Coverage:
    """Which (host, check) pairs were asked, observed, skipped or failed, and why."""

    reference: ReferenceData
    hosts: Sequence[str]
    unobserved: Mapping[tuple[str, str], str] = field(default_factory=dict)
    asked: frozenset[tuple[str, str]] = frozenset()
    observed: frozenset[tuple[str, str]] = frozenset()
    # checks that were asked and did not run, and why: busy GPUs, no tool
    skipped: Mapping[tuple[str, str], str] = field(default_factory=dict)
    # checks with an omitted part, and why: no target configured, or the answer was too long
    untargeted: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def from_facts(cls, facts: Iterable[Fact], reference: ReferenceData, hosts: Sequence[str]) -> "Coverage":
        unobserved: dict[tuple[str, str], str] = {}
        asked_checks: set[tuple[str, str]] = set()
        observed: set[tuple[str, str]] = set()
        skipped: dict[tuple[str, str], str] = {}
        untargeted: dict[tuple[str, str], str] = {}
        for fact in facts:
            asked_checks.add((fact.host, fact.check))
            if fact.status is Status.OK and fact.key not in _CHECK_STATUS_KEYS:
                observed.add((fact.host, fact.key))
            elif fact.key == "check.skipped":
                skipped[fact.host, fact.check] = fact.line
                if fact.value in MISSING_TARGET_REASONS and _can_be_present(fact, reference):
                    untargeted[fact.host, fact.check] = fact.line
            elif fact.key in UNASKED_KEYS or (fact.key == "job.log" and fact.value is False):
                untargeted[fact.host, fact.check] = fact.format_sentence() if fact.key == NOT_UNDERSTOOD_KEY else fact.line
            elif fact.status.blind:
                unobserved.setdefault((fact.host, fact.check), fact.line or fact.status.value)
            elif fact.status is Status.OK:
                observed.add((fact.host, fact.key))
        observed_keys = frozenset((host, key) for host, key in observed if not is_tenant_writable(key))
        return cls(reference, hosts, unobserved, frozenset(asked_checks), observed_keys, skipped, untargeted)

    def find_gaps(self, leaf: Leaf) -> tuple[list[str], list[tuple[str, str]]]:
        """Return where a leaf's deciding checks failed, in words, and the (host, check) pairs not asked yet."""
        unobserved, unasked = self._find_gaps(leaf)
        return [f"{', '.join(hosts[:4])}{' …' if len(hosts) > 4 else ''}: {reason}" for reason, hosts in unobserved.items()], unasked

    def list_unobserved_hosts(self, leaf: Leaf) -> tuple[str, ...]:
        unobserved, _ = self._find_gaps(leaf)
        return tuple(sorted({host for hosts in unobserved.values() for host in hosts}))

    def _find_gaps(self, leaf: Leaf) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
        """Return `check: reason` → hosts, and the (host, check) pairs not asked yet."""
        deciding, keys = self.reference.list_deciding_checks(leaf), self.reference.list_decisive_keys(leaf)
        unobserved: dict[str, list[str]] = defaultdict(list)
        unasked: list[tuple[str, str]] = []
        for host in self.hosts:
            unasked += [(host, check.id) for check in deciding if (host, check.id) not in self.asked]
            if any((host, key) in self.observed for key in keys):
                continue
            for check in deciding:
                if (host, check.id) in self.unobserved and not self._is_pointless(host, check.id):
                    unobserved[f"{check.id}: {self.unobserved[host, check.id]}"].append(host)
        return unobserved, unasked

    def is_decidable(self, leaf: Leaf) -> bool:
        """Return whether a check that ran could have shown a deciding fact."""
        checks = {check.id for key in self.reference.list_decisive_keys(leaf) for check in self.reference.list_establishing_checks(key)}
        return any((host, check) in self.asked and (host, check) not in self.skipped for check in checks for host in self.hosts)

    def has_observed(self, host: str, check: str) -> bool:
        """Return whether a check ran on a host and did not fail."""
        return (host, check) in self.asked and (host, check) not in self.skipped and (host, check) not in self.unobserved

    def list_unobserved_checks(self) -> list[tuple[str, str, str]]:
        """Return (host, check, reason) of failed passive checks that could have shown a machine fault.

        An unread job log counts only if no host's could be read.
        """
        return [
            (host, check, reason)
            for (host, check), reason in sorted(self.unobserved.items())
            if check in self.reference.checks
            and not self._is_pointless(host, check)
            and (not self._is_job_check(check) or self._is_job_log_unread(check))
        ]

    def list_unread_texts(self) -> list[str]:
        """Return why uploaded texts, which belong to no host, were not fully understood."""
        return [reason for (host, _), reason in self.untargeted.items() if not host]

    def _is_job_check(self, check: str) -> bool:
        return all(map(is_tenant_writable, self.reference.checks[check].establishes))

    def _is_job_log_unread(self, check: str) -> bool:
        return "job.error" in self.reference.checks[check].establishes and all((host, check) in self.unobserved for host in self.hosts)

    def has_unasked_check(self) -> bool:
        """Return whether a passive machine check was not asked somewhere; then nothing may be called healthy."""
        checks = [c.id for c in self.reference.list_passive_checks() if not self._is_job_check(c.id)]
        return any((host, check) not in self.asked for host in self.hosts for check in checks)

    def _is_pointless(self, host: str, check: str) -> bool:
        """An SKU without InfiniBand needs no `ibstat`."""
        return check == "ibstat" and self.reference.expected(host, "ib.count", None) == 0


def _can_be_present(fact: Fact, reference: ReferenceData) -> bool:
    """Return whether a skipped check leaves something unobserved; a host without InfiniBand has no fabric."""
    check = reference.checks.get(fact.check)
    exclusive = check is not None and check.exclusive
    return not exclusive and not (fact.check == "fabric" and reference.expected(fact.host, "ib.count", None) == 0)
