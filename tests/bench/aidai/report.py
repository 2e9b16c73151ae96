"""AidAI's evaluation on our cases and arms: its tables 3 to 5 and figures 8 to 12, theirs beside ours. Pure.

Every figure of ours is counted from the answers kept by `aidai_cases` and the kept text readings, every figure of
theirs is in `aidai_paper`; unmeasured ones are dashes, explained below the table. `python -m tests.bench.aidai.report`
renews the section in REPORT.md.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from math import comb
from pathlib import Path
from typing import Any, Final

from tests.bench.aidai import paper as paper
from tests.bench.aidai import words as says
from tests.bench.aidai.answers import Answers, Kept, in_category, known, mean_of, of, share
from tests.bench.aidai.words import flat
from tests.bench.arms.table import ARMS
from tests.bench.case_files.truth import ABSTAIN
from tests.bench.model import scores
from tests.bench.published.read_texts import ANSWERS
from tests.bench.report.parts import table
from tests.bench.score import Marked, f1_scores

RESULTS: Final = ANSWERS / "aidai-results.json"
REPORT: Final = Path(__file__).parents[1] / "REPORT.md"
TITLE: Final = "## AidAI's evaluation, done again"
# the preceding report section
BEFORE: Final = "## With a recorded model"
ARMS_SHOWN: Final = ("B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9")
SIXTHS: Final = 6
NONE: Final = "–"


def load(path: Path = RESULTS) -> dict[str, Any] | None:
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found if found.get("schema") == 1 else None


def section(path: Path = RESULTS, texts: Path = scores.TEXTS) -> str:
    """Return the section, or "" if nothing is kept."""
    kept, read = load(path), scores.kept(texts)
    if kept is None:
        return ""
    parts = [table_3(kept, read), table_4(kept, read), table_5(kept), figure_8(kept), figure_9(kept), figure_10(kept), figure_11(kept)]
    return "\n\n".join([TITLE, *_head(kept), *parts, figure_12(kept), _left_out(kept)])


def renewed(report: str, part: str) -> str:
    """Replace the section in a report, or insert it after the recorded model's scores."""
    blocks = report.split("\n\n## ")
    titles = [f"## {block.partition(chr(10))[0]}" for block in blocks]
    own = part.removeprefix("## ")
    if TITLE in titles:
        blocks[titles.index(TITLE)] = own
    else:
        blocks.insert(titles.index(BEFORE) + 1, own)
    return "\n\n## ".join(blocks)


def _head(kept: Kept) -> list[str]:
    recorded, commonest = of(kept, "recorded"), ("GPU", "SYSTEM_SOFTWARE", "INTERCONNECT")
    usual = sum(paper.CATEGORIES[name].tickets for name in commonest)
    older = " **Older prompts: the product asks otherwise by now.**" if kept["prompts"] != scores.prompts_digest() else ""
    counted = {
        "few": len(recorded.rows("B6")),
        "few_known": len(recorded.rows("B6", known)),
        "many": len(recorded.rows("B9")),
        "many_known": len(recorded.rows("B9", known)),
        "hard": len(of(kept, "hard").rows("B8")),
    }
    return [flat(says.HEAD, tickets=paper.TICKETS, usual=usual), flat(says.MADE, version=kept["benchmark"], older=older, **counted)]


def _titled(title: str, words: str, *tables: str) -> str:
    return "\n\n".join([f"### {title}", *tables, words])


def _right(rows: Sequence[Marked]) -> str:
    return share(sum(row.right for row in rows), len(rows))


# -- Tables 3 and 4 --------------------------------------------------------------------------------------------------


