"""`rackmedic kb try FILE`: answer past incidents and the benchmark with and without new files."""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import yaml

from bot.app.site_files import load_site_incidents
from bot.cli.command_runtime import print_text
from bot.cli.kb.apply_command import BenchmarkScorer, compare_benchmark, replay_incidents
from bot.cli.kb.built_folder import write_file_atomically
from bot.cli.kb.knowledge import find_problems
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from graph.learning.replay import ReplayResult
from kb.yaml_files import load_plain

# top-level key of a file -> folder part
PART_BY_KEY: Final[Mapping[str, str]] = {
    "rules": "rules",
    "filters": "filters",
    "category": "taxonomy",
    "checks": "checks",
    "incidents": "incidents",
}
_DEFAULT_ADVICE: Final = "Change the files, or leave out what draws these away, and try again."
MAX_FILE_BYTES: Final = 4 << 20


def try_site_files(settings: Settings, files: Sequence[Path], scored: BenchmarkScorer | None, *, keep: bool, as_json: bool) -> int:
    """Test the files; `keep` copies them. Raises Refusal if answers get worse."""
    target = settings.kb_dir
    if keep and target is None:
        raise Refusal(f"--keep needs the site's folder: {ENV_PREFIX}KB_DIR", 2)
    try:
        texts = {Path(find_folder_part(path)) / path.with_suffix(".yaml").name: path.read_bytes() for path in files}
        if len(texts) < len(files):
            raise Refusal("two of these files have the same name", 2)
        replayed, bench = _replay_with_files(settings, texts, scored)
        if keep and target:
            for path, text in texts.items():
                write_file_atomically(target / path, text)
    except OSError as error:
        raise Refusal(f"{error.filename}: {error.strerror or error}") from error
    if as_json:
        print_text(
            json.dumps({"schema": 1, "files": sorted(map(str, texts)), "kept": keep, "replay": asdict(replayed), "benchmark": bench})
        )
        return 0
    print_text(f"Past incidents named right: {replayed.before} of {replayed.of} without, {replayed.after} with.")
    print_text(
        f"The benchmark: {bench['before']} of {bench['cases']} right without, {bench['after']} with."
        if bench
        else "The benchmark was not run."
    )
    target_note = (
        f"They are in {target} now; `rackmedic serve` loads them after a restart." if keep else "--keep puts them into the site's folder."
    )
    print_text(target_note)
    return 0


def _replay_with_files(
    settings: Settings, texts: Mapping[Path, bytes], scored: BenchmarkScorer | None
) -> tuple[ReplayResult, dict[str, Any] | None]:
    """Replay in a copy of the site's folder. Raises Refusal."""
    target = settings.kb_dir
    with tempfile.TemporaryDirectory(prefix="rackmedic-try-") as temporary_folder:
        with_it = Path(temporary_folder) / "kb"
        shutil.copytree(target, with_it) if target and target.is_dir() else with_it.mkdir()
        for path, text in texts.items():
            write_file_atomically(with_it / path, text)
        has = settings.model_copy(update={"kb_dir": with_it})
        if problems := find_problems(has):
            raise Refusal("\n".join(["with these files the site's folder cannot be used:", *problems]).replace(f"{with_it}/", ""), 2)
        known_ids, knows = ({row.id for row in load_site_incidents(one.kb_dir)} for one in (settings, has))
        return replay_incidents(settings, has, knows - known_ids, _DEFAULT_ADVICE), compare_benchmark(
            target, with_it, scored, _DEFAULT_ADVICE
        )


def find_folder_part(path: Path) -> str:
    """Return the file's folder part. Raises Refusal."""
    try:
        raw = path.read_bytes()
        read = load_plain(raw.decode()) if len(raw) <= MAX_FILE_BYTES else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise Refusal(f"{path}: cannot be read as YAML: {' '.join(str(error).split())[:200]}", 2) from error
    part = next((part for key, part in PART_BY_KEY.items() if isinstance(read, dict) and key in read), None)
    if part is None:
        raise Refusal(f"{path}: begins with none of {', '.join(f'`{key}:`' for key in PART_BY_KEY)}", 2)
    return part
