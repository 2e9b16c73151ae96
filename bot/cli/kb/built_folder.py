"""A folder of `kb build`: items and decisions, which survive a kill."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from bot.app.site_files import find_site_folder
from bot.refusal import Refusal
from kb.history.incidents import BadSeeds, load_seeds
from kb.history.site_pages import BadPages, SitePage, load_pages
from kb.redact import redact
from kb.taxonomy.loader import BadTaxonomy, load_taxonomy
from tools.checks import CHECKS
from tools.checks.output_values import parse_json_lines
from tools.checks.site.loader import BadChecks, load_site_checks

# Drafted causes and checks: loaded for review, rendered as site files.

BRANCH_TITLE: Final = "branch_title"  # key of a cause entry: the title of its branch, if that is new too
DraftEntry = Mapping[str, Any]


def load_drafted_causes(folder: Path) -> list[dict[str, Any]]:
    """Return entries with full `label`. Raises Refusal."""
    causes = []
    for path in sorted((folder / "taxonomy").glob("*.y*ml")):
        file = _read_draft_file(path)
        branches = file.get("branches") or {}
        for name, leaf in (file.get("leaves") or {}).items():
            title = branches.get(str(name).partition(".")[0])
            causes.append({"label": f"{file.get('category')}.{name}", **({BRANCH_TITLE: title} if title else {}), **leaf})
    return causes


def load_drafted_checks(folder: Path) -> list[dict[str, Any]]:
    return [dict(row) for path in sorted((folder / "checks").glob("*.y*ml")) for row in _read_draft_file(path).get("checks") or ()]


def render_cause_files(causes: Iterable[DraftEntry]) -> dict[str, str]:
    """Return lower-case category -> taxonomy file."""
    files: dict[str, dict[str, Any]] = {}
    for cause in causes:
        category, branch, name = [*str(cause["label"]).split(".", 2), "", ""][:3]
        file = files.setdefault(category, {"category": category, "branches": {}, "leaves": {}})
        if title := cause.get(BRANCH_TITLE):
            file["branches"][branch] = title
        file["leaves"][f"{branch}.{name}"] = {key: part for key, part in cause.items() if key not in ("label", BRANCH_TITLE)}
    return {name.lower(): _dump_yaml({key: part for key, part in file.items() if part}) for name, file in sorted(files.items())}


def render_check_file(checks: Sequence[DraftEntry]) -> str:
    return _dump_yaml({"checks": [dict(one) for one in checks]})


def find_cause_problems(cause: DraftEntry, kb_dir: Path | None) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="rackmedic-review-") as temporary_folder:
        for name, text in render_cause_files([cause]).items():
            (Path(temporary_folder) / f"{name}.yaml").write_text(text, encoding="utf-8")
        try:
            load_taxonomy(*find_site_folder(kb_dir, "taxonomy"), Path(temporary_folder))
        except BadTaxonomy as error:
            return [_strip_file_name(temporary_folder, problem) for problem in error.problems]
    return []


def find_check_problems(check: DraftEntry, programs: Sequence[str]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="rackmedic-review-") as temporary_folder:
        (Path(temporary_folder) / "checks.yaml").write_text(render_check_file([check]), encoding="utf-8")
        try:
            load_site_checks(Path(temporary_folder), known=CHECKS, programs=programs)
        except BadChecks as error:
            return [_strip_file_name(temporary_folder, problem) for problem in error.problems]
    return []


def _read_draft_file(path: Path) -> Mapping[str, Any]:
    try:
        file = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(f"{path} is no YAML: {' '.join(str(error).split())[:200]}", 2) from error
    file = file if isinstance(file, dict) else {"checks": "none"}
    leaves, branches, checks = file.get("leaves") or {}, file.get("branches") or {}, file.get("checks") or []
    is_valid = isinstance(leaves, dict) and isinstance(branches, dict) and isinstance(checks, list)
    if not is_valid or not all(isinstance(row, dict) for row in (*leaves.values(), *checks)):
        raise Refusal(f"{path} is no file of causes or checks", 2)
    return file


def _dump_yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(content), allow_unicode=True, sort_keys=False, width=120)


def _strip_file_name(folder: str, problem: str) -> str:
    return problem.removeprefix(folder).partition(": ")[2] or problem


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
