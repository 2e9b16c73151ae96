"""Drafted causes and checks: loaded for review, rendered as site files."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from bot.app.site_files import find_site_folder
from bot.refusal import Refusal
from kb.taxonomy.loader import BadTaxonomy, load_taxonomy
from tools.checks import CHECKS
from tools.checks.site.loader import BadChecks, load_site_checks

BRANCH_TITLE: Final = "branch_title"  # key of a cause entry: the title of its branch, if that is new too
DraftEntry = Mapping[str, Any]


def load_drafted_causes(folder: Path) -> list[dict[str, Any]]:
    """Return entries with full `label`. Raises Refusal."""
    causes = []
    for path in sorted((folder / "taxonomy").glob("*.y*ml")):
        file = _read_draft_file(path)
        branches = file.get("branches") or {}
        for name, leaf in (file.get("leaves") or {}).items():
            title = branches.get(str(name).partition(".")[0])
            causes.append({"label": f"{file.get('category')}.{name}", **({BRANCH_TITLE: title} if title else {}), **leaf})
    return causes


def load_drafted_checks(folder: Path) -> list[dict[str, Any]]:
    return [dict(row) for path in sorted((folder / "checks").glob("*.y*ml")) for row in _read_draft_file(path).get("checks") or ()]


def render_cause_files(causes: Iterable[DraftEntry]) -> dict[str, str]:
    """Return lower-case category -> taxonomy file."""
    files: dict[str, dict[str, Any]] = {}
    for cause in causes:
        category, branch, name = [*str(cause["label"]).split(".", 2), "", ""][:3]
        file = files.setdefault(category, {"category": category, "branches": {}, "leaves": {}})
        if title := cause.get(BRANCH_TITLE):
            file["branches"][branch] = title
        file["leaves"][f"{branch}.{name}"] = {key: part for key, part in cause.items() if key not in ("label", BRANCH_TITLE)}
    return {name.lower(): _dump_yaml({key: part for key, part in file.items() if part}) for name, file in sorted(files.items())}


def render_check_file(checks: Sequence[DraftEntry]) -> str:
    return _dump_yaml({"checks": [dict(one) for one in checks]})


def find_cause_problems(cause: DraftEntry, kb_dir: Path | None) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="rackmedic-review-") as temporary_folder:
        for name, text in render_cause_files([cause]).items():
            (Path(temporary_folder) / f"{name}.yaml").write_text(text, encoding="utf-8")
        try:
            load_taxonomy(*find_site_folder(kb_dir, "taxonomy"), Path(temporary_folder))
        except BadTaxonomy as error:
            return [_strip_file_name(temporary_folder, problem) for problem in error.problems]
    return []


def find_check_problems(check: DraftEntry, programs: Sequence[str]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="rackmedic-review-") as temporary_folder:
        (Path(temporary_folder) / "checks.yaml").write_text(render_check_file([check]), encoding="utf-8")
        try:
            load_site_checks(Path(temporary_folder), known=CHECKS, programs=programs)
        except BadChecks as error:
            return [_strip_file_name(temporary_folder, problem) for problem in error.problems]
    return []


def _read_draft_file(path: Path) -> Mapping[str, Any]:
    try:
        file = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(f"{path} is no YAML: {' '.join(str(error).split())[:200]}", 2) from error
    file = file if isinstance(file, dict) else {"checks": "none"}
    leaves, branches, checks = file.get("leaves") or {}, file.get("branches") or {}, file.get("checks") or []
    is_valid = isinstance(leaves, dict) and isinstance(branches, dict) and isinstance(checks, list)
    if not is_valid or not all(isinstance(row, dict) for row in (*leaves.values(), *checks)):
        raise Refusal(f"{path} is no file of causes or checks", 2)
    return file


def _dump_yaml(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(content), allow_unicode=True, sort_keys=False, width=120)


def _strip_file_name(folder: str, problem: str) -> str:
    return problem.removeprefix(folder).partition(": ")[2] or problem
