"""Render `REVIEW.md` of a build, for review before use. All text is untrusted and escaped."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from graph.learning.cause_discovery import CauseDiscovery, MergedName, NewCause
from graph.learning.knowledge_drafts import find_common_checks
from graph.learning.rule_labelling import LabelledRow
from kb.redact import show_invisible

MONTHS_CHART_FILE: Final = "labels-by-month.png"
MAX_LISTED_ROWS = 500  # Rows of a list
SAMPLE_ROWS = 50  # rows sampled to check labels
MAX_BAR_CHARS = 40  # characters of the longest bar
_MARKDOWN_PATTERN: Final = re.compile(r"([\\`*_{}\[\]()#+!|~$&<>@:-])")


def render_review(discovery: CauseDiscovery, unread: Sequence[str], titles: Mapping[str, str], seed: str) -> str:
    """Return the page. `titles` includes new labels; the same `seed` draws the same sample."""
    rows = discovery.rows
    rows_by_verdict = {verdict: [row for row in rows if row.verdict == verdict] for verdict in ("labelled", "doubtful", "dropped")}
    sample = random.Random(seed).sample(rows_by_verdict["labelled"], min(SAMPLE_ROWS, len(rows_by_verdict["labelled"])))  # noqa: S311  # no secret
    parts = [
        "# What was built, to be looked at before it is used",
        (
            f"{len(rows)} rows were read: {len(rows_by_verdict['labelled'])} labelled, {len(rows_by_verdict['doubtful'])} doubtful, {len(rows_by_verdict['dropped'])} dropped; "
            f"{len(unread)} could not be read. {_format_label_sources(rows)} causes are sentences of the threads."
        ),
        _render_list("New causes: drafts, each to be accepted or refused", [_render_new_cause(cause) for cause in discovery.new]),
        _render_list("Names that are a cause already", [_render_merged_name(merged_name, titles) for merged_name in discovery.merged]),
        _render_label_counts(rows_by_verdict["labelled"], titles),
        _render_common_checks(rows, titles),
        _render_months(count_new_labels_by_month(rows)),
        _render_list("Doubtful: a person chooses", [_render_doubtful_row(row) for row in rows_by_verdict["doubtful"]]),
        _render_list("Dropped", [f"{escape_markdown(row.id)}: {row.why}" for row in rows_by_verdict["dropped"]]),
        _render_list("Could not be read", [escape_markdown(line) for line in unread]),
        _render_list(f"{len(sample)} drawn by lot: is the label what the thread says?", [_render_sample_row(row) for row in sample]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _format_label_sources(rows: Sequence[LabelledRow]) -> str:
    counts_by_source = Counter(row.by for row in rows if row.by)
    ruled = "the nearest by words, quoted errors and past incidents"
    if not counts_by_source:
        return f"No model was asked: labels are {ruled},"
    sources = ", ".join(f"{escape_markdown(name)} chose {times}" for name, times in sorted(counts_by_source.items()))
    return f"Of the labels {sources}, the others are {ruled};"


def escape_markdown(text: str) -> str:
    return _MARKDOWN_PATTERN.sub(r"\\\1", " ".join(show_invisible(text).split()))


def _render_new_cause(cause: NewCause) -> str:
    thread_ids = ", ".join(escape_markdown(row.id) for row in cause.of[:5])
    return f"`{cause.label}` {escape_markdown(cause.title)}: {escape_markdown(cause.why)}; {len(cause.of)} incidents ({thread_ids})"


def _render_merged_name(name: MergedName, titles: Mapping[str, str]) -> str:
    return f"“{escape_markdown(name.named)}” is `{name.into}` {escape_markdown(titles.get(name.into, ''))}: {escape_markdown(name.why)}"


def _render_common_checks(rows: Iterable[LabelledRow], titles: Mapping[str, str]) -> str:
    lines = [
        f"| `{name}` | {escape_markdown(titles.get(name, ''))} | `{check}` | {times} of {of} |"
        for name, (check, times, of) in find_common_checks(rows).items()
    ]
    head = (
        "## Looks that their people took, and that the bot can take",
        "",
        "| cause or branch | | look | incidents |",
        "|---|---|---|---|",
    )
    return "\n".join((*head, *lines)) if lines else ""


def _render_label_counts(rows: Iterable[LabelledRow], titles: Mapping[str, str]) -> str:
    counts_by_label = Counter(row.label for row in rows)
    lines = [f"| `{label}` | {escape_markdown(titles.get(label, label))} | {times} |" for label, times in sorted(counts_by_label.items())]
    return "\n".join(("## Labels", "", "| label | what it is | incidents |", "|---|---|---|", *lines)) if lines else ""


def count_new_labels_by_month(rows: Iterable[LabelledRow]) -> dict[str, int]:
    """Return how many labels first occurred in each month; falling numbers mean little is left to learn."""
    first: dict[str, str] = {}
    for row in sorted((row for row in rows if row.time and row.verdict == "labelled"), key=lambda row: row.time):
        first.setdefault(row.label, row.time[:7])
    return dict(sorted(Counter(first.values()).items()))


def _render_months(counted: Mapping[str, int]) -> str:
    most = max(counted.values(), default=1)
    lines = [f"    {month} {'█' * max(1, MAX_BAR_CHARS * times // most)} {times}" for month, times in counted.items()]
    return (
        "\n".join(("## Labels met for the first time, by month", "", f"![the same as a picture]({MONTHS_CHART_FILE})", "", *lines))
        if lines
        else ""
    )


def _render_list(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    rest = [f"- and {len(lines) - MAX_LISTED_ROWS} more"] if len(lines) > MAX_LISTED_ROWS else []
    return "\n".join((f"## {title}", "", *(f"- {line}" for line in lines[:MAX_LISTED_ROWS]), *rest))


def _render_doubtful_row(row: LabelledRow) -> str:
    labels = ", ".join(f"`{label}`" for label in (row.label, *row.others))
    return f"{escape_markdown(row.id)} “{escape_markdown(row.title)}”: {escape_markdown(row.why)}; nearest {labels} ({_format_confidence(row)})"


def _render_sample_row(row: LabelledRow) -> str:
    speaker = f" ({escape_markdown(row.said_by)})" if row.said_by else ""
    return f"{escape_markdown(row.id)} “{escape_markdown(row.title)}”: `{row.label}` {_format_confidence(row)}; “{escape_markdown(row.root_cause)}”{speaker}"


def _format_confidence(row: LabelledRow) -> str:
    if row.by:
        return f"by {escape_markdown(row.by)}{f' ({escape_markdown(row.why)})' if row.why else ''}"
    return f"{row.confidence:.0%}" if row.confidence else f"({escape_markdown(row.why)})"
