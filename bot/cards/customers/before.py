"""What a customer may hear of their own past: reports of theirs alone, in their words and with their names for machines. Pure."""

from collections.abc import Sequence

from bot.cards.customers.phrases import phrase
from bot.cards.customers.view import CustomerReader
from graph.earlier import EarlierCause, EarlierIncident, Sought
from graph.rows import IncidentRows
from graph.state import Origin
from tools.inventory.ranges import fold

MOST_BEFORE = 3


def sought(rows: IncidentRows, origin: Origin, reader: CustomerReader) -> Sought:
    """What to look for: closed incidents on machines of theirs that this one is about, or with a cause of it."""
    hosts = tuple(host for host in rows.brief.hosts if host in reader.own)
    labels = tuple(row.label for row in rows.report.told_to_customer if reader.crosses(row)) if rows.report else ()
    return Sought(rows.id, origin, tuple(sorted(reader.own)), hosts=hosts, labels=labels)


def lines(found: Sequence[EarlierIncident], origin: Origin, reader: CustomerReader) -> list[str]:
    """A line for each of the latest that they reported themselves; nothing without any. Whatever else was found is not told."""
    own = [row for row in found if row.origin.customer is not None and row.origin.tenant == origin.tenant and origin.tenant]
    if not own:
        return []
    said = [f"{row.opened:%Y-%m-%d}: {_what(row, reader)}" for row in own[:MOST_BEFORE]]
    return [phrase("again_seen", reader.language, count=str(len(own))), *said]


def _what(row: EarlierIncident, reader: CustomerReader) -> str:
    known = [cause for cause in row.causes if cause.label in reader.words.taxonomy.leaves and not cause.inside and _theirs(cause, reader)]
    if not known:
        return phrase("again_unknown", reader.language)
    names = reader.called(host for host in known[0].hosts if host in reader.own)
    return reader.words.cause(known[0].label, reader.language).title + (f" ({fold(names)})" if names else "")


def _theirs(cause: EarlierCause, reader: CustomerReader) -> bool:
    """Whether it is of their machines alone, or of no machine."""
    return all(host in reader.own for host in cause.hosts)
