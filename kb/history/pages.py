"""A site's pages: short facts about its own machines, as Markdown, found by label, host group, SKU and words.

A page may begin with a few lines between `---`: `title`, `labels`, `groups`, `skus`, `source`. The rest is text, which is what people read.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kb.redact import cleaned
from kb.scan import lines_in
from kb.yaml import Problems, Spot

LARGEST: Final = 64 * 1024
"""Bytes of a page; what is longer is a handbook, and nobody reads that at 3 a.m."""
FENCE: Final = "---"
LISTS: Final = ("labels", "groups", "skus")
FIELDS: Final = ("title", "source", *LISTS)


class BadPages(Exception):
    """Pages that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class SitePage:
    """One page. `id` is its file's name without the ending."""

    id: str
    title: str
    text: str
    labels: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    skus: tuple[str, ...] = ()
    source: str = ""


def load_pages(folder: Path, labels: Collection[str] | None = None) -> tuple[SitePage, ...]:
    """Every `*.md` of a folder, without secrets. `labels`: the labels that exist, where they are to be checked. Raises BadPages."""
    problems = Problems()
    pages = [_page(path, labels, problems) for path in sorted(folder.glob("*.md"))]
    if problems.found:
        raise BadPages(problems.found)
    return tuple(page for page in pages if page)


def _page(path: Path, labels: Collection[str] | None, problems: Problems) -> SitePage | None:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as why:
        problems.note(Spot(path), f"cannot be read: {why.strerror}")
        return None
    if len(raw) > LARGEST:
        problems.note(Spot(path), f"longer than {LARGEST >> 10} KiB; split it")
        return None
    lines = list(lines_in(cleaned(raw.decode("utf-8-sig", "replace"))))
    head, text = _parted(lines)
    given = _given(path, head, problems)
    named = {name: tuple(filter(None, (part.strip() for part in given.get(name, "").strip("[]").split(",")))) for name in LISTS}
    for label in named["labels"] if labels is not None else ():
        if label not in (labels or ()):
            problems.note(Spot(path, _line(head, "labels")), f"unknown label {label}")
    title = given.get("title") or next((line.lstrip("# ").strip() for line in text if line.startswith("#")), path.stem)
    if not any(line.strip() and not line.startswith("#") for line in text):
        problems.note(Spot(path, len(lines) or 1), "says nothing below its title")
    return SitePage(path.stem, title, "\n".join(text).strip(), **named, source=given.get("source", ""))


def _parted(lines: list[str]) -> tuple[list[str], list[str]]:
    """What stands between the fences at the very beginning, and the rest."""
    if not lines or lines[0].strip() != FENCE:
        return [], lines
    end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == FENCE), 0)
    return (lines[1:end], lines[end + 1 :]) if end else ([], lines)


def _given(path: Path, head: list[str], problems: Problems) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(head, 2):
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or name.strip() not in FIELDS:
            problems.note(Spot(path, number), f"{name.strip()[:40]!r} is none of {', '.join(FIELDS)}")
        found[name.strip()] = value.strip()
    return found


def _line(head: list[str], name: str) -> int:
    return next((number for number, line in enumerate(head, 2) if line.startswith(name)), 1)