def table_3(kept: Kept, texts: Mapping[str, Any] | None) -> str:
    """Table 3: what each pipeline adds, and what each part of RackMedic does."""
    recorded, hard = of(kept, "recorded"), of(kept, "hard")
    columns = ((recorded, "B6", _one_cause), (recorded, "B6", _two_causes), (hard, "B6-sage", known))
    rows = []
    for number, line in enumerate(paper.TABLE_3, 1):
        ours = [share(sum(one <= number for one in there.pipelines(arm, some)), len(there.rows(arm, some))) for there, arm, some in columns]
        rows.append([line.says, share(line.resolved, paper.TICKETS), *ours])
    ideas = _text_share(texts, "true_cause_among_ideas")
    parts = [[name, *(_right(there.rows(arm, known)) for there in (recorded, hard))] for name, arm in _PARTS]
    parts.append(["a model's ideas of what no label names", f"on published texts alone: {ideas}", NONE])
    heads = ["B6, one cause, recorded", "B6, two causes, recorded", "B6-sage, hard"]
    two = recorded.rows("B6", _two_causes)
    counted = {"recurs": paper.RECURRENCE_OF_GPU_FAULTS, "two": len(two), "early": sum(recorded.pipeline("B6", row) == 1 for row in two)}
    first = table(["AidAI's pipelines", f"theirs, {paper.TICKETS} tickets", *heads], rows)
    second = table(["RackMedic", "recorded cases", "hard cases"], parts)
    return _titled("Table 3: what each pipeline adds", flat(says.TABLE_3, **counted), first, second)


_PARTS: Final = (
    ("past incidents by the ticket's words alone (B1)", "B1"),
    ("looks and rules, without past incidents (B8-history)", "B8-history"),
    ("looks, rules and past incidents (B8)", "B8"),
    ("and a model (B9)", "B9"),
)


def _one_cause(row: Marked) -> bool:
    return known(row) and len(row.truth.labels) == 1


def _two_causes(row: Marked) -> bool:
    return known(row) and len(row.truth.labels) > 1


def _text_share(texts: Mapping[str, Any] | None, level: str) -> str:
    return share(texts[level]["right"], texts[level]["of"]) if texts and level in texts else NONE


def table_4(kept: Kept, texts: Mapping[str, Any] | None) -> str:
    """Table 4: labels removed from the knowledge."""
    before, after = of(kept, "removed, label known").rows("B8"), of(kept, "removed").rows("B8")
    rows = []
    for line in paper.TABLE_4:
        ours = [[row for row in rows_of if row.truth.primary.label == line.label] for rows_of in (before, after)]
        rows.append([f"{line.kind}: {line.named}", f"{line.before:.1%} / {line.after:.1%}", "B8, hard", *_unseen(*ours)])
    many = "several labels at a time, of all categories"
    rows.append([many, NONE, "B8, layer unseen", *_unseen(of(kept, "unseen, label known").rows("B8"), of(kept, "unseen").rows("B8"))])
    recorded = of(kept, "recorded")
    rows += [[many, NONE, f"{arm}, recorded", *_unseen([], recorded.rows(arm, _unknown))] for arm in ("B2", "B3", "B4", "B6", "B9")]
    named, ideas = _text_share(texts, "level_3_in_first_3"), _text_share(texts, "true_cause_among_ideas")
    own = [f"{named}, leaf among the first three", NONE, NONE, f"{ideas}, true cause among three ideas"]
    rows.append(["published incidents by their text, each without its own label", NONE, "a recorded model reads", *own])
    head = ["removed label", "theirs, before / after", "who", "right before", "abstains", "claims something else", "the cause in own words"]
    return _titled("Table 4: incidents whose label is not known", flat(says.TABLE_4, **_silent(recorded)), table(head, rows))


def _silent(recorded: Answers) -> dict[str, int]:
    """Count abstentions of a model that reads the ticket alone although it knows the label."""
    rows = recorded.rows("B3", lambda row: known(row) and row.layer in ("hard", "composite"))
    return {"silent": sum(row.answer.labels == (ABSTAIN,) for row in rows), "told": len(rows)}


def _unknown(row: Marked) -> bool:
    return not known(row)


def _unseen(before: Sequence[Marked], after: Sequence[Marked]) -> list[str]:
    silent = sum(row.right for row in after)
    return [_right(before), share(silent, len(after)), share(len(after) - silent, len(after)), NONE]


