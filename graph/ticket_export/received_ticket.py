"""A received ticket: parse untrusted bytes, and import it as evidence that suggests and never confirms. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from graph.state import InboxItem
from graph.ticket_export.document import DOCUMENT_FORMAT, MAX_DOCUMENT_BYTES, ExportedFact, TicketDocument
from kb.fact_keys import find_key
from kb.redact import redact, show_invisible
from kb.schema import iter_complaints
from tools.checks import CHECKS
from tools.fact import Fact
from tools.inventory.host_ranges import BadRange, expand_host_range, fold_host_names

# Parse untrusted bytes into the document, or report problems by field name. Pure.
#
# The result is bounded and redacted but stays unverified. Unknown versions are refused; unknown fields are ignored and
# listed.

MAX_PROBLEMS = 20
MAX_IGNORED_FIELDS = 20
MAX_DEPTH = 12
_VERSION_PATTERN = re.compile(r"rackmedic-ticket/(\d{1,6})")


class BadTicket(Exception):
    """No ticket that can be read: `problems` name the fields."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)[:MAX_PROBLEMS]
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class ParsedTicket:
    """The document, and the fields unknown to this version."""

    document: TicketDocument
    ignored: tuple[str, ...] = ()


def parse_ticket(raw: bytes) -> ParsedTicket:
    """Parse and validate a document. Raises BadTicket."""
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise BadTicket([f"the document has {len(raw):,} bytes; at most {MAX_DOCUMENT_BYTES:,} are read"])
    loaded = _load_json(raw)
    _verify_format(loaded.get("format"))
    try:
        document = TicketDocument.model_validate_json(json.dumps(_redact_texts(loaded)))
    except ValidationError as error:
        raise BadTicket([complaint for _, complaint in iter_complaints(error, TicketDocument)]) from error
    return ParsedTicket(document, tuple(_iter_unknown_fields(loaded, TicketDocument, ""))[:MAX_IGNORED_FIELDS])


def _load_json(raw: bytes) -> dict[str, Any]:
    try:
        loaded = json.loads(raw.decode("utf-8"), parse_constant=_reject_constant)
    except UnicodeDecodeError as error:
        raise BadTicket([f"no UTF-8: byte {error.start} cannot be read"]) from error
    except (ValueError, RecursionError) as error:
        raise BadTicket([f"no JSON: {' '.join(str(error).split())[:160]}"]) from error
    if not isinstance(loaded, dict):
        raise BadTicket(["the document is no mapping"])
    if _measure_depth(loaded) > MAX_DEPTH:
        raise BadTicket([f"the document is nested deeper than {MAX_DEPTH} levels"])
    return loaded


def _reject_constant(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


def _verify_format(said: object) -> None:
    if said == DOCUMENT_FORMAT:
        return
    match = _VERSION_PATTERN.fullmatch(said) if isinstance(said, str) else None
    if match:
        raise BadTicket(
            [
                f"format: version {int(match[1])} is not known here, only {DOCUMENT_FORMAT}; upgrade RackMedic or write it again with that version"
            ]
        )
    raise BadTicket([f"format: {said!r:.60} is none of {DOCUMENT_FORMAT}"])


def _measure_depth(value: object) -> int:
    """Return at most `MAX_DEPTH` + 1, without recursion."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        level = [part for one in level if isinstance(one, dict | list) for part in (one.values() if isinstance(one, dict) else one)]
        depth += 1
    return depth


def _redact_texts(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redact_texts(part) for part in value]
    if isinstance(value, dict):
        return {redact(name): _redact_texts(part) for name, part in value.items()}
    return value


def _iter_unknown_fields(value: Any, model: type[BaseModel], where: str) -> Iterator[str]:
    for name, part in value.items():
        inside = model.model_fields.get(name)
        if inside is None:
            yield show_invisible(redact(f"{where}{name}"))[:120]
            continue
        below = _find_model(inside.annotation)
        for row in part if isinstance(part, list) else ():
            if below is not None and isinstance(row, dict):
                yield from _iter_unknown_fields(row, below, f"{where}{name}.")


def _find_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _find_model(part))), None)


# Import a ticket of another RackMedic: words to search by, and facts that suggest and never confirm.

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
