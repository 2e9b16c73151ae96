"""`rackmedic kb filter LOG`: draft a filter from logs of one job family."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from bot.app.site_files import load_site_rules, load_site_taxonomy
from bot.cli.command_runtime import print_text
from bot.cli.kb.built_folder import write_file_atomically
from bot.cli.kb.rule_command import read_log
from bot.refusal import Refusal
from bot.settings import Settings
from graph.learning.filter_drafts import MIN_AGREEING_SAMPLES, SAMPLE_COUNT, FilterDraft, build_filter_draft
from kb.redact import show_invisible

MIN_WORD_CHARS: Final = 5  # shorter words of causes are too common to protect a line


def draft_filter(
    settings: Settings, logs: Sequence[Path], against: Sequence[Path], name: str, family: str, out: Path | None, *, as_json: bool
) -> int:
    """Draft a filter of repeated, unneeded lines; return 1 if none. Raises Refusal."""
    if out is not None and out.exists():
        raise Refusal(f"--out {out} is there already; name a file of its own", 2)
    text = "\n".join(map(read_log, logs))
    if family not in text:
        raise Refusal(f"--family {family!r} occurs in none of these logs, so it would match no other log of these jobs", 2)
    leaves = load_site_taxonomy(settings.kb_dir).leaves.values()
    words = sorted({word.lower() for leaf in leaves for word in leaf.words if len(word) >= MIN_WORD_CHARS})
    draft = build_filter_draft(name, family, text, map(read_log, against), load_site_rules(settings.kb_dir), words)
    if out is not None and draft.dropped_kinds:
        try:
            write_file_atomically(out, render_filter_file(draft))
        except OSError as error:
            raise Refusal(f"{out}: {error.strerror or error}") from error
    if as_json:
        rows = [{"line": one.example, "lines": one.lines, "drafts": one.drafts, "kept": one.kept} for one in draft.kinds]
        print_text(json.dumps({"schema": 1, "id": name, "family": family, "of": draft.of, "kinds": rows}))
    else:
        _print_draft(draft, out)
    return 0 if draft.dropped_kinds else 1


def render_filter_file(draft: FilterDraft) -> str:
    return yaml.safe_dump({"filters": [draft.row]}, allow_unicode=True, sort_keys=False, width=520)


def _print_draft(draft: FilterDraft, out: Path | None) -> None:
    for kind in draft.kinds:
        verdict_text = f"stays: {kind.kept}" if kind.kept else f"regular by {kind.drafts} drafts of {SAMPLE_COUNT}"
        print_text(f"{kind.lines} lines, {show_invisible(verdict_text)}\n  {show_invisible(kind.example)}")
    dropped = sum(one.lines for one in draft.dropped_kinds)
    if not draft.dropped_kinds:
        print_text(f"Nothing that {MIN_AGREEING_SAMPLES} of {SAMPLE_COUNT} drafts call regular may go.")
        return
    summary = f"{len(draft.dropped_kinds)} kinds of line, {dropped} of {draft.of} lines, would go from what is shown of such logs."
    after = f" {out} has them: look it through and put it into filters/ of the site's folder." if out else " --out FILE writes them."
    print_text(summary + after)