# -- Table 5 and Figure 10 -------------------------------------------------------------------------------------------


def table_5(kept: Kept) -> str:
    """Table 5: calls, tokens and price."""
    recorded = of(kept, "recorded")
    few = recorded.answered_by("B6")
    theirs = {line.method: line for line in paper.TABLE_5}
    rows = [[*_paid(line), line.arm or NONE, *_costs(recorded, line.arm, few)] for line in paper.TABLE_5]
    rows += [[NONE] * 4 + [arm, *_costs(recorded, arm, few)] for arm in ("B7", "B8", "B9")]
    counted = {
        "dear": max(abs(line.reckoned - line.usd) for line in paper.TABLE_5),
        "ours": _times(recorded.rows("B6", among=few), recorded.rows("B4", among=few)),
        "theirs": theirs["AidAI"].usd / theirs["CVD"].usd,
        "leaves": kept.get("build", {}).get("leaves", NONE),
        "early": sum(recorded.pipeline("B6", row) == 1 for row in recorded.rows("B6")),
        "few": len(few),
    }
    each = ("tokens in / out", "USD")
    head = ["theirs", "calls", *each, "ours", f"calls, {len(few)} cases", *each, f"calls, {len(recorded.rows('B9'))} cases", *each]
    return _titled("Table 5: calls, tokens and price of an incident", flat(says.TABLE_5, **counted), table(head, rows))


def _paid(line: paper.Calls) -> list[str]:
    return [line.method, f"{line.calls:g}", f"{line.tokens_in:.0f} / {line.tokens_out:.0f}", f"{line.usd:.3f}"]


def _times(rows: Sequence[Marked], others: Sequence[Marked]) -> float:
    return mean_of(rows, "usd") / mean_of(others, "usd") if rows and others else float("nan")


def _costs(recorded: Answers, arm: str, few: frozenset[str]) -> list[str]:
    """Return costs on B6's few cases, and on all if the arm has more."""
    some, many = recorded.rows(arm, among=few), recorded.rows(arm)
    return [*_cost(some), *_cost(many if len(many) > len(some) else [])]


def _cost(rows: Sequence[Marked]) -> list[str]:
    if not rows:
        return [NONE] * 3
    tokens = " / ".join(f"{mean_of(rows, name):.0f}" for name in ("tokens_in", "tokens_out"))
    return [f"{mean_of(rows, 'calls'):.1f}", tokens, f"{mean_of(rows, 'usd'):.3f}"]


def figure_10(kept: Kept) -> str:
    """Figure 10: verification time."""
    recorded, hard = of(kept, "recorded"), of(kept, "hard")
    few, cvd = recorded.answered_by("B6"), paper.FIGURE_10["CVD"]
    every = recorded.rows("B4r", among=few), hard.rows("B4r")
    rows = []
    for method, arm, whole in (("CVD", "B4r", "B4r"), ("TGD", "B5", "B5"), ("AidAI", "B6", "B6-sage"), ("", "B8", "B8"), ("", "B9", "")):
        theirs = [f"{paper.FIGURE_10[method]:.1f}", f"{paper.FIGURE_10[method] / cvd:.3f}"] if method else [NONE, NONE]
        ours = [*_seconds(recorded.rows(arm, among=few), every[0]), *_seconds(hard.rows(whole), every[1])]
        rows.append([method or NONE, *theirs, arm if whole in ("", arm) else f"{arm}; on hard cases {whole}", *ours])
    head = ["theirs", "seconds", "of CVD", "ours", f"seconds, {len(few)} recorded cases", "of CVD"]
    return _titled(
        "Figure 10: time of verification", flat(says.FIGURE_10), table([*head, f"seconds, {len(every[1])} hard cases", "of CVD"], rows)
    )


