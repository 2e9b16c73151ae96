"""`rackmedic kb build`: turn exports into a folder for review, unused until applied.

Rows are journalled at once, so a killed build resumes.
"""

import contextlib
import fcntl
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import yaml

from bot.app.site_files import load_all_checks, load_site_incidents, load_site_taxonomy
from bot.cli.command_runtime import print_text
from bot.cli.kb.built_folder import REVIEW_ROWS_FILE, render_check_file, slugify_name, write_file_atomically
from bot.cli.kb.row_labellers import BuildProgress, RowLabeller, format_model_bill, open_row_labeller
from bot.refusal import Refusal
from bot.settings import Settings
from graph.learning.cause_discovery import CauseDiscovery, discover_causes
from graph.learning.knowledge_drafts import draft_checks, draft_leaves, draft_pages
from graph.learning.knowledge_review import MONTHS_CHART_FILE, count_new_labels_by_month, render_review
from graph.learning.rule_labelling import LabelledRow, RuleLabeller
from graph.learning.thread_contents import ThreadContents
from kb.exports.files import UnreadableExport, open_file_tree
from kb.exports.reader import iter_export_rows
from kb.exports.row import FIELD_ALIASES, ExportRow, UnreadRow
from kb.history.label_ranking import LabelRanker
from kb.history.site_pages import MAX_PAGE_BYTES
from kb.redact import show_invisible
from kb.taxonomy.taxonomy import Taxonomy
from tools.checks.check_types import Check

INCIDENTS_PER_FILE: Final = 500


