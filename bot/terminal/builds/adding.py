"""`rackmedic kb add`: one past incident of one's own, without writing a file by hand."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import yaml

from bot.refusal import Refusal
from bot.run.site import site_checks, site_incidents, site_taxonomy
from bot.settings import PREFIX, Settings
from bot.terminal.builds.folder import as_yaml, plain_name, put, wrong_with
from bot.terminal.edge import tell
from kb.redact import redact

FILE: Final = "incidents/added.yaml"


def add(settings: Settings, entry: Mapping[str, Any], to: Path | None, *, as_json: bool) -> int:
    """Keep it in the site's folder, without secrets. `entry`: the fields of a past incident but its id. Raises Refusal that names the field."""
    target = to or settings.kb_dir
    if target is None:
        raise Refusal(f"name the site's folder: --to DIR or {PREFIX}KB_DIR", 2)
    row = {"id": f"ours-{plain_name(redact(str(entry['title'])), 'incident')}"} | {
        name: redact(said) if isinstance(said, str) else said for name, said in entry.items() if said
    }
    _refuse(settings.model_copy(update={"kb_dir": target if target.is_dir() else None}), row)
    path = target / FILE
    before = yaml.safe_load(path.read_text(encoding="utf-8"))["incidents"] if path.is_file() else []
    try:
        put(path, as_yaml([*before, row]))
    except OSError as why:
        raise Refusal(f"{path}: {why.strerror or why}") from why
    if as_json:
        tell(json.dumps({"schema": 1, "id": row["id"], "file": str(path)}))
    else:
        tell(f"{row['id']} is in {path}; `rackmedic serve` knows it once it is started anew.")
    return 0


def _refuse(settings: Settings, row: Mapping[str, Any]) -> None:
    labels = site_taxonomy(settings.kb_dir).leaves
    if row["label"] not in labels:
        like = get_close_matches(str(row["label"]), labels, n=3, cutoff=0.4)
        raise Refusal(f"--label {row['label']} is no label" + (f"; near it: {', '.join(like)}" if like else "; `rackmedic taxonomy`"), 2)
    if (check := row.get("deciding_check")) and check not in site_checks(settings):
        raise Refusal(f"--check {check} is no check; `rackmedic checks` lists them", 2)
    if row["id"] in {one.id for one in site_incidents(settings.kb_dir)}:
        raise Refusal(f"an incident {row['id']} is known already; `rackmedic kb show {row['id']}` shows it, another title makes another", 2)
    if wrong := wrong_with([row], labels):
        raise Refusal("\n".join(["it cannot be kept:", *wrong]), 2)
