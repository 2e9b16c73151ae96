"""`rackmedic kb apply`: copy accepted items to the site's folder, unless answers get worse."""

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from bot.app.site_files import load_all_checks, load_site_incidents, load_site_taxonomy
from bot.cli.command_runtime import print_text
from bot.cli.kb.built_folder import (
    BuiltItem,
    ReviewDecision,
    load_built_items,
    load_decisions,
    render_cause_files,
    render_check_file,
    render_incidents_file,
    slugify_name,
    write_file_atomically,
)
from bot.cli.kb.knowledge import find_problems
from bot.cli.kb.review_command import INCIDENT_KINDS
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from graph.learning.replay import ReplayResult, compare_replays, label_incidents

# site folder -> per benchmark case, whether it is answered right
BenchmarkScorer = Callable[[Path | None], Mapping[str, bool]]
# (settings before, settings after, ids of new incidents) -> replay; raises Refusal if fewer are named right
IncidentReplayer = Callable[[Settings, Settings, Collection[str]], ReplayResult]
MAX_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class _AcceptedItems:
    causes: Sequence[Mapping[str, Any]]
    checks: Sequence[Mapping[str, Any]]
    entries: Sequence[Mapping[str, Any]]
    pages: Sequence[Path]
    undecided: int


def apply_build(
    settings: Settings,
    folder: Path,
    to: Path | None,
    scored: BenchmarkScorer | None,
    *,
    as_json: bool,
    dry: bool = False,
    replay: IncidentReplayer | None = None,
) -> int:
    """Apply all accepted items or none. Raises Refusal if answers get worse.

    `scored` None skips the benchmark; `replay` defaults to `replay_incidents`.
    """
    target = to or settings.kb_dir
    if target is None:
        raise Refusal(f"name the site's folder: --to DIR or {ENV_PREFIX}KB_DIR", 2)
    had = settings.model_copy(update={"kb_dir": target if target.is_dir() else None})
    accepted = _collect_accepted(folder, load_site_taxonomy(had.kb_dir).leaves)
    try:
        with tempfile.TemporaryDirectory(prefix="rackmedic-apply-") as temporary_folder:
            with_it, name = Path(temporary_folder) / "kb", slugify_name(folder.resolve().name, "built")
            if target.is_dir():
                shutil.copytree(target, with_it)
            _refuse_conflicts(had, accepted, target, f"{name}.yaml")
            files = _write_files(with_it, name, accepted)
            has = settings.model_copy(update={"kb_dir": with_it})
            if problems := find_problems(has):
                raise Refusal("\n".join(["nothing was taken over; with it the folder cannot be used:", *problems]), 2)
            replayed = (replay or replay_incidents)(had, has, {str(one["id"]) for one in accepted.entries})
            bench = compare_benchmark(had.kb_dir, with_it, scored)
            if not dry:
                for path in files:
                    write_file_atomically(target / path.relative_to(with_it), path.read_bytes())
    except OSError as error:
        raise Refusal(f"{error.filename}: {error.strerror or error}; the existing files stay; run the same command to continue") from error
    _print_result(target, accepted, replayed, bench, as_json=as_json, dry=dry)
    return 0


def _collect_accepted(folder: Path, labels: Mapping[str, Any]) -> _AcceptedItems:
    items = load_built_items(folder, labels)
    decisions = load_decisions(folder, items)
    accepted = [(one, decisions[(one.kind, one.id)]) for one in items if _is_accepted(one, decisions)]
    if not accepted:
        raise Refusal(f"nothing of {folder} is accepted; `rackmedic kb review {folder}` goes through it", 2)
    causes, checks = ([entry.entry for one, entry in accepted if one.kind == kind] for kind in ("cause", "check"))
    entries = [entry.entry for one, entry in accepted if one.kind in INCIDENT_KINDS]
    _refuse_unaccepted_labels(entries, {*labels, *(str(one["label"]) for one in causes)})
    pages = [folder / "pages" / f"{one.id}.md" for one, _ in accepted if one.kind == "page"]
    return _AcceptedItems(causes, checks, entries, pages, len(items) - len(decisions))


def _refuse_unaccepted_labels(entries: Sequence[Mapping[str, Any]], labels: Collection[str]) -> None:
    if lost := [f"{one['id']} ({one['label']})" for one in entries if one["label"] not in labels]:
        more = f" and {len(lost) - MAX_NAMED} more" if len(lost) > MAX_NAMED else ""
        raise Refusal(f"their label is new here and was not accepted: {', '.join(lost[:MAX_NAMED])}{more}; accept the cause, or give them "
                      "another label, with `rackmedic kb review --again`", 2)  # fmt: skip


def _is_accepted(item: BuiltItem, known: Mapping[Any, ReviewDecision]) -> bool:
    decision = known.get((item.kind, item.id))
    return decision is not None and decision.does == "accept"


