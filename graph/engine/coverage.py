"""What was looked at where, where not, and why: the difference between healthy and not seen. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graph.engine.reference_data import ReferenceData, is_tenant_writable
from kb.taxonomy.taxonomy import Leaf
from tools.checks.not_understood import KEY as NOT_UNDERSTOOD
from tools.fact import Fact, Status

UNASKED_KEYS = frozenset({"check.no_target", "check.left_out", "check.foreign", NOT_UNDERSTOOD})
"""Keys whose facts say that a part of a look was left out."""
_CHECK_STATUS_KEYS = UNASKED_KEYS | {"check.skipped", "job.log"}
MISSING_TARGET_REASONS = frozenset({"no_tool", "no_device"})
"""Why a passive check was not run. The host is well for all that, and part of the truth is not seen."""


@dataclass(slots=True)
class Coverage:
    """What was looked at where, and where not and why."""

    lens: ReferenceData
    hosts: Sequence[str]
    blind: Mapping[tuple[str, str], str] = field(default_factory=dict)
    asked: frozenset[tuple[str, str]] = frozenset()
    observed: frozenset[tuple[str, str]] = frozenset()
    skipped: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Checks that were asked and not run, and why: GPUs that are busy, or no tool."""
    untargeted: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Checks of which a part was left out: the site names nobody to ask, or the answer was too long."""

    @classmethod
    def from_facts(cls, facts: Iterable[Fact], lens: ReferenceData, hosts: Sequence[str]) -> "Coverage":
        blind: dict[tuple[str, str], str] = {}
        asked: set[tuple[str, str]] = set()
        observed: set[tuple[str, str]] = set()
        skipped: dict[tuple[str, str], str] = {}
        untargeted: dict[tuple[str, str], str] = {}
        for fact in facts:
            asked.add((fact.host, fact.check))
            if fact.status is Status.OK and fact.key not in _CHECK_STATUS_KEYS:
                observed.add((fact.host, fact.key))
            elif fact.key == "check.skipped":
                skipped[fact.host, fact.check] = fact.line
                if fact.value in MISSING_TARGET_REASONS and _can_be_present(fact, lens):
                    untargeted[fact.host, fact.check] = fact.line
            elif fact.key in UNASKED_KEYS or (fact.key == "job.log" and fact.value is False):
                untargeted[fact.host, fact.check] = fact.format_sentence() if fact.key == NOT_UNDERSTOOD else fact.line
            elif fact.status.blind:
                blind.setdefault((fact.host, fact.check), fact.line or fact.status.value)
            elif fact.status is Status.OK:
                observed.add((fact.host, fact.key))
        seen = frozenset((host, key) for host, key in observed if not is_tenant_writable(key))
        return cls(lens, hosts, blind, frozenset(asked), seen, skipped, untargeted)

    def find_gaps(self, leaf: Leaf) -> tuple[list[str], list[tuple[str, str]]]:
        """For a leaf: where what would decide could not be looked at, in words, and (host, check) pairs nobody asked yet."""
        blind, unasked = self._find_gaps(leaf)
        return [f"{', '.join(hosts[:4])}{' …' if len(hosts) > 4 else ''}: {why}" for why, hosts in blind.items()], unasked

    def list_unobserved_hosts(self, leaf: Leaf) -> tuple[str, ...]:
        """The hosts on which what would decide a leaf could not be looked at."""
        blind, _ = self._find_gaps(leaf)
        return tuple(sorted({host for hosts in blind.values() for host in hosts}))

    def _find_gaps(self, leaf: Leaf) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
        """For each check that could not look, with its reason, the hosts; and the pairs that nobody asked."""
        deciding, keys = self.lens.list_deciding_checks(leaf), self.lens.list_decisive_keys(leaf)
        blind: dict[str, list[str]] = defaultdict(list)
        unasked: list[tuple[str, str]] = []
        for host in self.hosts:
            unasked += [(host, check.id) for check in deciding if (host, check.id) not in self.asked]
            if any((host, key) in self.observed for key in keys):
                continue
            for check in deciding:
                if (host, check.id) in self.blind and not self._is_pointless(host, check.id):
                    blind[f"{check.id}: {self.blind[host, check.id]}"].append(host)
        return blind, unasked

    def is_decidable(self, leaf: Leaf) -> bool:
        """Whether some check that was run, passive or exclusive, could have shown what decides."""
        checks = {check.id for key in self.lens.list_decisive_keys(leaf) for check in self.lens.list_establishing_checks(key)}
        return any((host, check) in self.asked and (host, check) not in self.skipped for check in checks for host in self.hosts)

    def has_observed(self, host: str, check: str) -> bool:
        """Whether a check was run on a host and could look."""
        return (host, check) in self.asked and (host, check) not in self.skipped and (host, check) not in self.blind

    def list_unobserved_checks(self) -> list[tuple[str, str, str]]:
        """(host, check, why) of every passive look that failed and could have shown a fault of the machine; of a job's log where no
        host's could be read."""
        return [
            (host, check, why)
            for (host, check), why in sorted(self.blind.items())
            if check in self.lens.checks
            and not self._is_pointless(host, check)
            and (not self._is_job_check(check) or self._is_job_log_unread(check))
        ]

    def list_unread_texts(self) -> list[str]:
        """Why texts that people handed in, which belong to no host, were not understood whole."""
        return [why for (host, _), why in self.untargeted.items() if not host]

    def _is_job_check(self, check: str) -> bool:
        return all(map(is_tenant_writable, self.lens.checks[check].establishes))

    def _is_job_log_unread(self, check: str) -> bool:
        return "job.error" in self.lens.checks[check].establishes and all((host, check) in self.blind for host in self.hosts)

    def has_unasked_check(self) -> bool:
        """Whether some passive check of the machine was not asked of some host: then nothing may be called healthy."""
        checks = [c.id for c in self.lens.list_passive_checks() if not self._is_job_check(c.id)]
        return any((host, check) not in self.asked for host in self.hosts for check in checks)

    def _is_pointless(self, host: str, check: str) -> bool:
        """A machine whose SKU has no InfiniBand is not blind for lack of ibstat."""
        return check == "ibstat" and self.lens.expected(host, "ib.count", None) == 0


def _can_be_present(fact: Fact, lens: ReferenceData) -> bool:
    """Whether a passive check without anything to ask leaves something unseen: the fabric of a machine without InfiniBand is none."""
    check = lens.checks.get(fact.check)
    exclusive = check is not None and check.exclusive
    return not exclusive and not (fact.check == "fabric" and lens.expected(fact.host, "ib.count", None) == 0)
