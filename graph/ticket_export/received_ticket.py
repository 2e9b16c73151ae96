"""Parse a ticket from another RackMedic, and import it as evidence that suggests a cause and never confirms one.

The parsed document is bounded and redacted but stays unverified. Unknown versions are refused; unknown fields are ignored
and listed.
"""

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

MAX_PROBLEMS = 20
MAX_IGNORED_FIELDS = 20
MAX_DEPTH = 12
_VERSION_PATTERN = re.compile(r"rackmedic-ticket/(\d{1,6})")
MAX_TICKET_FACTS = 60
MAX_REPORT_CHARS = 1200
MAX_TICKET_HOSTS = 4096
_TYPES_BY_KIND: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (float, int), "str": (str,), "list": (tuple,)}


class BadTicket(Exception):
    """The document cannot be read as a ticket; each of `problems` names a field."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)[:MAX_PROBLEMS]
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class ParsedTicket:
    """A parsed document; `ignored` lists the fields that this version does not know."""

    document: TicketDocument
    ignored: tuple[str, ...] = ()


def parse_ticket(raw: bytes) -> ParsedTicket:
    """Parse and validate a document.

    Raises:
        BadTicket: The document is too large, no JSON, of an unknown version, or has invalid fields.
    """
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


def _verify_format(format_name: object) -> None:
    if format_name == DOCUMENT_FORMAT:
        return
    match = _VERSION_PATTERN.fullmatch(format_name) if isinstance(format_name, str) else None
    if match:
        raise BadTicket(
            [
                f"format: version {int(match[1])} is not known here, only {DOCUMENT_FORMAT}; upgrade RackMedic or write it again with that version"
            ]
        )
    raise BadTicket([f"format: {format_name!r:.60} is none of {DOCUMENT_FORMAT}"])


def _measure_depth(value: object) -> int:
    """Return the nesting depth, at most `MAX_DEPTH` + 1. It does not recurse, so a hostile document cannot exhaust the stack."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        next_level: list[object] = []
        for item in level:
            if isinstance(item, dict):
                next_level.extend(item.values())
            elif isinstance(item, list):
                next_level.extend(item)
        level = next_level
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


def _iter_unknown_fields(mapping: Any, model: type[BaseModel], path: str) -> Iterator[str]:
    for name, value in mapping.items():
        field = model.model_fields.get(name)
        if field is None:
            yield show_invisible(redact(f"{path}{name}"))[:120]
            continue
        item_model = _find_model(field.annotation)
        if item_model is None or not isinstance(value, list):
            continue
        for item in value:
            if isinstance(item, dict):
                yield from _iter_unknown_fields(item, item_model, f"{path}{name}.")


def _find_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if model := _find_model(argument):
            return model
    return None


def build_report_text(document: TicketDocument) -> str:
    """Return the people's messages as the text of a report."""
    messages_text = "\n".join(message.text for message in document.said)
    return messages_text[-MAX_REPORT_CHARS:] or "Their RackMedic sent this ticket without a word of a person."


def build_item_data(document: TicketDocument) -> dict[str, Any]:
    """Return an inbox item's data: folded hosts, and facts with catalogued keys and matching value types."""
    facts = [_build_fact(exported_fact).to_json() for exported_fact in document.facts if _is_known_fact(exported_fact)]
    return {"hosts": _fold_hosts(document), "told": facts[:MAX_TICKET_FACTS]}


def parse_ticket_facts(item: InboxItem) -> list[Fact]:
    """Return the ticket's facts. Like those of all attached text they carry no host and decide nothing."""
    return [Fact.from_json(stored_fact) for stored_fact in item.data.get("told", ())]


def _fold_hosts(document: TicketDocument) -> str:
    """Fold the ticket's hosts; return an empty string for invalid names or more hosts than an incident may have."""
    try:
        names = expand_host_range(",".join(document.hosts))
    except BadRange:
        return ""
    return fold_host_names(names) if len(names) <= MAX_TICKET_HOSTS else ""


def _is_known_fact(exported_fact: ExportedFact) -> bool:
    key = find_key(exported_fact.key)
    if key is None or key.name.startswith("site.") or exported_fact.check not in CHECKS or exported_fact.status != "ok":
        return False
    if isinstance(exported_fact.value, bool) and key.kind != "bool":
        return False  # a bool is an int in Python
    return isinstance(exported_fact.value, _TYPES_BY_KIND[key.kind])


def _build_fact(exported_fact: ExportedFact) -> Fact:
    value = list(exported_fact.value) if isinstance(exported_fact.value, tuple) else exported_fact.value
    line = f"{exported_fact.host}: {exported_fact.line}" if exported_fact.host and exported_fact.line else exported_fact.line
    attrs = {**exported_fact.attrs, "told": True}
    return Fact(
        exported_fact.check,
        exported_fact.key,
        value,
        exported_fact.device or None,
        unit=exported_fact.unit,
        line=line,
        attrs=attrs,
        time=exported_fact.time,
    )
