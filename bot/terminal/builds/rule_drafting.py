"""`rackmedic kb rule LOG`: rules drafted from a log, for a person to trim before they go into the site's folder."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from bot.refusal import Refusal
from bot.terminal.builds.folder import put
from bot.terminal.edge import tell
from graph.learning.rule_drafts import RuleDraft, drafted_rules
from kb.redact import visible
from tools.checks.site.rules import BadRules, Log, load_rules

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a log that are read."""


def draft_rules(logs: Sequence[Path], against: Sequence[Path], kind: str, out: Path | None, *, as_json: bool) -> int:
    """Drafts of what stands in the logs and in none of the others; exit 1 where there are none. Raises Refusal."""
    log: Log = "kernel" if kind == "kernel" else "job"
    if kind not in ("job", "kernel"):
        raise Refusal(f"--log {kind} is none of job, kernel", 2)
    if out is not None and out.exists():
        raise Refusal(f"--out {out} is there already; name a file of its own", 2)
    drafts = drafted_rules("\n".join(map(read_log, logs)), map(read_log, against), log)
    good = [one for one in drafts if not one.elsewhere and not refused(one)]
    if out is not None and good:
        try:
            put(out, as_rules(good))
        except OSError as why:
            raise Refusal(f"{out}: {why.strerror or why}") from why
    if as_json:
        rows = [one.row | {"lines": one.lines, "elsewhere": one.elsewhere, "refused": refused(one)} for one in drafts]
        tell(json.dumps({"schema": 1, "drafts": rows}))
    else:
        _tell(drafts, good, out)
    return 0 if good else 1


def as_rules(drafts: Sequence[RuleDraft]) -> str:
    """A file of rules."""
    return yaml.safe_dump({"rules": [one.row for one in drafts]}, allow_unicode=True, sort_keys=False, width=160)


def refused(draft: RuleDraft) -> list[str]:
    """What the reader of rules says against it."""
    with tempfile.TemporaryDirectory(prefix="rackmedic-rules-") as kept:
        (Path(kept) / "rules.yaml").write_text(as_rules([draft]), encoding="utf-8")
        try:
            load_rules(Path(kept))
        except BadRules as why:
            return [problem.removeprefix(kept).partition(": ")[2] for problem in why.problems]
    return []


def _tell(drafts: Sequence[RuleDraft], good: Sequence[RuleDraft], out: Path | None) -> None:
    for one in drafts:
        against = f"in {one.elsewhere} lines of other logs, so left out" if one.elsewhere else "; ".join(refused(one)) or "in no other log"
        tell(f"{one.id}: {one.lines} lines, {visible(against)}\n  {visible(one.pattern)}\n  {visible(one.examples[0])}")
    if not good:
        tell("Nothing here is bad news that no reader knows and that tells this log from others.")
    elif out is None:
        tell(f"{len(good)} can be used; --out FILE writes them. Trim them, and put the file into rules/ of the site's folder.")
    else:
        tell(f"{out}: {len(good)} rules. Name and trim them, put the file into rules/ of the site's folder; `rackmedic kb lint` checks it.")


def read_log(path: Path) -> str:
    """A log, whatever bytes it holds. Raises Refusal."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as why:
        raise Refusal(f"{path}: {why.strerror or why}", 2) from why
    if len(raw) > LARGEST:
        raise Refusal(f"{path} has more than {LARGEST >> 20} MiB; cut it to where it fails", 2)
    return raw.decode("utf-8", "replace")
