"""`rackmedic kb add`: add one past incident to the site's folder."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import yaml

from bot.app.site_files import load_all_checks, load_site_incidents, load_site_taxonomy
from bot.cli.command_runtime import print_text
from bot.cli.kb.built_folder import find_entry_problems, render_incidents_file, slugify_name, write_file_atomically
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from kb.redact import redact

ADDED_INCIDENTS_FILE: Final = "incidents/added.yaml"


def add_incident(settings: Settings, entry: Mapping[str, Any], to: Path | None, *, as_json: bool) -> int:
    """Store the entry with secrets redacted. Raises Refusal naming a bad field."""
    target = to or settings.kb_dir
    if target is None:
        raise Refusal(f"name the site's folder: --to DIR or {ENV_PREFIX}KB_DIR", 2)
    row = {"id": f"ours-{slugify_name(redact(str(entry['title'])), 'incident')}"} | {
        name: redact(value) if isinstance(value, str) else value for name, value in entry.items() if value
    }
    _refuse_invalid_entry(settings.model_copy(update={"kb_dir": target if target.is_dir() else None}), row)
    path = target / ADDED_INCIDENTS_FILE
    before = yaml.safe_load(path.read_text(encoding="utf-8"))["incidents"] if path.is_file() else []
    try:
        write_file_atomically(path, render_incidents_file([*before, row]))
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror or error}") from error
    if as_json:
        print_text(json.dumps({"schema": 1, "id": row["id"], "file": str(path)}))
    else:
        print_text(f"{row['id']} is in {path}; `rackmedic serve` loads it after a restart.")
    return 0


def _refuse_invalid_entry(settings: Settings, row: Mapping[str, Any]) -> None:
    labels = load_site_taxonomy(settings.kb_dir).leaves
    if row["label"] not in labels:
        like = get_close_matches(str(row["label"]), labels, n=3, cutoff=0.4)
        raise Refusal(f"--label {row['label']} is no label" + (f"; near it: {', '.join(like)}" if like else "; `rackmedic taxonomy`"), 2)
    if (check := row.get("deciding_check")) and check not in load_all_checks(settings):
        raise Refusal(f"--check {check} is no check; `rackmedic checks` lists them", 2)
    if row["id"] in {one.id for one in load_site_incidents(settings.kb_dir)}:
        raise Refusal(f"an incident {row['id']} is known already; `rackmedic kb show {row['id']}` shows it, another title makes another", 2)
    if problems := find_entry_problems([row], labels):
        raise Refusal("\n".join(["it cannot be kept:", *problems]), 2)
