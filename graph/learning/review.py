"""`REVIEW.md` of a build: what a person should look at before any of it is used. Pure; every word in it is a stranger's, and none can format."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from graph.learning.drafting import looks_of
from graph.learning.growing import Grown, MergedName, NewCause
from graph.learning.labelling import LabelledRow
from kb.redact import visible

MONTHS: Final = "labels-by-month.png"
MOST_LISTED, FIDELITY, BAR = 500, 50, 40
"""Rows of a list, rows to try the fidelity of the labels with, and letters of the longest bar."""
_FORMS: Final = re.compile(r"([\\`*_{}\[\]()#+!|~$&<>@:-])")


def review(grown: Grown, unread: Sequence[str], titles: Mapping[str, str], seed: str) -> str:
    """The whole page. `titles`: of every label, the new ones among them. `seed` draws the sample, so that the same input draws the same one."""
    rows = grown.rows
    by = {verdict: [row for row in rows if row.verdict == verdict] for verdict in ("labelled", "doubtful", "dropped")}
    sample = random.Random(seed).sample(by["labelled"], min(FIDELITY, len(by["labelled"])))  # noqa: S311  # no secret
    parts = [
        "# What was built, to be looked at before it is used",
        (
            f"{len(rows)} rows were read: {len(by['labelled'])} labelled, {len(by['doubtful'])} doubtful, {len(by['dropped'])} dropped; "
            f"{len(unread)} could not be read. {_asked(rows)} causes are sentences of the threads."
        ),
        _listed("New causes: drafts, each to be accepted or refused", [_new(cause) for cause in grown.new]),
        _listed("Names that are a cause already", [_merged(one, titles) for one in grown.merged]),
        _counts(by["labelled"], titles),
        _looks(rows, titles),
        _by_month(first_met(rows)),
        _listed("Doubtful: a person chooses", [_doubt(row) for row in by["doubtful"]]),
        _listed("Dropped", [f"{plain_words(row.id)}: {row.why}" for row in by["dropped"]]),
        _listed("Could not be read", [plain_words(one) for one in unread]),
        _listed(f"{len(sample)} drawn by lot: is the label what the thread says?", [_told(row) for row in sample]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _asked(rows: Sequence[LabelledRow]) -> str:
    by = Counter(row.by for row in rows if row.by)
    ruled = "the nearest by words, quoted errors and past incidents"
    if not by:
        return f"No model was asked: labels are {ruled},"
    said = ", ".join(f"{plain_words(name)} chose {times}" for name, times in sorted(by.items()))
    return f"Of the labels {said}, the others are {ruled};"


def plain_words(text: str) -> str:
    """As they stand, on one line, in Markdown that nothing in them can change."""
    return _FORMS.sub(r"\\\1", " ".join(visible(text).split()))


def _new(cause: NewCause) -> str:
    of = ", ".join(plain_words(row.id) for row in cause.of[:5])
    return f"`{cause.label}` {plain_words(cause.title)}: {plain_words(cause.why)}; {len(cause.of)} incidents ({of})"


def _merged(name: MergedName, titles: Mapping[str, str]) -> str:
    return f"“{plain_words(name.named)}” is `{name.into}` {plain_words(titles.get(name.into, ''))}: {plain_words(name.why)}"


def _looks(rows: Iterable[LabelledRow], titles: Mapping[str, str]) -> str:
    """The look that people took, of each cause and, wider, of each branch."""
    lines = [
        f"| `{name}` | {plain_words(titles.get(name, ''))} | `{look}` | {times} of {of} |"
        for name, (look, times, of) in looks_of(rows).items()
    ]
    head = (
        "## Looks that their people took, and that the bot can take",
        "",
        "| cause or branch | | look | incidents |",
        "|---|---|---|---|",
    )
    return "\n".join((*head, *lines)) if lines else ""


def _counts(rows: Iterable[LabelledRow], titles: Mapping[str, str]) -> str:
    counted = Counter(row.label for row in rows)
    lines = [f"| `{label}` | {plain_words(titles.get(label, label))} | {times} |" for label, times in sorted(counted.items())]
    return "\n".join(("## Labels", "", "| label | what it is | incidents |", "|---|---|---|", *lines)) if lines else ""


def first_met(rows: Iterable[LabelledRow]) -> dict[str, int]:
    """How many labels of labelled rows were met for the first time in each month: where that falls, little new is left to learn."""
    first: dict[str, str] = {}
    for row in sorted((row for row in rows if row.time and row.verdict == "labelled"), key=lambda row: row.time):
        first.setdefault(row.label, row.time[:7])
    return dict(sorted(Counter(first.values()).items()))


def _by_month(counted: Mapping[str, int]) -> str:
    most = max(counted.values(), default=1)
    lines = [f"    {month} {'█' * max(1, BAR * times // most)} {times}" for month, times in counted.items()]
    return "\n".join(("## Labels met for the first time, by month", "", f"![the same as a picture]({MONTHS})", "", *lines)) if lines else ""


def _listed(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    rest = [f"- and {len(lines) - MOST_LISTED} more"] if len(lines) > MOST_LISTED else []
    return "\n".join((f"## {title}", "", *(f"- {line}" for line in lines[:MOST_LISTED]), *rest))


def _doubt(row: LabelledRow) -> str:
    near = ", ".join(f"`{label}`" for label in (row.label, *row.others))
    return f"{plain_words(row.id)} “{plain_words(row.title)}”: {plain_words(row.why)}; nearest {near} ({_sure(row)})"


def _told(row: LabelledRow) -> str:
    who = f" ({plain_words(row.said_by)})" if row.said_by else ""
    return f"{plain_words(row.id)} “{plain_words(row.title)}”: `{row.label}` {_sure(row)}; “{plain_words(row.root_cause)}”{who}"


def _sure(row: LabelledRow) -> str:
    """How sure rules are, or which model chose and what words say against it."""
    if row.by:
        return f"by {plain_words(row.by)}{f' ({plain_words(row.why)})' if row.why else ''}"
    return f"{row.confidence:.0%}" if row.confidence else f"({plain_words(row.why)})"
