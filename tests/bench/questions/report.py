"""The report's section on metrics A, B and C: the paper's table 4 beside ours, and all our shares. Pure except for
reading that table.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.bench.report.parts import table

PAPER: Final = Path(__file__).parents[1] / "questions" / "paper.yaml"
ARMS: Final[Mapping[str, str]] = {
    "rules": "RackMedic without a model",
    "words": "checks ranked by words",
    "with_model": "RackMedic with the recorded model",
    "model": "the recorded model asked directly",
}
OF_A_MODEL: Final = ("with_model", "model")
COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "all": ("A", "all four fields"),
    "hosts": ("A", "machines"),
    "port": ("A", "port or device"),
    "job": ("A", "job"),
    "act": ("A", "whether to act"),
    "both": ("B", "looks and drafts"),
    "look": ("B", "look with its arguments"),
    "look_check": ("B", "the look alone"),
    "look_hosts": ("B", "its hosts"),
    "draft_valid": ("B", "draft passes the validator, command as given"),
    "draft": ("B", "draft right on every output that was not shown"),
    "choice": ("C", "one of four causes"),
    "choice_plain": ("C", "the same, of reports in plain words"),
    "level_1": ("C", "openly, category"),
    "level_3": ("C", "openly, cause"),
    "level_3_in_first_3": ("C", "openly, cause among the first three"),
}
HEADLINE: Final = {"A": "all", "B": "both", "C": "choice"}

DIFFERS: Final = (
    "Metrics A, B and C of arXiv 2411.05349 on questions of our own: theirs are not public, so the two halves of the table cannot be compared "
    "number by number. A there is the string match of IP addresses, SSH ports and whether to go on; here machines, port or device, job and whether "
    "to act have to be right together. B there is code that a model writes, run on a cluster; here it is the look of a fixed catalogue with its "
    "hosts and device, and a check of a site drafted from a sentence, which must pass the validator and read outputs that no prompt showed. C there "
    "and here is multiple choice, of four causes here; chance is 0.25. Their scores of B and C are multiples of 1/13 and 1/17, so that few of the 150 "
    "questions seem to stand behind them. Whoever wrote our questions knew the taxonomy, and many quote error lines that the rules know from the same "
    "threads: C without a model is too good for what is new. RackMedic drafts no check from a sentence; what stands there is the draft of `kb build`, "
    "which takes over the command alone."
)


def section(doc: Mapping[str, Any]) -> str:
    """Return the section, or "" if nothing was measured."""
    found = doc.get("questions")
    if not found:
        return ""
    counts = ", ".join(f"{name} {n}" for name, n in found["counts"].items())
    parts = [
        "## Questions: metrics A, B, C",
        f"{sum(found['counts'].values())} questions ({counts}). {DIFFERS}",
        _notes(found),
        table(["who", "method", "A", "B", "C"], [*_ours(found), *_theirs()]),
        table(["metric", "share right", *(ARMS[name] for name in found["arms"])], _details(found)),
    ]
    return "\n\n".join(filter(None, parts))


def _notes(found: Mapping[str, Any]) -> str:
    arms = [found["arms"][name] for name in OF_A_MODEL]
    if all("not_run" in arm for arm in arms):
        return "With a model: not run; nobody has recorded one."
    older = (
        " **Older prompts: the product asks otherwise by now, and nobody has recorded it anew.**"
        if any(a.get("older") for a in arms)
        else ""
    )
    open_ones = [
        f"{ARMS[name]}: {arm['unanswered']} of {arm['calls']} calls unanswered"
        for name, arm in zip(OF_A_MODEL, arms, strict=True)
        if arm.get("unanswered")
    ]
    return " ".join(filter(None, [f"{found['made']}{older}".strip(), *(f"{line}." for line in open_ones)]))


def _ours(found: Mapping[str, Any]) -> list[list[str]]:
    method = {
        "rules": "rules",
        "words": "BM25 over what checks ask",
        "with_model": "rules, asked where they do not know",
        "model": "one prompt a question",
    }
    return [
        [f"**{ARMS[name]}**", method[name], *(_share(arm.get(metric, {}).get(column)) for metric, column in HEADLINE.items())]
        for name, arm in found["arms"].items()
        if "not_run" not in arm and any(column in arm.get(metric, {}) for metric, column in HEADLINE.items())
    ]


def _theirs() -> list[list[str]]:
    rows = yaml.safe_load(PAPER.read_text())["rows"]
    return [
        [f"{model}, published", f"{method}; given away: {cheating}" if cheating != "none" else method, *(f"{one:.2f}" for one in scores)]
        for model, cheating, method, *scores in rows
    ]


def _details(found: Mapping[str, Any]) -> list[list[str]]:
    return [
        [metric, says, *(_share(arm.get(metric, {}).get(name)) for arm in found["arms"].values())]
        for name, (metric, says) in COLUMNS.items()
    ]


def _share(row: Mapping[str, Any] | None) -> str:
    if not row:
        return "–"
    low, high = row["ci95"]
    return f"{row['right']}/{row['of']} = {row['value']:.2f} [{low:.2f}, {high:.2f}]"
