"""Receipts: the output digests of each check as the fleet delivered them.

They are stored beside the facts and reveal an answer that was filed under another host, lost, or added later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tools.fact import Fact
from tools.fleet.answers import FleetAnswers

DIGEST_PREFIX_CHARS = 12
HostCheck = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Receipts:
    """The output digests of each check's last answer on a host; an empty set if the check could not look."""

    digests: Mapping[HostCheck, frozenset[str]] = field(default_factory=dict)

    def with_wave(self, answers: FleetAnswers) -> "Receipts":
        """Replace earlier answers by those of a wave."""
        new_digests = {(answer.host, answer.check): _collect_output_digests(answer.facts) for answer in answers.answers}
        return Receipts({**self.digests, **new_digests})

    def with_facts(self, facts: Iterable[Fact]) -> "Receipts":
        """Add facts from outside a turn, such as an approved check."""
        check_facts: dict[HostCheck, list[Fact]] = {}
        for fact in facts:
            if fact.host:
                check_facts.setdefault((fact.host, fact.check), []).append(fact)
        new_digests = {host_check: _collect_output_digests(facts) for host_check, facts in check_facts.items()}
        return Receipts({**self.digests, **new_digests})

    def serialize(self) -> str:
        lines = [f"{host} {check} {','.join(sorted(digests)) or '-'}" for (host, check), digests in sorted(self.digests.items())]
        return "\n".join(lines)

    @classmethod
    def parse(cls, text: str) -> "Receipts":
        """Parse serialized receipts, ignoring malformed lines."""
        digests: dict[HostCheck, frozenset[str]] = {}
        for line in text.split("\n"):
            fields = line.split(" ")
            if len(fields) == 3:
                host, check, joined_digests = fields
                digests[host, check] = frozenset(joined_digests.split(",")) - {"-"}
        return cls(digests)

    def list_misattributed(self, facts: Iterable[Fact]) -> list[str]:
        """Describe checks whose facts cite an output that the host never delivered."""
        misattributed: dict[str, None] = {}
        for fact in facts:
            delivered_digests = self.digests.get((fact.host, fact.check))
            if not fact.host or not fact.sha256 or delivered_digests is None:
                continue
            if fact.sha256[:DIGEST_PREFIX_CHARS] not in delivered_digests:
                misattributed[f"{fact.host} never answered {fact.check} with this output"] = None
        return list(misattributed)

    def list_dropped(self, facts: Iterable[Fact]) -> list[HostCheck]:
        """Return the checks that delivered an output of which no fact is left."""
        fact_sources = {(fact.host, fact.check) for fact in facts}
        return [host_check for host_check, digests in self.digests.items() if digests and host_check not in fact_sources]


def _collect_output_digests(facts: Iterable[Fact]) -> frozenset[str]:
    return frozenset(fact.sha256[:DIGEST_PREFIX_CHARS] for fact in facts if fact.sha256)
