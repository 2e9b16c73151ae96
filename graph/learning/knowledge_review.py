"""Render a build's `REVIEW.md`, which people read before they use the build. All text is untrusted and escaped."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, get_args

from graph.learning.cause_discovery import CauseDiscovery, MergedName, NewCause
from graph.learning.knowledge_drafts import find_common_checks
from graph.learning.rule_labelling import LabelledRow, RowVerdict
from kb.redact import show_invisible

MONTHS_CHART_FILE: Final = "labels-by-month.png"
MAX_LISTED_LINES = 500  # lines of a list
SAMPLE_SIZE = 50  # threads sampled to check their labels
MAX_BAR_CHARS = 40  # characters of the longest bar
_MARKDOWN_PATTERN: Final = re.compile(r"([\\`*_{}\[\]()#+!|~$&<>@:-])")


def render_review(discovery: CauseDiscovery, unread: Sequence[str], titles: Mapping[str, str], seed: str) -> str:
    """Return the text of the page. `titles` includes those of new labels; the same `seed` draws the same sample."""
    threads = discovery.threads
    labelled, doubtful, dropped = ([thread for thread in threads if thread.verdict == verdict] for verdict in get_args(RowVerdict))
    sample = random.Random(seed).sample(labelled, min(SAMPLE_SIZE, len(labelled)))  # noqa: S311  # no secret
    parts = [
        "# What was built, to be looked at before it is used",
        (
            f"{len(threads)} rows were read: {len(labelled)} labelled, {len(doubtful)} doubtful, {len(dropped)} dropped; "
            f"{len(unread)} could not be read. {_format_label_sources(threads)} causes are sentences of the threads."
        ),
        _render_list("New causes: drafts, each to be accepted or refused", [_render_new_cause(cause) for cause in discovery.new_causes]),
        _render_list(
            "Names that are a cause already", [_render_merged_name(merged_name, titles) for merged_name in discovery.merged_names]
        ),
        _render_label_counts(labelled, titles),
        _render_common_checks(threads, titles),
        _render_months(count_new_labels_by_month(threads)),
        _render_list("Doubtful: a person chooses", [_render_doubtful_thread(thread) for thread in doubtful]),
        _render_list("Dropped", [f"{escape_markdown(thread.id)}: {thread.why}" for thread in dropped]),
        _render_list("Could not be read", [escape_markdown(line) for line in unread]),
        _render_list(
            f"{len(sample)} drawn by lot: is the label what the thread says?", [_render_sample_thread(thread) for thread in sample]
        ),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _format_label_sources(threads: Sequence[LabelledRow]) -> str:
    counts_by_source = Counter(thread.by for thread in threads if thread.by)
    rule_sources = "the nearest by words, quoted errors and past incidents"
    if not counts_by_source:
        return f"No model was asked: labels are {rule_sources},"
    sources = ", ".join(f"{escape_markdown(name)} chose {count}" for name, count in sorted(counts_by_source.items()))
    return f"Of the labels {sources}, the others are {rule_sources};"


def escape_markdown(text: str) -> str:
    return _MARKDOWN_PATTERN.sub(r"\\\1", " ".join(show_invisible(text).split()))


def _render_new_cause(cause: NewCause) -> str:
    thread_ids = ", ".join(escape_markdown(thread.id) for thread in cause.threads[:5])
    return f"`{cause.label}` {escape_markdown(cause.title)}: {escape_markdown(cause.why)}; {len(cause.threads)} incidents ({thread_ids})"


def _render_merged_name(merged_name: MergedName, titles: Mapping[str, str]) -> str:
    return f"“{escape_markdown(merged_name.name)}” is `{merged_name.label}` {escape_markdown(titles.get(merged_name.label, ''))}: {escape_markdown(merged_name.why)}"


def _render_common_checks(threads: Iterable[LabelledRow], titles: Mapping[str, str]) -> str:
    lines = [
        f"| `{name}` | {escape_markdown(titles.get(name, ''))} | `{check}` | {count} of {thread_count} |"
        for name, (check, count, thread_count) in find_common_checks(threads).items()
    ]
    head = (
        "## Looks that their people took, and that the bot can take",
        "",
        "| cause or branch | | look | incidents |",
        "|---|---|---|---|",
    )
    return "\n".join((*head, *lines)) if lines else ""


def _render_label_counts(threads: Iterable[LabelledRow], titles: Mapping[str, str]) -> str:
    counts_by_label = Counter(thread.label for thread in threads)
    lines = [f"| `{label}` | {escape_markdown(titles.get(label, label))} | {count} |" for label, count in sorted(counts_by_label.items())]
    return "\n".join(("## Labels", "", "| label | what it is | incidents |", "|---|---|---|", *lines)) if lines else ""


def count_new_labels_by_month(threads: Iterable[LabelledRow]) -> dict[str, int]:
    """Return how many labels first occurred in each month. Falling numbers mean that little is left to learn."""
    first_months: dict[str, str] = {}
    for thread in sorted((thread for thread in threads if thread.time and thread.verdict == "labelled"), key=lambda thread: thread.time):
        first_months.setdefault(thread.label, thread.time[:7])
    return dict(sorted(Counter(first_months.values()).items()))


def _render_months(counts_by_month: Mapping[str, int]) -> str:
    max_count = max(counts_by_month.values(), default=1)
    lines = [f"    {month} {'█' * max(1, MAX_BAR_CHARS * count // max_count)} {count}" for month, count in counts_by_month.items()]
    if not lines:
        return ""
    return "\n".join(("## Labels met for the first time, by month", "", f"![the same as a picture]({MONTHS_CHART_FILE})", "", *lines))


def _render_list(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    remainder = [f"- and {len(lines) - MAX_LISTED_LINES} more"] if len(lines) > MAX_LISTED_LINES else []
    return "\n".join((f"## {title}", "", *(f"- {line}" for line in lines[:MAX_LISTED_LINES]), *remainder))


def _render_doubtful_thread(thread: LabelledRow) -> str:
    labels = ", ".join(f"`{label}`" for label in (thread.label, *thread.others))
    return f"{escape_markdown(thread.id)} “{escape_markdown(thread.title)}”: {escape_markdown(thread.why)}; nearest {labels} ({_format_confidence(thread)})"


def _render_sample_thread(thread: LabelledRow) -> str:
    speaker = f" ({escape_markdown(thread.said_by)})" if thread.said_by else ""
    return f"{escape_markdown(thread.id)} “{escape_markdown(thread.title)}”: `{thread.label}` {_format_confidence(thread)}; “{escape_markdown(thread.root_cause)}”{speaker}"


def _format_confidence(thread: LabelledRow) -> str:
    if thread.by:
        return f"by {escape_markdown(thread.by)}{f' ({escape_markdown(thread.why)})' if thread.why else ''}"
    return f"{thread.confidence:.0%}" if thread.confidence else f"({escape_markdown(thread.why)})"
