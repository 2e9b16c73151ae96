"""Receipts: the output digests of each check as the fleet delivered them.

They are stored beside the facts and reveal an answer that was filed under another host, lost, or added later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tools.fact import Fact
from tools.fleet.answers import FleetAnswers

DIGEST_PREFIX_CHARS = 12  # Characters kept of a digest.
HostCheck = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Receipts:
    """(host, check) → outputs of its last answer; empty where the check could not look."""

    rows: Mapping[HostCheck, frozenset[str]] = field(default_factory=dict)

    def with_wave(self, answers: FleetAnswers) -> "Receipts":
        """Replace earlier answers by a wave's."""
        new_rows = {(answer.host, answer.check): _collect_output_digests(answer.facts) for answer in answers.answers}
        return Receipts({**self.rows, **new_rows})

    def with_facts(self, facts: Iterable[Fact]) -> "Receipts":
        """Add facts from outside a turn, such as an approved check."""
        by_look: dict[HostCheck, list[Fact]] = {}
        for fact in facts:
            if fact.host:
                by_look.setdefault((fact.host, fact.check), []).append(fact)
        return Receipts({**self.rows, **{pair: _collect_output_digests(facts) for pair, facts in by_look.items()}})

    def serialize(self) -> str:
        return "\n".join(f"{host} {check} {','.join(sorted(outputs)) or '-'}" for (host, check), outputs in sorted(self.rows.items()))

    @classmethod
    def parse(cls, text: str) -> "Receipts":
        """Parse, ignoring malformed lines."""
        rows = [line.split(" ") for line in text.split("\n")]
        return cls({(row[0], row[1]): frozenset(row[2].split(",")) - {"-"} for row in rows if len(row) == 3})

    def list_misattributed(self, facts: Iterable[Fact]) -> list[str]:
        """Describe checks whose facts cite an output that the host never delivered."""
        misattributed: dict[str, None] = {}
        for fact in facts:
            outputs = self.rows.get((fact.host, fact.check))
            if fact.host and fact.sha256 and outputs is not None and fact.sha256[:DIGEST_PREFIX_CHARS] not in outputs:
                misattributed[f"{fact.host} never answered {fact.check} with this output"] = None
        return list(misattributed)

    def list_dropped(self, facts: Iterable[Fact]) -> list[HostCheck]:
        """Return answered checks without a fact left."""
        fact_sources = {(fact.host, fact.check) for fact in facts}
        return [pair for pair, outputs in self.rows.items() if outputs and pair not in fact_sources]


def _collect_output_digests(facts: Iterable[Fact]) -> frozenset[str]:
    return frozenset(fact.sha256[:DIGEST_PREFIX_CHARS] for fact in facts if fact.sha256)
