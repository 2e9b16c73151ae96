"""What a ticket of another RackMedic is to an incident of ours: words to look by, and facts that suggest and never confirm."""

from typing import Any

from graph.exchange.document import TicketDocument, ToldFact
from graph.state import Item
from kb.keys import find
from tools.checks import CHECKS
from tools.fact import Fact
from tools.inventory.ranges import BadRange, expand, fold

MOST_TOLD, LONGEST_WORDS, MOST_HOSTS = 60, 1200, 4096
_KINDS: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (float, int), "str": (str,), "list": (tuple,)}


def words_of(document: TicketDocument) -> str:
    """What its people said, as the words of a report."""
    return "\n".join(row.text for row in document.said)[-LONGEST_WORDS:] or "Their RackMedic sent this ticket without a word of a person."


def evidence_of(document: TicketDocument) -> dict[str, Any]:
    """What an inbox item carries of it: hosts by name, and facts of catalogued keys whose values are of the key's kind."""
    told = [_fact(row).to_json() for row in document.facts if _known(row)]
    return {"hosts": _hosts(document), "told": told[:MOST_TOLD]}


def told_facts(item: Item) -> list[Fact]:
    """The facts that an item's ticket tells. They carry no host, as all that people hand in, and decide nothing, not even what words may."""
    return [Fact.from_json(row) for row in item.data.get("told", ())]


def _hosts(document: TicketDocument) -> str:
    """Folded; none where what stands there names no hosts, or more than any incident has."""
    try:
        names = expand(",".join(document.hosts))
    except BadRange:
        return ""
    return fold(names) if len(names) <= MOST_HOSTS else ""


def _known(row: ToldFact) -> bool:
    key = find(row.key)
    if key is None or key.name.startswith("site.") or row.check not in CHECKS or row.status != "ok":
        return False
    return isinstance(row.value, _KINDS[key.kind]) and (key.kind == "bool" or not isinstance(row.value, bool))


def _fact(row: ToldFact) -> Fact:
    value = list(row.value) if isinstance(row.value, tuple) else row.value
    line = f"{row.host}: {row.line}" if row.host and row.line else row.line
    attrs = {**row.attrs, "told": True}
    return Fact(row.check, row.key, value, row.device or None, unit=row.unit, line=line, attrs=attrs, time=row.time)
