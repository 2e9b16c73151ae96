"""A site's Markdown pages about its machines, found by label, group, SKU and words.

Front matter: `title`, `labels`, `groups`, `skus`, `source`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kb.needle_search import split_lines
from kb.redact import redact_once
from kb.yaml_files import FilePosition, Problems

MAX_PAGE_BYTES: Final = 64 * 1024  # longer pages are handbooks, which an on-call engineer does not read at 3 a.m.
FRONT_MATTER_FENCE: Final = "---"
LIST_FIELDS: Final = ("labels", "groups", "skus")
FRONT_MATTER_FIELDS: Final = ("title", "source", *LIST_FIELDS)


class BadPages(Exception):
    """Pages that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class SitePage:
    """One page. `id` is the file name without extension."""

    id: str
    title: str
    text: str
    labels: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    skus: tuple[str, ...] = ()
    source: str = ""


def load_pages(folder: Path, labels: Collection[str] | None = None) -> tuple[SitePage, ...]:
    """Load a folder's `*.md`, redacted. `labels`, if given, are the valid ones. Raises BadPages."""
    problems = Problems()
    pages = [_read_page(path, labels, problems) for path in sorted(folder.glob("*.md"))]
    if problems.found:
        raise BadPages(problems.found)
    return tuple(page for page in pages if page)


def _read_page(path: Path, labels: Collection[str] | None, problems: Problems) -> SitePage | None:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_PAGE_BYTES + 1)
    except OSError as error:
        problems.add(FilePosition(path), f"cannot be read: {error.strerror}")
        return None
    if len(raw) > MAX_PAGE_BYTES:
        problems.add(FilePosition(path), f"longer than {MAX_PAGE_BYTES >> 10} KiB; split it")
        return None
    lines = list(split_lines(redact_once(raw.decode("utf-8-sig", "replace"))))
    head, text = _split_front_matter(lines)
    front_matter = _parse_front_matter(path, head, problems)
    names_by_field = {
        name: tuple(filter(None, (part.strip() for part in front_matter.get(name, "").strip("[]").split(",")))) for name in LIST_FIELDS
    }
    for label in names_by_field["labels"] if labels is not None else ():
        if label not in (labels or ()):
            problems.add(FilePosition(path, _find_line_number(head, "labels")), f"unknown label {label}")
    title = front_matter.get("title") or next((line.lstrip("# ").strip() for line in text if line.startswith("#")), path.stem)
    if not any(line.strip() and not line.startswith("#") for line in text):
        problems.add(FilePosition(path, len(lines) or 1), "says nothing below its title")
    return SitePage(path.stem, title, "\n".join(text).strip(), **names_by_field, source=front_matter.get("source", ""))


def _split_front_matter(lines: list[str]) -> tuple[list[str], list[str]]:
    if not lines or lines[0].strip() != FRONT_MATTER_FENCE:
        return [], lines
    end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == FRONT_MATTER_FENCE), 0)
    return (lines[1:end], lines[end + 1 :]) if end else ([], lines)


def _parse_front_matter(path: Path, head: list[str], problems: Problems) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    for number, line in enumerate(head, 2):
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or name.strip() not in FRONT_MATTER_FIELDS:
            problems.add(FilePosition(path, number), f"{name.strip()[:40]!r} is none of {', '.join(FRONT_MATTER_FIELDS)}")
        fields[name.strip()] = value.strip()
    return fields


def _find_line_number(head: list[str], name: str) -> int:
    return next((number for number, line in enumerate(head, 2) if line.startswith(name)), 1)