def _seconds(rows: Sequence[Marked], everything: Sequence[Marked]) -> list[str]:
    if not rows or not everything:
        return [NONE, NONE]
    took = mean_of(rows, "makespan")
    return [f"{took:.0f}", f"{took / mean_of(everything, 'makespan'):.3f}"]


# -- Figures 8 and 9 -------------------------------------------------------------------------------------------------


def figure_8(kept: Kept) -> str:
    """Figure 8: micro and macro F1 on B6's cases, and on all."""
    recorded = of(kept, "recorded")
    few = recorded.answered_by("B6")
    some, many = recorded.rows("B8", known, few), recorded.rows("B8", known)
    right = [{row.case for row in recorded.rows(arm, known) if row.right} for arm in ("B8", "B9")]
    counted = {"twins": sum(map(_blind, many)), "many": len(many), "named": sum(row.names_blind_look for row in many)}
    counted |= {"guessed": sum(row.right for row in recorded.rows("B4", _blind))}
    counted |= {"gained": len(right[1] - right[0]), "lost": len(right[0] - right[1])}
    tables = [_scores(recorded, few, f"{len(some)} cases that B6 answered"), _scores(recorded, None, f"{len(many)} recorded cases")]
    return _titled("Figure 8: micro and macro F1", flat(says.FIGURE_8, **counted), *tables)


def _blind(row: Marked) -> bool:
    return bool(row.truth.blind)


def _scores(recorded: Answers, among: frozenset[str] | None, where: str) -> str:
    theirs, whole = {line.arm: line for line in paper.FIGURE_8}, len(recorded.rows("B8", known, among))
    rows = []
    for arm in ARMS_SHOWN:
        some = recorded.rows(arm, known, among)
        lacks = f" ({len(some)})" if 0 < len(some) < whole else ""
        enough = some if len(some) > whole / 2 else []
        cells = [_pair(enough, 1), _one(f1_scores(enough, 2)["micro"]), _pair(enough, 3)] if enough else [NONE, NONE, "not recorded"]
        rows.append([*_published(theirs.get(arm)), f"{arm}: {ARMS[arm].title}{lacks if enough else ''}", *cells])
    head = ["theirs", "micro / macro", where, "category, micro / macro", "branch, micro", "cause, micro / macro"]
    return table(head, rows)


def _published(line: paper.Score | None) -> list[str]:
    if line is None:
        return [NONE, NONE]
    pair = " / ".join(NONE if value is None else f"{value:.3f}" for value in (line.micro, line.macro))
    return [line.method, pair + (f", accuracy {line.accuracy:.3f}" if line.accuracy else "")]


def _pair(rows: Sequence[Marked], level: int) -> str:
    scores = f1_scores(rows, level)
    return f"{_one(scores['micro'])} / {_one(scores['macro'])}" if scores else NONE


def _one(figure: Mapping[str, Any]) -> str:
    return f"{figure['value']:.3f} [{figure['ci95'][0]:.2f}, {figure['ci95'][1]:.2f}]"


def figure_9(kept: Kept) -> str:
    """Figure 9: by category."""
    hard, recorded = of(kept, "hard"), of(kept, "recorded")
    columns = [(hard, "B8"), (recorded, "B9"), (recorded, "B6")]
    rows = []
    for category in (*paper.CATEGORIES, "OTHER"):
        theirs = paper.CATEGORIES.get(category)
        solved = share(theirs.tickets - theirs.unsolved, theirs.tickets) if theirs else NONE
        ours = [_of_category(there.rows(arm, known), category) for there, arm in columns]
        rows.append([category, solved, *ours, _levels(hard.rows("B8", known), category)])
    heads = [f"{arm}, {where}" for arm, where in (("B8", "hard"), ("B9", "recorded"), ("B6", "recorded"))]
    head = ["category", "theirs, solved in one run", *heads, "B8, hard: category / branch / cause"]
    return _titled("Figure 9: by category", flat(says.FIGURE_9), table(head, rows))


