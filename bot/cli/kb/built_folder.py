"""A folder of `kb build`: items and decisions, which survive a kill."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from bot.cli.kb.drafts import load_drafted_causes, load_drafted_checks
from bot.refusal import Refusal
from kb.history.incidents import BadSeeds, load_seeds
from kb.history.site_pages import BadPages, SitePage, load_pages
from kb.redact import redact
from tools.checks.lines import parse_json_lines

BuiltItemKind = Literal["cause", "check", "labelled", "doubtful", "page"]
ReviewVerdict = Literal["accept", "refuse"]
REVIEW_ROWS_FILE = ".build/beside.jsonl"
DECISIONS_FILE = "decisions.jsonl"
MAX_LINE_CHARS: Final = 1024 * 1024  # longer lines are skipped
_NON_NAME_PATTERN: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class BuiltItem:
    """One item to review. `near`: best-fitting labels."""

    id: str
    kind: BuiltItemKind
    entry: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    sure: str = ""
    near: tuple[str, ...] = ()
    said_by: str = ""

    @property
    def digest(self) -> str:
        """Digest of the entry; a changed entry is reviewed again."""
        return hashlib.sha256(json.dumps(self.entry, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """A decision; `entry` is the accepted, possibly edited entry."""

    id: str
    kind: BuiltItemKind
    does: ReviewVerdict
    digest: str
    entry: Mapping[str, Any] = field(default_factory=dict)


def load_built_items(folder: Path, labels: Collection[str]) -> list[BuiltItem]:
    """Return all items, causes first, as incidents use their labels. Raises Refusal."""
    if not (folder / "REVIEW.md").is_file():
        raise Refusal(f"{folder} holds no finished build; `rackmedic kb build EXPORT… --out {folder}` makes one", 2)
    causes, checks = load_drafted_causes(folder), load_drafted_checks(folder)
    labels = {*labels, *(one["label"] for one in causes)}
    try:
        seeds = load_seeds(folder / "incidents", labels) if (folder / "incidents").is_dir() else ()
        pages = load_pages(folder / "pages", labels) if (folder / "pages").is_dir() else ()
    except (BadSeeds, BadPages) as error:
        raise Refusal("\n".join([f"{folder} cannot be used:", *error.problems]), 2) from error
    review_rows = {str(row.get("id")): row for row in _read_rows(folder / REVIEW_ROWS_FILE)}
    entries = [row for path in sorted((folder / "incidents").glob("*.y*ml")) for row in yaml.safe_load(path.read_text())["incidents"]]
    items = [BuiltItem(str(one["label"]), "cause", one) for one in causes]
    items += [BuiltItem(str(one.get("id")), "check", one) for one in checks]
    items += [_build_item(row["id"], "labelled", row, review_rows.get(row["id"], {})) for row in entries]
    items += [_build_item(name, "doubtful", row["entry"], row) for name, row in review_rows.items() if isinstance(row.get("entry"), dict)]
    assert len(entries) == len(seeds)
    return items + [BuiltItem(page.id, "page", _build_page_entry(page)) for page in pages]


def load_decisions(folder: Path, items: Iterable[BuiltItem]) -> dict[tuple[BuiltItemKind, str], ReviewDecision]:
    """Return the last decision on each unchanged item."""
    now = {(one.kind, one.id): one.digest for one in items}
    decisions: dict[tuple[BuiltItemKind, str], ReviewDecision] = {}
    for row in _read_rows(folder / DECISIONS_FILE):
        decision = ReviewDecision(**{name: row.get(name, "") for name in ("id", "kind", "does", "digest")}, entry=row.get("entry") or {})
        if now.get((decision.kind, decision.id)) == decision.digest:
            decisions[(decision.kind, decision.id)] = decision
    return decisions


def append_decision(folder: Path, decision: ReviewDecision) -> None:
    """Append and sync a decision, secrets redacted."""
    row = {name: _redact_value(getattr(decision, name)) for name in decision.__slots__}
    path = folder / DECISIONS_FILE
    cut = path.is_file() and not path.read_bytes().endswith(b"\n")  # a kill cut the last line: start a new one
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * cut + json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())


def find_entry_problems(entries: Iterable[Mapping[str, Any]], labels: Collection[str]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="rackmedic-review-") as temporary_folder:
        path = Path(temporary_folder) / "incidents.yaml"
        path.write_text(render_incidents_file(entries), encoding="utf-8")
        try:
            load_seeds(Path(temporary_folder), labels)
        except BadSeeds as error:
            return [problem.replace(f"{path}:", "line ") for problem in error.problems]
    return []


def render_incidents_file(entries: Iterable[Mapping[str, Any]]) -> str:
    return yaml.safe_dump({"incidents": [dict(one) for one in entries]}, allow_unicode=True, sort_keys=False, width=120)


def write_file_atomically(path: Path, content: str | bytes) -> None:
    """Write the whole file or nothing. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new_file = path.with_name(f".{path.name}.new")
    new_file.write_bytes(content.encode() if isinstance(content, str) else content)
    new_file.replace(path)


def slugify_name(text: str, without: str) -> str:
    """Return a valid file and incident name, else `without`."""
    return _NON_NAME_PATTERN.sub("-", text.lower()).strip("-")[:60] or without


def _build_item(name: str, kind: BuiltItemKind, entry: Mapping[str, Any], about: Mapping[str, Any]) -> BuiltItem:
    near_labels = tuple(str(one) for one in about.get("near", ()))
    return BuiltItem(name, kind, entry, str(about.get("why", "")), str(about.get("sure", "")), near_labels, str(about.get("said_by", "")))


def _build_page_entry(page: SitePage) -> dict[str, Any]:
    return {"title": page.title, "text": page.text, "labels": list(page.labels), "source": page.source}


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {_redact_value(str(key)): _redact_value(part) for key, part in value.items()}
    return [_redact_value(part) for part in value] if isinstance(value, list | tuple) else value


def _read_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    return parse_json_lines(path.read_text(encoding="utf-8", errors="replace"), MAX_LINE_CHARS) if path.is_file() else iter(())