@dataclass(slots=True)
class _BuildState:
    rows: list[LabelledRow] = field(default_factory=list)
    guides: list[ExportRow] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)  # guide id -> label, empty if unclear
    unread: list[str] = field(default_factory=list)
    pages: int = 0
    grown: CauseDiscovery = field(default_factory=lambda: CauseDiscovery(()))
    paid: dict[str, Any] = field(default_factory=dict)  # model requests and cost of this run; empty without a model


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Budget in USD and recording; `live` also asks the model."""

    most_usd: float
    recording: Path | None = None
    live: bool = True


def parse_model_options(most_usd: float, record: Path | None, replay: Path | None, *, model: bool) -> ModelOptions | None:
    """Return the options, or None for rules only."""
    if replay and (model or record):
        raise Refusal("--replay asks no model; leave --model and --record out", 2)
    if record and not model:
        raise Refusal("--record keeps what a model answers; it goes with --model", 2)
    if replay and not replay.is_file():
        raise Refusal(f"--replay {replay}: there is no such file", 2)
    return ModelOptions(most_usd, record or replay, live=model) if model or replay else None


def build_folder(
    settings: Settings,
    exports: Sequence[Path],
    out: Path,
    given: Sequence[str],
    *,
    as_json: bool,
    model_options: ModelOptions | None = None,
) -> int:
    """Label all exports and write the folder."""
    mapped = _parse_column_map(given)
    try:
        with _lock_build_folder(out) as journal_folder:
            built, seed = _label_exports(settings, exports, mapped, journal_folder, model_options)
            _write_folder(out, built, settings, seed)
            (journal_folder / "done").write_text(seed)
    except UnreadableExport as error:
        raise Refusal(str(error), 2) from error
    except OSError as error:
        raise Refusal(f"{out}: {error.strerror or error}; what was labelled is kept; run the same command to continue") from error
    verdict_counts = Counter(row.verdict for row in built.rows)
    if as_json:
        numbers = {name: verdict_counts[name] for name in ("labelled", "doubtful", "dropped")}
        paid = {"model": built.paid} if built.paid else {}
        numbers |= {"causes": len(built.grown.new_causes), "merged": len(built.grown.merged_names)}
        print_text(json.dumps({"schema": 1, "folder": str(out), **numbers, "pages": built.pages, "unread": built.unread, **paid}))
    else:
        print_text(
            f"{out}: {verdict_counts['labelled']} incidents labelled, {verdict_counts['doubtful']} doubtful, {verdict_counts['dropped']} dropped, "
            f"{len(built.grown.new_causes)} new causes, {built.pages} pages, {len(built.unread)} rows that could not be read. "
            f"Begin with {out / 'REVIEW.md'}; nothing is in use yet."
        )
        for line in format_model_bill(built.paid):
            print_text(line)
    return 0


def _parse_column_map(given: Sequence[str]) -> dict[str, str]:
    pairs = [one.rpartition("=") for one in given]
    for column, _, name in pairs:
        if not column or name not in FIELD_ALIASES:
            raise Refusal(f"--map {column or name}: COLUMN=FIELD, where FIELD is one of {', '.join(FIELD_ALIASES)}", 2)
    return {column: name for column, _, name in pairs}


@contextlib.contextmanager
def _lock_build_folder(out: Path) -> Iterator[Path]:
    """Return the state folder, locked against a second build."""
    journal_folder = out / ".build"
    if out.is_dir() and not journal_folder.is_dir() and any(out.iterdir()):
        raise Refusal(f"--out {out} holds files that are of no build; name a folder of its own", 2)
    journal_folder.mkdir(parents=True, exist_ok=True)
    with (journal_folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refusal(f"another build writes into {out} just now", 2) from error
        if (journal_folder / "done").exists():
            raise Refusal(f"{out} holds a finished build, which may have been edited since; name another folder", 2)
        yield journal_folder


def _label_exports(
    settings: Settings, exports: Sequence[Path], mapped: Mapping[str, str], kept: Path, model_options: ModelOptions | None
) -> tuple[_BuildState, str]:
    taxonomy, checks = load_site_taxonomy(settings.kb_dir), load_all_checks(settings)
    past = load_site_incidents(settings.kb_dir, taxonomy)
    rules = RuleLabeller(taxonomy, LabelRanker.build(taxonomy, past), checks)
    worker = open_row_labeller(rules, settings, model_options)
    inputs = [sorted(mapped.items()), sorted(taxonomy.leaves), sorted(one.id for one in past), sorted(checks), worker.name]
    seed, built = _hash_inputs(exports, inputs), _BuildState()
    with contextlib.closing(worker), (kept / "rows.jsonl").open("a+b") as journal:
        journal_rows = _read_journal(journal, seed)
        worker.estimate_work(row for path in exports for row in _read_export_rows(path, mapped))
        _process_rows((row for path in exports for row in _read_export_rows(path, mapped)), worker, built, journal_rows, journal)
        built.paid = worker.paid
    built.about = {guide.id: rules.find_guide_label(guide) for guide in built.guides}
    built.grown = discover_causes(built.rows, taxonomy)
    built.rows = list(built.grown.threads)
    return built, seed


def _read_export_rows(path: Path, mapped: Mapping[str, str]) -> Iterator[ExportRow | UnreadRow]:
    """Yield rows. Raises Refusal if none of a file is readable."""
    unread, good = "", False
    for row in iter_export_rows(path, mapped):
        good = good or not isinstance(row, UnreadRow)
        unread = unread or (show_invisible(str(row)) if isinstance(row, UnreadRow) else "")
        yield row
    if unread and not good and path.is_file():
        raise Refusal(f"{unread}. No row of {path.name} can be read: give an export as JSON, JSON lines, CSV, YAML or Markdown", 2)


def _process_rows(
    given: Iterator[ExportRow | UnreadRow], worker: RowLabeller, built: _BuildState, done: Iterator[LabelledRow], journal: IO[bytes]
) -> None:
    seen_digests: set[str] = set()
    waiting: list[ExportRow] = []
    progress = BuildProgress(worker.total)
    for row in given:
        if isinstance(row, UnreadRow):
            built.unread.append(show_invisible(str(row)))
        elif row.guide:
            _keep_guide(row, built)
        elif (before := next(done, None)) is not None:
            built.rows.append(_drop_duplicate(row, before, seen_digests))
        else:
            waiting.append(row)
        if len(waiting) >= worker.window:
            built.rows += _label_batch(waiting, worker, journal, seen_digests)
            waiting.clear()
            progress.report_rows(len(built.rows))
    built.rows += _label_batch(waiting, worker, journal, seen_digests)


def _label_batch(export_rows: Sequence[ExportRow], worker: RowLabeller, journal: IO[bytes], seen: set[str]) -> list[LabelledRow]:
    labelled = worker.label_rows(export_rows) if export_rows else []
    for row in labelled:
        journal.write(json.dumps(asdict(row)).encode() + b"\n")
    journal.flush()  # survives a kill of the process
    return [_drop_duplicate(row, one, seen) for row, one in zip(export_rows, labelled, strict=True)]


def _drop_duplicate(export_row: ExportRow, labelled: LabelledRow, seen: set[str]) -> LabelledRow:
    digest = hashlib.sha256(export_row.text.encode()).hexdigest()
    before = digest in seen
    seen.add(digest)
    return LabelledRow(labelled.id, "dropped", "told before, in the same words", labelled.title) if before else labelled


def _keep_guide(export_row: ExportRow, built: _BuildState) -> None:
    text = export_row.messages[0].text
    if len(text.encode()) > MAX_PAGE_BYTES - 1024:
        built.unread.append(show_invisible(f"{export_row.id}: a page has at most {MAX_PAGE_BYTES >> 10} KiB; split it"))
    elif not any(line.strip() and not line.startswith("#") for line in text.split("\n")):
        built.unread.append(show_invisible(f"{export_row.id}: says nothing below its title"))
    else:
        built.guides.append(export_row)


def _hash_inputs(exports: Sequence[Path], beside: list[Any]) -> str:
    """Return a digest of all that determines the result."""
    digest = hashlib.sha256(json.dumps(beside).encode())
    for path in exports:
        open_file_tree(path)
        for part_path in [path] if path.is_file() else sorted(part for part in path.rglob("*") if part.is_file() and not part.is_symlink()):
            digest.update(f"{part_path.name}\0".encode("utf-8", "replace"))
            with part_path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _read_journal(journal: IO[bytes], seed: str) -> Iterator[LabelledRow]:
    """Return an interrupted build's rows without a truncated line. Raises Refusal if inputs differ."""
    journal.seek(0)
    lines = journal.readlines()
    complete_lines = [line for line in lines if line.endswith(b"\n")]
    journal.truncate(sum(map(len, complete_lines)))
    if not complete_lines:
        journal.write(json.dumps({"of": seed}).encode() + b"\n")
        return iter(())
    if json.loads(complete_lines[0]) != {"of": seed}:
        raise Refusal("the folder holds an interrupted build of other exports or with other knowledge; name another folder", 2)
    return iter([_parse_journal_row(json.loads(line)) for line in complete_lines[1:]])


