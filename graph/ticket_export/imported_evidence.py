"""Import a ticket of another RackMedic: words to search by, and facts that suggest and never confirm."""

from typing import Any

from graph.state import InboxItem
from graph.ticket_export.document import ExportedFact, TicketDocument
from kb.fact_keys import find_key
from tools.checks import CHECKS
from tools.fact import Fact
from tools.inventory.host_ranges import BadRange, expand_host_range, fold_host_names

MAX_TICKET_FACTS = 60
MAX_REPORT_CHARS = 1200
MAX_TICKET_HOSTS = 4096
_TYPES_BY_KIND: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (float, int), "str": (str,), "list": (tuple,)}


def build_report_text(document: TicketDocument) -> str:
    """Return the people's messages as the text of a report."""
    return (
        "\n".join(row.text for row in document.said)[-MAX_REPORT_CHARS:] or "Their RackMedic sent this ticket without a word of a person."
    )


def build_item_data(document: TicketDocument) -> dict[str, Any]:
    """Return an inbox item's data: folded hosts, and facts with catalogued keys and matching value types."""
    fact_rows = [_build_fact(row).to_json() for row in document.facts if _is_known_fact(row)]
    return {"hosts": _fold_hosts(document), "told": fact_rows[:MAX_TICKET_FACTS]}


def parse_ticket_facts(item: InboxItem) -> list[Fact]:
    """Return the ticket's facts. They carry no host, as all attached text, and decide nothing, not even what words may."""
    return [Fact.from_json(row) for row in item.data.get("told", ())]


def _fold_hosts(document: TicketDocument) -> str:
    """Return an empty string for invalid names or more hosts than an incident may have."""
    try:
        names = expand_host_range(",".join(document.hosts))
    except BadRange:
        return ""
    return fold_host_names(names) if len(names) <= MAX_TICKET_HOSTS else ""


def _is_known_fact(row: ExportedFact) -> bool:
    key = find_key(row.key)
    if key is None or key.name.startswith("site.") or row.check not in CHECKS or row.status != "ok":
        return False
    return isinstance(row.value, _TYPES_BY_KIND[key.kind]) and (key.kind == "bool" or not isinstance(row.value, bool))


def _build_fact(row: ExportedFact) -> Fact:
    value = list(row.value) if isinstance(row.value, tuple) else row.value
    line = f"{row.host}: {row.line}" if row.host and row.line else row.line
    attrs = {**row.attrs, "told": True}
    return Fact(row.check, row.key, value, row.device or None, unit=row.unit, line=line, attrs=attrs, time=row.time)
