"""`rackmedic kb filter LOG`: a filter drafted from logs of one family of jobs, for a person to look through before it goes into the site's folder."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from bot.refusal import Refusal
from bot.run.site import site_rules, site_taxonomy
from bot.settings import Settings
from bot.terminal.builds.folder import put
from bot.terminal.builds.rule_drafting import read_log
from bot.terminal.edge import tell
from graph.learning.filter_drafts import AGREE, SAMPLES, FilterDraft, drafted_filter
from kb.redact import visible

SHORTEST_WORD: Final = 5
"""Letters of a cause's word that says something wherever it stands."""


def draft_filter(
    settings: Settings, logs: Sequence[Path], against: Sequence[Path], name: str, family: str, out: Path | None, *, as_json: bool
) -> int:
    """What is regular in the logs and wanted in none; exit 1 where nothing is. Raises Refusal."""
    if out is not None and out.exists():
        raise Refusal(f"--out {out} is there already; name a file of its own", 2)
    text = "\n".join(map(read_log, logs))
    if family not in text:
        raise Refusal(f"--family {family!r} stands in none of these logs, nor would it in others of these jobs", 2)
    leaves = site_taxonomy(settings.kb_dir).leaves.values()
    words = sorted({word.lower() for leaf in leaves for word in leaf.words if len(word) >= SHORTEST_WORD})
    draft = drafted_filter(name, family, text, map(read_log, against), site_rules(settings.kb_dir), words)
    if out is not None and draft.taken:
        try:
            put(out, as_filters(draft))
        except OSError as why:
            raise Refusal(f"{out}: {why.strerror or why}") from why
    if as_json:
        rows = [{"line": one.example, "lines": one.lines, "drafts": one.drafts, "kept": one.kept} for one in draft.kinds]
        tell(json.dumps({"schema": 1, "id": name, "family": family, "of": draft.of, "kinds": rows}))
    else:
        _tell(draft, out)
    return 0 if draft.taken else 1


def as_filters(draft: FilterDraft) -> str:
    """A file of filters."""
    return yaml.safe_dump({"filters": [draft.row]}, allow_unicode=True, sort_keys=False, width=520)


def _tell(draft: FilterDraft, out: Path | None) -> None:
    for one in draft.kinds:
        does = f"stays: {one.kept}" if one.kept else f"regular by {one.drafts} drafts of {SAMPLES}"
        tell(f"{one.lines} lines, {visible(does)}\n  {visible(one.example)}")
    dropped = sum(one.lines for one in draft.taken)
    if not draft.taken:
        tell(f"Nothing that {AGREE} of {SAMPLES} drafts call regular may go.")
        return
    told = f"{len(draft.taken)} kinds of line, {dropped} of {draft.of} lines, would go from what is shown of such logs."
    after = f" {out} has them: look it through and put it into filters/ of the site's folder." if out else " --out FILE writes them."
    tell(told + after)