def _parse_journal_row(row: dict[str, Any]) -> LabelledRow:
    used = ThreadContents(**{name: tuple(value) for name, value in row["used"].items()})
    return LabelledRow(**{**row, "others": tuple(row["others"]), "used": used})


def _write_folder(out: Path, built: _BuildState, settings: Settings, seed: str) -> None:
    names: set[str] = set()
    labelled_rows = [row for row in built.rows if row.verdict == "labelled"]
    labelled_rows.sort(key=lambda row: row.time or "9999")  # rows without time come last, in file order
    entries = [_build_entry(row, _choose_unique_name(row.id, names)) for row in labelled_rows]
    doubtful_rows = [row for row in built.rows if row.verdict == "doubtful"]
    doubtful = [_build_entry(row, _choose_unique_name(row.id, names)) for row in doubtful_rows]
    review_rows = [
        _build_review_row(row, entry) for row, entry in zip((*labelled_rows, *doubtful_rows), (*entries, *doubtful), strict=True)
    ]
    write_file_atomically(out / REVIEW_ROWS_FILE, "".join(json.dumps(one) + "\n" for one in review_rows))
    for at in range(0, len(entries), INCIDENTS_PER_FILE):
        text = yaml.safe_dump({"incidents": entries[at : at + INCIDENTS_PER_FILE]}, allow_unicode=True, sort_keys=False, width=120)
        write_file_atomically(out / "incidents" / f"built-{at // INCIDENTS_PER_FILE:03}.yaml", text)
    for guide in built.guides:
        guide_text, name = guide.messages[0].text, _choose_unique_name(guide.id, names)
        label = built.about[guide.id]
        labels = f"labels: {label}\n" if label else ""
        write_file_atomically(out / "pages" / f"{name}.md", f"---\ntitle: {' '.join(guide.title.split())}\n{labels}---\n{guide_text}\n")
    taxonomy, checks = load_site_taxonomy(settings.kb_dir), load_all_checks(settings)
    titles = taxonomy.titles | {one.label: one.title for one in built.grown.new_causes}
    _write_drafts(out, built, taxonomy, checks)
    from_threads = draft_pages(built.rows, titles)
    built.pages = len(built.guides) + len(from_threads)
    for name, text in from_threads.items():
        write_file_atomically(out / "pages" / f"{_choose_unique_name(name, names)}.md", text)
    if met := count_new_labels_by_month(built.rows):
        from bot.reports.charts.new_labels import render_new_labels_chart

        write_file_atomically(out / MONTHS_CHART_FILE, render_new_labels_chart(met))
    write_file_atomically(out / "REVIEW.md", render_review(built.grown, built.unread, titles, seed))


