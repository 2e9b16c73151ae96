"""`rackmedic kb rule LOG` and `rackmedic kb filter LOG`: draft log rules and filters."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from bot.app.site_files import load_site_rules, load_site_taxonomy
from bot.cli.command_runtime import print_text
from bot.cli.kb.built_folder import write_file_atomically
from bot.refusal import Refusal
from bot.settings import Settings
from graph.learning.log_filter_drafts import MIN_AGREEING_SAMPLES, SAMPLE_COUNT, FilterDraft, build_filter_draft
from graph.learning.log_rule_drafts import RuleDraft, build_rule_drafts
from kb.redact import show_invisible
from tools.checks.site.rules import BadRules, LogKind, load_rules

MAX_LOG_BYTES: Final = 64 * 1024 * 1024
MIN_WORD_CHARS: Final = 5  # shorter words of causes are too common to protect a line


def draft_rules(logs: Sequence[Path], against: Sequence[Path], kind: str, out: Path | None, *, as_json: bool) -> int:
    """Draft rules for error lines that the logs of `against` do not contain. Return 1 if no draft can be used."""
    log_kind: LogKind = "kernel" if kind == "kernel" else "job"
    if kind not in ("job", "kernel"):
        raise Refusal(f"--log {kind} is none of job, kernel", 2)
    if out is not None and out.exists():
        raise Refusal(f"--out {out} is there already; name a file of its own", 2)
    drafts = build_rule_drafts("\n".join(map(read_log, logs)), map(read_log, against), log_kind)
    usable = [draft for draft in drafts if not draft.elsewhere and not find_rule_problems(draft)]
    if out is not None and usable:
        _write_draft_file(out, render_rule_file(usable))
    if as_json:
        rows = [draft.row | {"lines": draft.lines, "elsewhere": draft.elsewhere, "refused": find_rule_problems(draft)} for draft in drafts]
        print_text(json.dumps({"schema": 1, "drafts": rows}))
    else:
        _print_drafts(drafts, usable, out)
    return 0 if usable else 1


def render_rule_file(drafts: Sequence[RuleDraft]) -> str:
    return yaml.safe_dump({"rules": [draft.row for draft in drafts]}, allow_unicode=True, sort_keys=False, width=160)


def find_rule_problems(draft: RuleDraft) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="rackmedic-rules-") as temporary_folder:
        (Path(temporary_folder) / "rules.yaml").write_text(render_rule_file([draft]), encoding="utf-8")
        try:
            load_rules(Path(temporary_folder))
        except BadRules as error:
            return [problem.removeprefix(temporary_folder).partition(": ")[2] for problem in error.problems]
    return []


def read_log(path: Path) -> str:
    """Return the text of the log. Raises Refusal if it cannot be read or has more than MAX_LOG_BYTES."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_LOG_BYTES + 1)
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror or error}", 2) from error
    if len(raw) > MAX_LOG_BYTES:
        raise Refusal(f"{path} has more than {MAX_LOG_BYTES >> 20} MiB; cut it to where it fails", 2)
    return raw.decode("utf-8", "replace")


def draft_filter(
    settings: Settings, logs: Sequence[Path], against: Sequence[Path], name: str, family: str, out: Path | None, *, as_json: bool
) -> int:
    """Draft a filter that hides lines which repeat and which no diagnosis needs. Return 1 if there are none."""
    if out is not None and out.exists():
        raise Refusal(f"--out {out} is there already; name a file of its own", 2)
    text = "\n".join(map(read_log, logs))
    if family not in text:
        raise Refusal(f"--family {family!r} occurs in none of these logs, so it would match no other log of these jobs", 2)
    leaves = load_site_taxonomy(settings.kb_dir).leaves.values()
    words = sorted({word.lower() for leaf in leaves for word in leaf.words if len(word) >= MIN_WORD_CHARS})
    draft = build_filter_draft(name, family, text, map(read_log, against), load_site_rules(settings.kb_dir), words)
    if out is not None and draft.dropped_kinds:
        _write_draft_file(out, render_filter_file(draft))
    if as_json:
        rows = [{"line": kind.example, "lines": kind.lines, "drafts": kind.drafts, "kept": kind.kept} for kind in draft.kinds]
        print_text(json.dumps({"schema": 1, "id": name, "family": family, "of": draft.of, "kinds": rows}))
    else:
        _print_draft(draft, out)
    return 0 if draft.dropped_kinds else 1


def render_filter_file(draft: FilterDraft) -> str:
    return yaml.safe_dump({"filters": [draft.row]}, allow_unicode=True, sort_keys=False, width=520)


def _print_drafts(drafts: Sequence[RuleDraft], usable: Sequence[RuleDraft], out: Path | None) -> None:
    for draft in drafts:
        verdict = "; ".join(find_rule_problems(draft)) or "in no other log"
        if draft.elsewhere:
            verdict = f"in {draft.elsewhere} lines of other logs, so left out"
        print_text(f"{draft.id}: {draft.lines} lines, {show_invisible(verdict)}")
        print_text(f"  {show_invisible(draft.pattern)}\n  {show_invisible(draft.examples[0])}")
    if not usable:
        print_text("No line here is an unknown error that only this log contains.")
    elif out is None:
        print_text(f"{len(usable)} can be used; --out FILE writes them. Trim them, and put the file into rules/ of the site's folder.")
    else:
        print_text(
            f"{out}: {len(usable)} rules. Name and trim them, put the file into rules/ of the site's folder; `rackmedic kb lint` checks it."
        )


def _write_draft_file(path: Path, text: str) -> None:
    try:
        write_file_atomically(path, text)
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror or error}") from error


def _print_draft(draft: FilterDraft, out: Path | None) -> None:
    for kind in draft.kinds:
        verdict_text = f"stays: {kind.kept}" if kind.kept else f"regular by {kind.drafts} drafts of {SAMPLE_COUNT}"
        print_text(f"{kind.lines} lines, {show_invisible(verdict_text)}\n  {show_invisible(kind.example)}")
    dropped_lines = sum(kind.lines for kind in draft.dropped_kinds)
    if not draft.dropped_kinds:
        print_text(f"Nothing that {MIN_AGREEING_SAMPLES} of {SAMPLE_COUNT} drafts call regular may go.")
        return
    summary = f"{len(draft.dropped_kinds)} kinds of line, {dropped_lines} of {draft.of} lines, would go from what is shown of such logs."
    next_step = f" {out} has them: look it through and put it into filters/ of the site's folder." if out else " --out FILE writes them."
    print_text(summary + next_step)
