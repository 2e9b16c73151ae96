"""What hosts answered, as the fleet handed it over: for every look the digests of its outputs. Kept beside the facts, so that an answer that got under another
host's name, was lost or was added on the way shows. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tools.fact import Fact
from tools.fleet.answers import FleetAnswers

DIGEST_PREFIX_CHARS = 12
"""Characters of a digest that are kept."""
HostCheck = tuple[str, str]
"""Host and check."""


@dataclass(frozen=True, slots=True)
class Receipts:
    """(host, check) → the outputs that its last answer came from; none where it could not look."""

    rows: Mapping[HostCheck, frozenset[str]] = field(default_factory=dict)

    def with_wave(self, wave: FleetAnswers) -> "Receipts":
        """With a wave's answers in place of what the same looks answered before."""
        new = {(answer.host, answer.check): _collect_output_digests(answer.facts) for answer in wave.answers}
        return Receipts({**self.rows, **new})

    def with_facts(self, facts: Iterable[Fact]) -> "Receipts":
        """With what was brought from elsewhere: an approved check that ran between turns."""
        by_look: dict[HostCheck, list[Fact]] = {}
        for fact in facts:
            if fact.host:
                by_look.setdefault((fact.host, fact.check), []).append(fact)
        return Receipts({**self.rows, **{looked: _collect_output_digests(rows) for looked, rows in by_look.items()}})

    def serialize(self) -> str:
        """A line a look."""
        return "\n".join(f"{host} {check} {','.join(sorted(outputs)) or '-'}" for (host, check), outputs in sorted(self.rows.items()))

    @classmethod
    def parse(cls, text: str) -> "Receipts":
        """The inverse; lines that are none are passed over."""
        rows = [line.split(" ") for line in text.split("\n")]
        return cls({(row[0], row[1]): frozenset(row[2].split(",")) - {"-"} for row in rows if len(row) == 3})

    def list_misattributed(self, facts: Iterable[Fact]) -> list[str]:
        """What of these facts no host handed over: a sentence a look."""
        found: dict[str, None] = {}
        for fact in facts:
            outputs = self.rows.get((fact.host, fact.check))
            if fact.host and fact.sha256 and outputs is not None and fact.sha256[:DIGEST_PREFIX_CHARS] not in outputs:
                found[f"{fact.host} never answered {fact.check} with this output"] = None
        return list(found)

    def list_dropped(self, facts: Iterable[Fact]) -> list[HostCheck]:
        """Looks that were answered and of which no fact is left."""
        there = {(fact.host, fact.check) for fact in facts}
        return [looked for looked, outputs in self.rows.items() if outputs and looked not in there]


def _collect_output_digests(facts: Iterable[Fact]) -> frozenset[str]:
    return frozenset(fact.sha256[:DIGEST_PREFIX_CHARS] for fact in facts if fact.sha256)
