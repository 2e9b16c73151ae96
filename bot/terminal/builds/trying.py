"""`rackmedic kb try FILE`: past incidents and the benchmark, answered with and without files that somebody wrote for the site's folder."""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import yaml

from bot.refusal import Refusal
from bot.run.site import site_incidents
from bot.settings import PREFIX, Settings
from bot.terminal.builds.applying import Scored, benched_with, replayed_with
from bot.terminal.builds.folder import put
from bot.terminal.edge import tell
from bot.terminal.knowledge import problems_of
from graph.learning.replay import Replay
from kb.yaml import plain

PARTS: Final[Mapping[str, str]] = {
    "rules": "rules",
    "filters": "filters",
    "category": "taxonomy",
    "checks": "checks",
    "incidents": "incidents",
}
"""By what stands in a file, which part of the site's folder it belongs to."""
_WHAT_NOW: Final = "Change the files, or leave out what draws these away, and try again."
LARGEST: Final = 4 << 20
"""Bytes of a file."""


def try_out(settings: Settings, files: Sequence[Path], scored: Scored | None, *, keep: bool, as_json: bool) -> int:
    """Whether they may go in; with `keep` they do. Raises Refusal with what would be answered worse."""
    target = settings.kb_dir
    if keep and target is None:
        raise Refusal(f"--keep needs the site's folder: {PREFIX}KB_DIR", 2)
    try:
        texts = {Path(part_of(path)) / path.with_suffix(".yaml").name: path.read_bytes() for path in files}
        if len(texts) < len(files):
            raise Refusal("two of these files have the same name", 2)
        replayed, bench = _played(settings, texts, scored)
        if keep and target:
            for path, text in texts.items():
                put(target / path, text)
    except OSError as why:
        raise Refusal(f"{why.filename}: {why.strerror or why}") from why
    if as_json:
        tell(json.dumps({"schema": 1, "files": sorted(map(str, texts)), "kept": keep, "replay": asdict(replayed), "benchmark": bench}))
        return 0
    tell(f"Past incidents named right: {replayed.before} of {replayed.of} without, {replayed.after} with.")
    tell(
        f"The benchmark: {bench['before']} of {bench['cases']} right without, {bench['after']} with."
        if bench
        else "The benchmark was not run."
    )
    where = (
        f"They are in {target} now; `rackmedic serve` knows them once it is started anew."
        if keep
        else "--keep puts them into the site's folder."
    )
    tell(where)
    return 0


def _played(settings: Settings, texts: Mapping[Path, bytes], scored: Scored | None) -> tuple[Replay, dict[str, Any] | None]:
    """Past incidents and the benchmark, without and with these files in a copy of the site's folder. Raises Refusal."""
    target = settings.kb_dir
    with tempfile.TemporaryDirectory(prefix="rackmedic-try-") as kept:
        with_it = Path(kept) / "kb"
        shutil.copytree(target, with_it) if target and target.is_dir() else with_it.mkdir()
        for path, text in texts.items():
            put(with_it / path, text)
        has = settings.model_copy(update={"kb_dir": with_it})
        if problems := problems_of(has):
            raise Refusal("\n".join(["with these files the site's folder cannot be used:", *problems]).replace(f"{with_it}/", ""), 2)
        known, knows = ({row.id for row in site_incidents(one.kb_dir)} for one in (settings, has))
        return replayed_with(settings, has, knows - known, _WHAT_NOW), benched_with(target, with_it, scored, _WHAT_NOW)


def part_of(path: Path) -> str:
    """The part of a site's folder that a file belongs to. Raises Refusal."""
    try:
        raw = path.read_bytes()
        read = plain(raw.decode()) if len(raw) <= LARGEST else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as why:
        raise Refusal(f"{path}: cannot be read as YAML: {' '.join(str(why).split())[:200]}", 2) from why
    found = next((part for key, part in PARTS.items() if isinstance(read, dict) and key in read), None)
    if found is None:
        raise Refusal(f"{path}: begins with none of {', '.join(f'`{key}:`' for key in PARTS)}", 2)
    return found
