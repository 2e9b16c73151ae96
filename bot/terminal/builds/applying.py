"""`rackmedic kb apply`: what people accepted of a build goes into the site's folder, unless past incidents or the benchmark are answered worse with it."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bot.refusal import Refusal
from bot.run.site import site_checks, site_incidents, site_taxonomy
from bot.settings import PREFIX, Settings
from bot.terminal.builds.folder import BuiltItem, ReviewDecision, as_yaml, decided, items_of
from bot.terminal.knowledge import problems_of
from graph.learning.replay import Replay, compared, named

Scored = Callable[[Path | None], Mapping[str, bool]]
"""The benchmark's cases with a site's folder, by whether each is answered right."""
MOST_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class _Taken:
    """What is taken over: past incidents, and pages by their file's name."""

    entries: Sequence[Mapping[str, Any]]
    pages: Sequence[Path]
    undecided: int


def apply(settings: Settings, folder: Path, to: Path | None, scored: Scored | None, *, as_json: bool, dry: bool = False) -> int:
    """Take over what was accepted, all or nothing. `scored`: None leaves the benchmark out. Raises Refusal with what would be answered worse."""
    target = to or settings.kb_dir
    if target is None:
        raise Refusal(f"name the site's folder: --to DIR or {PREFIX}KB_DIR", 2)
    taken = _taken(folder, site_taxonomy(settings.kb_dir).leaves)
    with tempfile.TemporaryDirectory(prefix="rackmedic-apply-") as kept:
        with_it, name = Path(kept) / "kb", _plain(folder.resolve().name)
        if target.is_dir():
            shutil.copytree(target, with_it)
        had = settings.model_copy(update={"kb_dir": target if target.is_dir() else None})
        _refuse_taken(had, taken, target / "incidents" / f"{name}.yaml")
        for path in (files := _put_all(with_it, name, taken)):
            assert path.is_relative_to(with_it)
        has = settings.model_copy(update={"kb_dir": with_it})
        if problems := problems_of(has):
            raise Refusal("\n".join(["nothing was taken over; with it the folder cannot be used:", *problems]), 2)
        replayed = _replayed(had, has, {str(one["id"]) for one in taken.entries})
        bench = _benched(had.kb_dir, with_it, scored)
        if not dry:
            for path in files:
                _copy(path, target / path.relative_to(with_it))
    _tell(target, taken, replayed, bench, as_json=as_json, dry=dry)
    return 0


def _taken(folder: Path, labels: Mapping[str, Any]) -> _Taken:
    items = items_of(folder, labels)
    known = decided(folder, items)
    accepted = [(one, known[(one.kind, one.id)]) for one in items if _accepted(one, known)]
    if not accepted:
        raise Refusal(f"nothing of {folder} is accepted; `rackmedic kb review {folder}` goes through it", 2)
    entries = [said.entry for one, said in accepted if one.kind != "page"]
    pages = [folder / "pages" / f"{one.id}.md" for one, _ in accepted if one.kind == "page"]
    return _Taken(entries, pages, len(items) - len(known))


def _accepted(item: BuiltItem, known: Mapping[Any, ReviewDecision]) -> bool:
    said = known.get((item.kind, item.id))
    return said is not None and said.does == "accept"


def _refuse_taken(had: Settings, taken: _Taken, ours: Path) -> None:
    """An id that something else has already is refused; what an earlier take-over of this very folder wrote is written anew."""
    before = {row.id for row in site_incidents(had.kb_dir)}
    text = ours.read_text(encoding="utf-8") if ours.is_file() else ""
    twice = [name for one in taken.entries if (name := str(one["id"])) in before and f"- id: {name}\n" not in text]
    if twice:
        raise Refusal(
            f"known already by another file: {', '.join(sorted(twice)[:MOST_NAMED])}; refuse them with `rackmedic kb review --again`", 2
        )


def _put_all(root: Path, name: str, taken: _Taken) -> list[Path]:
    files = []
    if taken.entries:
        files.append(root / "incidents" / f"{name}.yaml")
        files[0].parent.mkdir(parents=True, exist_ok=True)
        files[0].write_text(as_yaml(taken.entries), encoding="utf-8")
    for page in taken.pages:
        files.append(root / "pages" / page.name)
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, files[-1])
    return files


def _replayed(had: Settings, has: Settings, new: set[str]) -> Replay:
    """Every incident that was known before, named without and with what is new. Raises Refusal where fewer are named right."""
    before, after = (site_incidents(one.kb_dir, site_taxonomy(one.kb_dir)) for one in (had, has))
    asked = [one for one in before if one.id not in new]
    was, now = (named(asked, known, site_taxonomy(one.kb_dir), site_checks(one)) for known, one in ((before, had), (after, has)))
    replayed = compared(asked, was, now, [one for one in after if one.id in new])
    if replayed.worse:
        lost = [f"  {one.id} ({one.label}) is taken for {one.taken_for}{f', by {one.by}' if one.by else ''}" for one in replayed.lost]
        told = f"{replayed.before} of {replayed.of} past incidents are named right without it and {replayed.after} with it:"
        raise Refusal("\n".join(["nothing was taken over.", told, *lost, _WHAT_NOW]))
    return replayed


_WHAT_NOW: Final = "Give what stands behind “by” another label or refuse it, with `rackmedic kb review --again`, and apply again."


def _benched(before: Path | None, after: Path, scored: Scored | None) -> dict[str, Any] | None:
    if scored is None:
        return None
    was, now = scored(before), scored(after)
    lost = sorted(case for case, right in was.items() if right and not now.get(case))
    if sum(now.values()) < sum(was.values()):
        named_cases = ", ".join(lost[:MOST_NAMED])
        raise Refusal(f"nothing was taken over. The benchmark: {sum(was.values())} of {len(was)} right without it, {sum(now.values())} with it; "
                      f"lost: {named_cases}. {_WHAT_NOW}")  # fmt: skip
    return {"cases": len(was), "before": sum(was.values()), "after": sum(now.values()), "lost": lost}


def _tell(target: Path, taken: _Taken, replayed: Replay, bench: dict[str, Any] | None, *, as_json: bool, dry: bool) -> None:
    if as_json:
        numbers = {"incidents": len(taken.entries), "pages": len(taken.pages), "undecided": taken.undecided}
        print(
            json.dumps({"schema": 1, "folder": str(target), "written": not dry, **numbers, "replay": asdict(replayed), "benchmark": bench})
        )
        return
    print(f"Past incidents named right: {replayed.before} of {replayed.of} without it, {replayed.after} with it.")
    if bench:
        print(f"The benchmark: {bench['before']} of {bench['cases']} right without it, {bench['after']} with it.")
    else:
        print("The benchmark was not run: it needs a checkout, and --no-bench leaves it out.")
    left = f" {taken.undecided} were not decided and stay out." if taken.undecided else ""
    does = "would go" if dry else "went"
    when = "" if dry else " `rackmedic serve` knows them once it is started anew."
    print(f"{len(taken.entries)} incidents and {len(taken.pages)} pages {does} into {target}.{left}{when}")


def _copy(path: Path, to: Path) -> None:
    """Whole or not at all."""
    to.parent.mkdir(parents=True, exist_ok=True)
    beside = to.with_name(f".{to.name}.new")
    shutil.copyfile(path, beside)
    beside.replace(to)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "built"
