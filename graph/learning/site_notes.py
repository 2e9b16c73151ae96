"""Lines of the site's own pages that fit an incident by cause, host group, server model and words. Pure.

They are shown beside the findings and order checks, but prove nothing.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from graph.report import Report, SiteNote
from kb.history.site_pages import SitePage
from kb.history.text_search import BM25Corpus
from kb.needle_search import split_lines
from kb.schema import squash_blanks
from tools.inventory.inventory import Host

MIN_LIKENESS: Final = 0.15  # Similarity, 0 to 1, required of a page without causes and hosts.
HINT_WEIGHT: Final = 0.5  # Weight of a page relative to an equally similar past incident.
MAX_NOTES = 2  # Pages per report
MAX_NOTE_LINES = 2  # lines per page
MAX_LINE_CHARS = 200  # characters per line


@dataclass(frozen=True, slots=True)
class IncidentSubject:
    """What an incident is about. `labels`: its causes, or the likeliest where none was found."""

    text: str
    labels: Collection[str]
    groups: frozenset[str]
    skus: frozenset[str]

    @classmethod
    def from_hosts(cls, text: str, labels: Collection[str], hosts: Iterable[Host]) -> "IncidentSubject":
        rows = list(hosts)
        return cls(text, labels, frozenset(row.group for row in rows), frozenset(row.sku for row in rows if row.sku))


def find_site_notes(pages: Sequence[SitePage], about: IncidentSubject) -> tuple[SiteNote, ...]:
    """Return the best pages with their best lines; pages of these hosts and causes come before others."""
    words = BM25Corpus.build({page.id: f"{page.title} {page.text}" for page in pages})
    ranked = sorted(((_score_page(page, about, words), page.id, page) for page in pages), key=lambda one: (-one[0], one[1]))
    return tuple(_build_note(page, about, words) for fits, _, page in ranked[:MAX_NOTES] if fits > 0)


def add_site_notes(report: Report, pages: Sequence[SitePage], text: str, likely: Sequence[str], hosts: Mapping[str, Host]) -> Report:
    """Return the report with notes on its causes and hosts; on the incident's `hosts` where it found none."""
    labels = [cause.label for cause in report.root_causes]
    accused = {host for cause in report.root_causes for host in cause.hosts} or hosts.keys()
    subject = IncidentSubject.from_hosts(text, labels or likely, [hosts[name] for name in accused if name in hosts])
    notes = find_site_notes(pages, subject) if pages and report.outcome != "no_fault" else ()
    return report.model_copy(update={"notes": notes}) if notes else report


def find_page_hints(pages: Sequence[SitePage], text: str) -> list[tuple[str, float]]:
    """Return causes of pages similar to a report, with their weights."""
    words = BM25Corpus.build({page.id: f"{page.title} {page.text}" for page in pages if page.labels})
    similarities = ((page, words.compute_similarity(text, f"{page.title} {page.text}")) for page in pages if page.labels)
    return [(label, HINT_WEIGHT * score) for page, score in similarities if score >= MIN_LIKENESS for label in page.labels]


def _score_page(page: SitePage, about: IncidentSubject, words: BM25Corpus) -> float:
    if (page.groups and not about.groups & {*page.groups}) or (page.skus and not about.skus & {*page.skus}):
        return 0.0
    similarity = words.compute_similarity(about.text, f"{page.title} {page.text}")
    if page.labels:
        return 2 + similarity if any(_covers_label(label, about.labels) for label in page.labels) else 0.0
    return 1 + similarity if page.groups or page.skus else similarity * (similarity >= MIN_LIKENESS)


def _covers_label(label: str, labels: Collection[str]) -> bool:
    return any(f"{one}.".startswith(f"{label}.") for one in labels)


def _build_note(page: SitePage, about: IncidentSubject, words: BM25Corpus) -> SiteNote:
    lines = [
        squash_blanks(line.lstrip("-*# \t"))[:MAX_LINE_CHARS]
        for line in split_lines(page.text)
        if line.strip() and not line.startswith("#")
    ]
    best = sorted(range(len(lines)), key=lambda at: (-words.compute_similarity(about.text, lines[at]), at))[:MAX_NOTE_LINES]
    return SiteNote(
        page=page.id[:80], title=squash_blanks(page.title)[:120], says=tuple(lines[at] for at in sorted(best)), source=page.source[:120]
    )