def _refuse_conflicts(had: Settings, taken: _AcceptedItems, target: Path, ours: str) -> None:
    """Refuse ids and pages of other files; an earlier apply of this build is overwritten."""
    before = {row.id for row in load_site_incidents(had.kb_dir)}
    file = target / "incidents" / ours
    own_ids = {row["id"] for row in yaml.safe_load(file.read_text(encoding="utf-8"))["incidents"]} if file.is_file() else set()
    twice = [name for one in taken.entries if (name := str(one["id"])) in before - own_ids]
    pages = [(page, target / "pages" / page.name) for page in taken.pages]
    if other := [
        str(page_folder) for page, page_folder in pages if page_folder.is_file() and page_folder.read_bytes() != page.read_bytes()
    ]:
        raise Refusal(
            f"there already, with other words: {', '.join(other[:MAX_NAMED])}; rename the page in the build, or put it there yourself", 2
        )
    if twice:
        raise Refusal(
            f"known already by another file: {', '.join(sorted(twice)[:MAX_NAMED])}; refuse them with `rackmedic kb review --again`", 2
        )


def _write_files(root: Path, name: str, taken: _AcceptedItems) -> list[Path]:
    texts = {f"taxonomy/{name}-{category}.yaml": text for category, text in render_cause_files(taken.causes).items()}
    texts |= {f"checks/{name}.yaml": render_check_file(taken.checks)} if taken.checks else {}
    texts |= {f"incidents/{name}.yaml": render_incidents_file(taken.entries)} if taken.entries else {}
    files = []
    for path, text in texts.items():
        files.append(root / path)
        write_file_atomically(files[-1], text)
    for page in taken.pages:
        files.append(root / "pages" / page.name)
        write_file_atomically(files[-1], page.read_bytes())
    return files


def replay_incidents(had: Settings, has: Settings, new: Collection[str], advice: str = "") -> ReplayResult:
    """Label earlier incidents without and with the new items. Raises Refusal if fewer are right."""
    before, after = (load_site_incidents(one.kb_dir, load_site_taxonomy(one.kb_dir)) for one in (had, has))
    earlier_incidents = [one for one in before if one.id not in new]
    was = label_incidents(earlier_incidents, before, load_site_taxonomy(had.kb_dir), load_all_checks(had))
    right = {one.id for one in earlier_incidents if was[one.id] == one.label}
    now = label_incidents(earlier_incidents, after, load_site_taxonomy(has.kb_dir), load_all_checks(has), right)
    replayed = compare_replays(earlier_incidents, was, now, [one for one in after if one.id in new])
    if replayed.is_worse:
        lost = [f"  {one.id} ({one.label}) is taken for {one.taken_for}{f', by {one.by}' if one.by else ''}" for one in replayed.lost]
        sentence = f"{replayed.before} of {replayed.of} past incidents are named right without it and {replayed.after} with it:"
        raise Refusal("\n".join(["nothing was taken over.", sentence, *lost, advice or _DEFAULT_ADVICE]))
    return replayed


_DEFAULT_ADVICE: Final = (
    "Change the label of each entry named after “by”, or refuse it, with `rackmedic kb review --again`, and apply again."
)


def compare_benchmark(before: Path | None, after: Path, scored: BenchmarkScorer | None, advice: str = "") -> dict[str, Any] | None:
    """Score the benchmark without and with the new items. Raises Refusal if fewer are right."""
    if scored is None:
        return None
    was, now = scored(before), scored(after)
    lost = sorted(case for case, right in was.items() if right and not now.get(case))
    if sum(now.values()) < sum(was.values()):
        named_cases = ", ".join(lost[:MAX_NAMED])
        raise Refusal(f"nothing was taken over. The benchmark: {sum(was.values())} of {len(was)} right without it, {sum(now.values())} with it; "
                      f"lost: {named_cases}. {advice or _DEFAULT_ADVICE}")  # fmt: skip
    return {"cases": len(was), "before": sum(was.values()), "after": sum(now.values()), "lost": lost}


def _print_result(
    target: Path, taken: _AcceptedItems, replayed: ReplayResult, bench: dict[str, Any] | None, *, as_json: bool, dry: bool
) -> None:
    if as_json:
        had = {name: len(getattr(taken, name)) for name in ("causes", "checks", "pages")}
        numbers = {**had, "incidents": len(taken.entries), "undecided": taken.undecided}
        played = {"replay": asdict(replayed), "benchmark": bench}
        print_text(json.dumps({"schema": 1, "folder": str(target), "written": not dry, **numbers, **played}))
        return
    print_text(f"Past incidents named right: {replayed.before} of {replayed.of} without it, {replayed.after} with it.")
    if bench:
        print_text(f"The benchmark: {bench['before']} of {bench['cases']} right without it, {bench['after']} with it.")
    else:
        print_text("The benchmark was not run: it needs a checkout, and --no-bench leaves it out.")
    undecided_note = f" {taken.undecided} were not decided and stay out." if taken.undecided else ""
    verb = "would go" if dry else "went"
    when = "" if dry else " `rackmedic serve` loads them after a restart."
    new = "".join(f"{len(some)} {kind}, " for kind, some in (("causes", taken.causes), ("checks", taken.checks)) if some)
    print_text(f"{new}{len(taken.entries)} incidents and {len(taken.pages)} pages {verb} into {target}.{undecided_note}{when}")