def _write_drafts(out: Path, built: _BuildState, taxonomy: Taxonomy, checks: Mapping[str, Check]) -> None:
    for category, file in draft_leaves(built.grown.new_causes, built.rows, taxonomy, checks).items():
        write_file_atomically(
            out / "taxonomy" / f"built-{category.lower()}.yaml", yaml.safe_dump(file, allow_unicode=True, sort_keys=False, width=120)
        )
    if drafted := draft_checks(built.rows, checks):
        write_file_atomically(out / "checks" / "built.yaml", render_check_file(drafted))


def _build_review_row(labelled_row: LabelledRow, entry: Mapping[str, str]) -> dict[str, Any]:
    """Return what the reviewer sees; a doubtful entry too, as no other file has it."""
    review_row = {
        "id": entry["id"],
        "why": labelled_row.why,
        "sure": _format_confidence(labelled_row),
        "near": [labelled_row.label, *labelled_row.others],
        "said_by": labelled_row.said_by,
    }
    return review_row | ({"entry": entry} if labelled_row.verdict == "doubtful" else {})


def _format_confidence(labelled_row: LabelledRow) -> str:
    if labelled_row.by:
        return f"chosen by {labelled_row.by}"
    return f"{labelled_row.confidence:.0%}" if labelled_row.confidence else ""


def _build_entry(labelled_row: LabelledRow, name: str) -> dict[str, str]:
    entry = {
        "id": name,
        "title": labelled_row.title,
        "description": labelled_row.description or labelled_row.title,
        "label": labelled_row.label,
        "deciding_check": labelled_row.check,
        "root_cause": labelled_row.root_cause,
        "resolution": labelled_row.resolution,
        "source_url": labelled_row.url,
    }
    return {key: value for key, value in entry.items() if value or key == "resolution"}


def _choose_unique_name(given: str, taken: set[str]) -> str:
    plain = slugify_name(given, "row")
    name, number = plain, len(taken)
    while name in taken:
        name, number = f"{plain}-{number}", number + 1
    taken.add(name)
    return name
