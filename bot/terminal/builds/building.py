"""`rackmedic kb build`: exports in, a folder of knowledge to look through out. Nothing that it writes is used before somebody takes it over.

Every row is kept in a journal as soon as it is labelled, so that a build that was killed goes on where it was.
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

from bot.refusal import Refusal
from bot.run.site import site_checks, site_incidents, site_taxonomy
from bot.settings import Settings
from bot.terminal.builds.drafts import check_file
from bot.terminal.builds.folder import BESIDE, plain_name, put
from bot.terminal.builds.row_workers import BuildProgress, RowWorker, bill, open_worker
from bot.terminal.edge import tell
from graph.learning.discussed import Discussed
from graph.learning.drafting import checks_of, leaves_of, pages_of
from graph.learning.growing import Grown, grown
from graph.learning.labelling import LabelledRow, Labeller
from graph.learning.review import MONTHS, first_met, review
from kb.exports.read import rows_of
from kb.exports.row import FIELDS, ExportRow, UnreadRow
from kb.exports.trees import NoExport, tree_of
from kb.history.likeness import Nearest
from kb.history.pages import LARGEST
from kb.redact import visible
from kb.taxonomy.labels import Taxonomy
from tools.checks.row import Check

A_FILE: Final = 500
"""Incidents of a file."""


@dataclass(slots=True)
class _Built:
    """What was read so far."""

    rows: list[LabelledRow] = field(default_factory=list)
    guides: list[ExportRow] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    """Of guides: the label that each is about, empty where that is not plain."""
    unread: list[str] = field(default_factory=list)
    pages: int = 0
    grown: Grown = field(default_factory=lambda: Grown(()))
    paid: dict[str, Any] = field(default_factory=dict)
    """What a model was asked and cost in this run; empty without one."""


@dataclass(frozen=True, slots=True)
class AskedModel:
    """With which model, for how many dollars at most, and where its answers are kept or come from; `live`: also asked, not only replayed."""

    most_usd: float
    recording: Path | None = None
    live: bool = True


def asked_of(most_usd: float, record: Path | None, replay: Path | None, *, model: bool) -> AskedModel | None:
    """None where rules alone label. Raises Refusal for options that do not go together."""
    if replay and (model or record):
        raise Refusal("--replay asks no model; leave --model and --record out", 2)
    if record and not model:
        raise Refusal("--record keeps what a model answers; it goes with --model", 2)
    if replay and not replay.is_file():
        raise Refusal(f"--replay {replay}: there is no such file", 2)
    return AskedModel(most_usd, record or replay, live=model) if model or replay else None


def build(
    settings: Settings,
    exports: Sequence[Path],
    out: Path,
    given: Sequence[str],
    *,
    as_json: bool,
    asked: AskedModel | None = None,
) -> int:
    """Label everything, write the folder, say what came of it. Raises Refusal."""
    mapped = _mapped(given)
    try:
        with _alone(out) as kept:
            built, seed = _labelled(settings, exports, mapped, kept, asked)
            _write(out, built, settings, seed)
            (kept / "done").write_text(seed)
    except NoExport as why:
        raise Refusal(str(why), 2) from why
    except OSError as why:
        raise Refusal(f"{out}: {why.strerror or why}; what was labelled is kept, the same command goes on from there") from why
    counted = Counter(row.verdict for row in built.rows)
    if as_json:
        numbers = {name: counted[name] for name in ("labelled", "doubtful", "dropped")}
        paid = {"model": built.paid} if built.paid else {}
        numbers |= {"causes": len(built.grown.new), "merged": len(built.grown.merged)}
        tell(json.dumps({"schema": 1, "folder": str(out), **numbers, "pages": built.pages, "unread": built.unread, **paid}))
    else:
        tell(
            f"{out}: {counted['labelled']} incidents labelled, {counted['doubtful']} doubtful, {counted['dropped']} dropped, "
            f"{len(built.grown.new)} new causes, {built.pages} pages, {len(built.unread)} rows that could not be read. "
            f"Begin with {out / 'REVIEW.md'}; nothing is in use yet."
        )
        for line in bill(built.paid):
            tell(line)
    return 0


def _mapped(given: Sequence[str]) -> dict[str, str]:
    pairs = [one.rpartition("=") for one in given]
    for column, _, name in pairs:
        if not column or name not in FIELDS:
            raise Refusal(f"--map {column or name}: COLUMN=FIELD, where FIELD is one of {', '.join(FIELDS)}", 2)
    return {column: name for column, _, name in pairs}


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[Path]:
    """The folder in which a build keeps how far it is, held against a second one."""
    kept = out / ".build"
    if out.is_dir() and not kept.is_dir() and any(out.iterdir()):
        raise Refusal(f"--out {out} holds files that are of no build; name a folder of its own", 2)
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as why:
            raise Refusal(f"another build writes into {out} just now", 2) from why
        if (kept / "done").exists():
            raise Refusal(f"{out} holds a finished build, which people may have changed since; name another folder", 2)
        yield kept


def _labelled(
    settings: Settings, exports: Sequence[Path], mapped: Mapping[str, str], kept: Path, asked: AskedModel | None
) -> tuple[_Built, str]:
    taxonomy, checks = site_taxonomy(settings.kb_dir), site_checks(settings)
    past = site_incidents(settings.kb_dir, taxonomy)
    rules = Labeller(taxonomy, Nearest.of(taxonomy, past), checks)
    worker = open_worker(rules, settings, asked)
    beside = [sorted(mapped.items()), sorted(taxonomy.leaves), sorted(one.id for one in past), sorted(checks), worker.name]
    seed, built = _sign(exports, beside), _Built()
    with contextlib.closing(worker), (kept / "rows.jsonl").open("a+b") as journal:
        done = _resumed(journal, seed)
        worker.foresee(row for path in exports for row in _rows_of(path, mapped))
        _walk((row for path in exports for row in _rows_of(path, mapped)), worker, built, done, journal)
        built.paid = worker.paid
    built.about = {guide.id: rules.about(guide) for guide in built.guides}
    built.grown = grown(built.rows, taxonomy)
    built.rows = list(built.grown.rows)
    return built, seed


def _rows_of(path: Path, mapped: Mapping[str, str]) -> Iterator[ExportRow | UnreadRow]:
    """The rows of an export. Raises Refusal for a file of which no row can be read: a wrong file is a mistake of the command."""
    unread, good = "", False
    for row in rows_of(path, mapped):
        good = good or not isinstance(row, UnreadRow)
        unread = unread or (visible(str(row)) if isinstance(row, UnreadRow) else "")
        yield row
    if unread and not good and path.is_file():
        raise Refusal(f"{unread}. No row of {path.name} can be read: give an export as JSON, JSON lines, CSV, YAML or Markdown", 2)


def _walk(
    given: Iterator[ExportRow | UnreadRow], worker: RowWorker, built: _Built, done: Iterator[LabelledRow], journal: IO[bytes]
) -> None:
    seen: set[str] = set()
    waiting: list[ExportRow] = []
    progress = BuildProgress(worker.total)
    for row in given:
        if isinstance(row, UnreadRow):
            built.unread.append(visible(str(row)))
        elif row.guide:
            _keep_guide(row, built)
        elif (before := next(done, None)) is not None:
            built.rows.append(_once(row, before, seen))
        else:
            waiting.append(row)
        if len(waiting) >= worker.window:
            built.rows += _next(waiting, worker, journal, seen)
            waiting.clear()
            progress.say(len(built.rows))
    built.rows += _next(waiting, worker, journal, seen)


def _next(rows: Sequence[ExportRow], worker: RowWorker, journal: IO[bytes], seen: set[str]) -> list[LabelledRow]:
    """Labelled now, and kept in the journal."""
    labelled = worker.label(rows) if rows else []
    for one in labelled:
        journal.write(json.dumps(asdict(one)).encode() + b"\n")
    journal.flush()  # a build that is killed has given it to the system by then
    return [_once(row, one, seen) for row, one in zip(rows, labelled, strict=True)]


def _once(row: ExportRow, labelled: LabelledRow, seen: set[str]) -> LabelledRow:
    """What was told before in the same words counts once."""
    said = hashlib.sha256(row.text.encode()).hexdigest()
    before = said in seen
    seen.add(said)
    return LabelledRow(labelled.id, "dropped", "told before, in the same words", labelled.title) if before else labelled


def _keep_guide(row: ExportRow, built: _Built) -> None:
    text = row.messages[0].text
    if len(text.encode()) > LARGEST - 1024:
        built.unread.append(visible(f"{row.id}: a page has at most {LARGEST >> 10} KiB; split it"))
    elif not any(line.strip() and not line.startswith("#") for line in text.split("\n")):
        built.unread.append(visible(f"{row.id}: says nothing below its title"))
    else:
        built.guides.append(row)


def _sign(exports: Sequence[Path], beside: list[Any]) -> str:
    """Of all that decides what comes out."""
    digest = hashlib.sha256(json.dumps(beside).encode())
    for path in exports:
        tree_of(path)
        for one in [path] if path.is_file() else sorted(part for part in path.rglob("*") if part.is_file() and not part.is_symlink()):
            digest.update(f"{one.name}\0".encode("utf-8", "replace"))
            with one.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _resumed(journal: IO[bytes], seed: str) -> Iterator[LabelledRow]:
    """The rows of a build that was broken off; a line that was cut is taken away. Raises Refusal for one of other input."""
    journal.seek(0)
    lines = journal.readlines()
    whole = [line for line in lines if line.endswith(b"\n")]
    journal.truncate(sum(map(len, whole)))
    if not whole:
        journal.write(json.dumps({"of": seed}).encode() + b"\n")
        return iter(())
    if json.loads(whole[0]) != {"of": seed}:
        raise Refusal("the folder holds a build of other exports, or by other knowledge, that was broken off; name another folder", 2)
    return iter([_again(json.loads(line)) for line in whole[1:]])


def _again(row: dict[str, Any]) -> LabelledRow:
    used = Discussed(**{name: tuple(found) for name, found in row["used"].items()})
    return LabelledRow(**{**row, "others": tuple(row["others"]), "used": used})


def _write(out: Path, built: _Built, settings: Settings, seed: str) -> None:
    names: set[str] = set()
    taken = [row for row in built.rows if row.verdict == "labelled"]
    taken.sort(key=lambda row: row.time or "9999")  # what has no time stays in the order of the file, behind
    entries = [_entry(row, _name(row.id, names)) for row in taken]
    asked = [row for row in built.rows if row.verdict == "doubtful"]
    doubtful = [_entry(row, _name(row.id, names)) for row in asked]
    beside = [_beside(row, entry) for row, entry in zip((*taken, *asked), (*entries, *doubtful), strict=True)]
    put(out / BESIDE, "".join(json.dumps(one) + "\n" for one in beside))
    for at in range(0, len(entries), A_FILE):
        text = yaml.safe_dump({"incidents": entries[at : at + A_FILE]}, allow_unicode=True, sort_keys=False, width=120)
        put(out / "incidents" / f"built-{at // A_FILE:03}.yaml", text)
    for guide in built.guides:
        said, name = guide.messages[0].text, _name(guide.id, names)
        labels = f"labels: {label}\n" if (label := built.about[guide.id]) else ""
        put(out / "pages" / f"{name}.md", f"---\ntitle: {' '.join(guide.title.split())}\n{labels}---\n{said}\n")
    taxonomy, checks = site_taxonomy(settings.kb_dir), site_checks(settings)
    titles = taxonomy.titles | {one.label: one.title for one in built.grown.new}
    _write_drafts(out, built, taxonomy, checks)
    from_threads = pages_of(built.rows, titles)
    built.pages = len(built.guides) + len(from_threads)
    for name, text in from_threads.items():
        put(out / "pages" / f"{_name(name, names)}.md", text)
    if met := first_met(built.rows):
        from bot.pictures.months import picture

        put(out / MONTHS, picture(met))
    put(out / "REVIEW.md", review(built.grown, built.unread, titles, seed))


def _write_drafts(out: Path, built: _Built, taxonomy: Taxonomy, checks: Mapping[str, Check]) -> None:
    for category, file in leaves_of(built.grown.new, built.rows, taxonomy, checks).items():
        put(out / "taxonomy" / f"built-{category.lower()}.yaml", yaml.safe_dump(file, allow_unicode=True, sort_keys=False, width=120))
    if drafted := checks_of(built.rows, checks):
        put(out / "checks" / "built.yaml", check_file(drafted))


def _beside(row: LabelledRow, entry: Mapping[str, str]) -> dict[str, Any]:
    """What whoever reviews it is told beside the entry; of a doubtful one the entry too, which stands in no file."""
    told = {"id": entry["id"], "why": row.why, "sure": _sure(row), "near": [row.label, *row.others], "said_by": row.said_by}
    return told | ({"entry": entry} if row.verdict == "doubtful" else {})


def _sure(row: LabelledRow) -> str:
    if row.by:
        return f"chosen by {row.by}"
    return f"{row.confidence:.0%}" if row.confidence else ""


def _entry(row: LabelledRow, name: str) -> dict[str, str]:
    whole = {
        "id": name,
        "title": row.title,
        "description": row.description or row.title,
        "label": row.label,
        "deciding_check": row.check,
        "root_cause": row.root_cause,
        "resolution": row.resolution,
        "source_url": row.url,
    }
    return {key: value for key, value in whole.items() if value or key == "resolution"}


def _name(given: str, taken: set[str]) -> str:
    """What may be the name of a file and of an incident, and stands once."""
    plain = plain_name(given, "row")
    name, number = plain, len(taken)
    while name in taken:
        name, number = f"{plain}-{number}", number + 1
    taken.add(name)
    return name
