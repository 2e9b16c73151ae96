"""`rackmedic kb …`: search, show, count and check knowledge. Reads files only."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

from rich.text import Text

from bot.app.site_files import (
    BadSite,
    load_all_checks,
    load_site_filters,
    load_site_guides,
    load_site_incidents,
    load_site_pages,
    load_site_rules,
    load_site_skus,
    load_site_taxonomy,
)
from bot.cli.command_runtime import print_text
from bot.cli.safe_console import build_text_table, open_console, open_table_console
from bot.refusal import Refusal
from bot.settings import Settings
from kb.history.bm25 import BM25Corpus
from kb.redact import redact
from kb.taxonomy.taxonomy import Leaf, Taxonomy

KnowledgeKind = Literal["leaf", "incident", "page"]
KINDS: Final[tuple[KnowledgeKind, ...]] = ("leaf", "incident", "page")
TITLE_WEIGHT: Final = 2  # how often a title counts as part of the text
MIN_LIKENESS: Final = 0.05  # below it, texts share only common words
FOLDER_PARTS: Final = ("taxonomy", "checks", "rules", "filters", "incidents", "pages", "guides", "sku")


@dataclass(frozen=True, slots=True)
class KnowledgeRow:
    """One leaf, past incident or page."""

    id: str
    kind: KnowledgeKind
    label: str
    title: str
    text: str
    source: str
    ours: bool = False  # the site wrote it; it is not built in
    year: int = 0  # year of an incident; 0 if unknown


def load_knowledge(settings: Settings) -> tuple[KnowledgeRow, ...]:
    """Return all entries, built in and of the site. Raises BadSite if a file of the site is wrong."""
    taxonomy, built_in = load_site_taxonomy(settings.kb_dir), frozenset(load_site_taxonomy(None).leaves)
    seeds = {incident.id for incident in load_site_incidents(None)}
    leaves = [
        KnowledgeRow(leaf.label, "leaf", leaf.label, leaf.title, _describe_leaf(leaf), " ".join(leaf.sources), leaf.label not in built_in)
        for leaf in taxonomy.leaves.values()
    ]
    incidents = [
        KnowledgeRow(
            incident.id,
            "incident",
            incident.label,
            incident.title,
            _join_texts(incident.description, incident.root_cause, incident.resolution),
            incident.source_url,
            incident.id not in seeds,
            incident.year or int(incident.on[:4] or 0),
        )
        for incident in load_site_incidents(settings.kb_dir, taxonomy)
    ]
    pages = [
        KnowledgeRow(page.id, "page", " ".join(page.labels), page.title, page.text, page.source, True)
        for page in load_site_pages(settings.kb_dir, taxonomy)
    ]
    return (*leaves, *incidents, *pages)


def _describe_leaf(leaf: Leaf) -> str:
    return f"{leaf.description} No check decides it; only the report's words do." if leaf.only_words else leaf.description


def search_knowledge(settings: Settings, text: str, max_rows: int, *, as_json: bool) -> int:
    """Print similar entries, best first; return 1 if none."""
    matches = rank_by_likeness(load_knowledge(settings), redact(text), max_rows)
    if as_json:
        items = [
            {key: getattr(entry, key) for key in ("id", "kind", "label", "title")} | {"score": score, "source": entry.source}
            for entry, score in matches
        ]
        print_text(json.dumps({"schema": 1, "items": items}))
    elif matches:
        rows = [(entry.id, f"{score:.0%}", f"{entry.title}\n{entry.label}") for entry, score in matches]
        open_table_console().print(build_text_table(("id", "like", "what, and its label"), rows))
    else:
        open_console().print(Text("Nothing is known that is like it."))
    return 0 if matches else 1


def rank_by_likeness(knowledge_rows: Iterable[KnowledgeRow], text: str, max_rows: int) -> list[tuple[KnowledgeRow, float]]:
    """Return incidents and pages with their similarity (0 to 1), the most similar first."""
    entries = {f"{entry.kind} {entry.id}": entry for entry in knowledge_rows if entry.kind != "leaf"}
    texts = {name: " ".join((*[entry.title] * TITLE_WEIGHT, entry.text)) for name, entry in entries.items()}
    corpus = BM25Corpus.build(texts)
    scores = [(name, round(corpus.compute_similarity(text, texts[name]), 4)) for name in corpus.score_documents(text)]
    scores.sort(key=lambda name_score: (-name_score[1], name_score[0]))
    return [(entries[name], score) for name, score in scores[:max_rows] if score >= MIN_LIKENESS]


def print_entry(settings: Settings, name: str, *, as_json: bool) -> int:
    """Print the entry of an id in full."""
    entries = [entry for entry in load_knowledge(settings) if entry.id == name]
    if not entries:
        similar_ids = get_close_matches(name, [entry.id for entry in load_knowledge(settings)], n=3)
        hint = f"; near it: {', '.join(similar_ids)}" if similar_ids else ""
        raise Refusal(f"nothing is known as {name}{hint}", 2)
    if as_json:
        print_text(json.dumps({"schema": 1, "items": [asdict(entry) for entry in entries]}))
        return 0
    console = open_console(whole=True)
    for entry in entries:
        label = f" · {entry.label}" if entry.label not in ("", entry.id) else ""
        console.print(Text.assemble((entry.title, "bold"), f"\n{entry.kind} {entry.id}", label))
        console.print(Text(entry.text))
        if entry.source:
            console.print(Text(entry.source, style="dim"))
    return 0


def print_entries(settings: Settings, kind: str, label: str, *, ours: bool, as_json: bool) -> int:
    """Print the ids and titles of entries of a kind and below a label."""
    if kind and kind not in KINDS:
        raise Refusal(f"--kind {kind} is none of {', '.join(KINDS)}", 2)
    entries = list(load_knowledge(settings))
    if kind:
        entries = [entry for entry in entries if entry.kind == kind]
    if label:
        entries = [entry for entry in entries if f"{entry.label}.".startswith(f"{label}.")]
    if ours:
        entries = [entry for entry in entries if entry.ours]
    if as_json:
        items = [{key: value for key, value in asdict(entry).items() if key != "text"} for entry in entries]
        print_text(json.dumps({"schema": 1, "items": items}))
        return 0
    console = open_table_console()
    for entry in entries:  # one line each: `kb show ID` has the whole title
        line = Text.assemble((f"{entry.kind:<9}", "dim"), f"{entry.id}  ", (entry.title, "bold"))
        console.print(line, no_wrap=True, overflow="ellipsis")
    return 0


def print_knowledge_stats(settings: Settings, *, as_json: bool) -> int:
    knowledge, taxonomy = load_knowledge(settings), load_site_taxonomy(settings.kb_dir)
    count_by_kind = Counter(entry.kind for entry in knowledge)
    count_by_label = Counter(entry.label for entry in knowledge if entry.kind == "incident")
    leaf_count_by_category = Counter(label.partition(".")[0] for label in taxonomy.leaves)
    labels_without_incident = sorted(label for label in taxonomy.leaves if label not in count_by_label)
    document: dict[str, Any] = {
        **{f"{kind}s" if kind != "leaf" else "leaves": count_by_kind[kind] for kind in KINDS},
        "own": sum(entry.ours for entry in knowledge),
        "leaves_by_category": dict(leaf_count_by_category),
        "incidents_by_year": _count_by_year(knowledge),
        "leaves_without_an_incident": labels_without_incident,
    }
    if as_json:
        print_text(json.dumps({"schema": 1, **document}))
        return 0
    console = open_table_console()
    console.print(
        f"{count_by_kind['leaf']} leaves, {count_by_kind['incident']} past incidents, {count_by_kind['page']} pages; {document['own']} of them this site's own"
    )
    for category, count in leaf_count_by_category.most_common():
        incidents = sum(times for label, times in count_by_label.items() if label.startswith(f"{category}."))
        console.print(f"  {category:<16} {count:>3} leaves  {incidents:>3} incidents")
    years = ", ".join(f"{times} of {year or 'unknown'}" for year, times in document["incidents_by_year"].items())
    console.print(Text(f"Past incidents by year: {years or 'none'}"))
    console.print(Text(f"Causes without a past incident ({len(labels_without_incident)}): {', '.join(labels_without_incident) or 'none'}"))
    return 0


def _count_by_year(knowledge_rows: Iterable[KnowledgeRow]) -> dict[int, int]:
    return dict(sorted(Counter(entry.year for entry in knowledge_rows if entry.kind == "incident").items()))


def lint_folder(settings: Settings, folder: Path | None, *, as_json: bool) -> int:
    """Print every problem of a site's knowledge folder. Return 1 if there is any."""
    path = folder or settings.kb_dir
    if path is None:
        raise Refusal("name a folder, or set RACKMEDIC_KB_DIR: there is nothing to check", 2)
    if not path.is_dir():
        raise Refusal(f"{path} is no folder", 2)
    problems, parts = find_problems(settings.model_copy(update={"kb_dir": path})), [part for part in FOLDER_PARTS if (path / part).is_dir()]
    if as_json:
        print_text(json.dumps({"schema": 1, "folder": str(path), "parts": parts, "problems": problems}))
    else:
        open_console(whole=True).print(Text("\n".join(problems) if problems else f"{path}: {', '.join(parts) or 'nothing'} can be used"))
    return 1 if problems else 0


def find_problems(settings: Settings) -> list[str]:
    """Return the problems of all parts, even if one of them is unreadable."""
    problems: list[str] = []
    taxonomy: Taxonomy | None = None
    try:
        taxonomy = load_site_taxonomy(settings.kb_dir)
    except BadSite as error:
        problems += error.problems
    for read in (
        lambda: load_all_checks(settings),
        lambda: load_site_rules(settings.kb_dir),
        lambda: load_site_filters(settings.kb_dir),
        lambda: load_site_incidents(settings.kb_dir, taxonomy),
        lambda: load_site_pages(settings.kb_dir, taxonomy),
        lambda: load_site_guides(settings),
        lambda: load_site_skus(settings.kb_dir),
    ):
        try:
            read()
        except BadSite as error:
            problems += error.problems
    return list(dict.fromkeys(problems))


def _join_texts(*parts: str) -> str:
    texts: Sequence[str] = [part.strip() for part in parts if part.strip()]
    return "\n".join(texts)
