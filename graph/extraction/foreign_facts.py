"""Select the facts of an attached text that may be of the incident's machines, up to a limit. Pure.

Anyone can write a text with a million events, each of which would be weighed against every cause.
"""

from collections.abc import Sequence

from graph.extraction.pasted_text import PastedFacts
from kb.fact_keys import find_key
from kb.pci_address import normalize_bdf
from tools.fact import Fact

MAX_SHOWN_CHARS = 80
MAX_TEXT_FACTS = 4096  # Facts from texts per incident.


def select_own_facts(pasted: PastedFacts, others: Sequence[Fact], addresses: frozenset[str]) -> tuple[tuple[Fact, ...], int]:
    """Return the facts to keep and how many are dropped.

    `others` were kept before. `addresses` are the PCI addresses of all GPUs in question, empty if unknown. Events at
    other addresses count for nothing; one fact names them.
    """
    places = {"", *addresses}
    may_be = tuple(fact for fact in pasted.facts if not addresses or _get_gpu_address(fact) in places)
    foreign = [fact for fact in pasted.facts if addresses and _get_gpu_address(fact) not in places]
    room = max(0, MAX_TEXT_FACTS - sum(not fact.host for fact in others))
    kept_facts = may_be[:room]
    return (*kept_facts, *_build_foreign_facts(foreign)), pasted.left_out + len(may_be) - len(kept_facts)


def _build_foreign_facts(facts: Sequence[Fact]) -> list[Fact]:
    if not facts:
        return []
    first = facts[0].format_sentence()[:MAX_SHOWN_CHARS]
    remainder = f" and {len(facts) - 1} more" if len(facts) > 1 else ""
    line = f"{first}{remainder}: no GPU of these hosts has that address. Another host?"
    return [Fact(facts[0].check, "check.foreign", len(facts), line=line, attrs={"bdf": _get_gpu_address(facts[0])})]


def _get_gpu_address(fact: Fact) -> str:
    """Return "" for anything but a GPU's kernel event, which passes as own."""
    row = find_key(fact.key)
    of_gpu = row is not None and row.scope == "gpu" and fact.key.startswith("kernel.")
    return (normalize_bdf(fact.device or "") or "") if of_gpu else ""