def _of_category(rows: Sequence[Marked], category: str) -> str:
    right, wrong, missed = in_category(rows, category)
    if not right + missed:
        return NONE
    precision = f"{right / (right + wrong):.2f}" if right + wrong else NONE
    return f"{precision} / {right / (right + missed):.2f} / {2 * right / (2 * right + wrong + missed):.2f} of {right + missed}"


def _levels(rows: Sequence[Marked], category: str) -> str:
    own = [row for row in rows if row.category == category]
    return " / ".join(_one(f1_scores(own, level)["micro"]) for level in (1, 2, 3)) + f" of {len(own)}" if own else NONE


# -- Figures 11 and 12, and the rest ---------------------------------------------------------------------------------


def figure_11(kept: Kept) -> str:
    """Figure 11: growth of the taxonomy."""
    built, title = kept.get("build") or {"not_run": "nobody has"}, "Figure 11: new labels as incidents come in"
    if "not_run" in built:
        return _titled(title, f"Theirs: {paper.FIGURE_11}. Ours was not measured: {built['not_run']}.")
    labels = list(built["labels"].values())
    marks = [round(len(labels) * part / SIXTHS) for part in range(SIXTHS + 1)]
    met = [labels_met(labels, n) for n in marks]
    rows = []
    for low, high, before, after in zip(marks, marks[1:], met, met[1:], strict=False):
        rows.append([f"{low + 1}–{high}", f"{after - before:.1f}", f"{(after - before) / (high - low):.2f}"])
    counted = {name: built[name] for name in ("answered", "leaves", "dated")}
    counted |= {"whole": len(labels), "labels": len(set(labels)), "new": len(built["new"]), "theirs": paper.FIGURE_11}
    head = ["incidents", "labels met for the first time", "for each incident"]
    return _titled(title, flat(says.FIGURE_11, **counted), table(head, rows))


def labels_met(labels: Sequence[str], n: int) -> float:
    """Return the expected number of distinct labels in n incidents, over all choices of n."""
    whole = len(labels)
    return sum(1 - comb(whole - labels.count(label), n) / comb(whole, n) for label in sorted(set(labels)))


def figure_12(kept: Kept) -> str:
    """Figure 12: effect of a better or worse model."""
    hard, recorded = of(kept, "hard"), of(kept, "recorded")
    rows = []
    for who, arm, there, where in (
        ("a model that is always wrong", "B8-liar", hard, "hard"),
        ("no model", "B8", hard, "hard"),
        ("a model that is always right", "B8-sage", hard, "hard"),
        ("AidAI's design, a model that is always right", "B6-sage", hard, "hard"),
        ("no model", "B8", recorded, "recorded"),
        ("a frontier model", "B9", recorded, "recorded"),
    ):
        some = there.rows(arm, known)
        rows.append(
            [who, arm, f"{where}, {len(some)}", _pair(some, 1), _pair(some, 3)] if some else [who, arm, f"{where}, not run", NONE, NONE]
        )
    bounds = {"theirs_right": "B6-sage", "ours_right": "B8-sage", "alone": "B8", "liar": "B8-liar"}
    counted = {name: sum(row.right for row in hard.rows(arm, known)) for name, arm in bounds.items()} | {
        "hard": len(hard.rows("B8", known))
    }
    head = ["model", "arm", "cases", "category, micro / macro F1", "cause, micro / macro F1"]
    return _titled("Figure 12: other models", flat(says.FIGURE_12, theirs=paper.FIGURE_12, **counted), table(head, rows))


def _left_out(kept: Kept) -> str:
    lost = sum(there.get("not_replayed", 0) for there in kept["sets"].values())
    gone = [f"{lost} recorded answers to questions that are asked otherwise by now: those cases are left out of that arm."] if lost else []
    return "### What of it is not measured\n\n" + "\n".join(f"- {line}" for line in (*says.LEFT_OUT, *gone))


def main() -> int:
    """Update REPORT.md."""
    REPORT.write_text(renewed(REPORT.read_text(), section()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
