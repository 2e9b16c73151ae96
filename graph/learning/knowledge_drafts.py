"""New causes, checks and pages from an export, and `REVIEW.md`, in which a person reviews them. Pure. All text is untrusted."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from graph.learning.cause_discovery import CauseDiscovery, MergedName, NewCause, find_shared_words
from graph.learning.rule_labelling import LabelledRow
from kb.redact import show_invisible
from kb.taxonomy.taxonomy import CATEGORIES, Taxonomy
from tools.checks.check_types import Check

# Third and fourth pass over an export: new causes as leaves, typed commands as checks, lasting facts as pages.
#
# All are drafts in the format of a site's folder. No drafted clue is decisive, so a build can order checks but never
# prove a cause.

CLUE_WEIGHT: Final = 3.0
MIN_CLUE_SHARE = 2 / 3  # Share of a cause's threads that quote a clue
MAX_OTHER_SHARE = 0.1  # largest share of other threads
MIN_COMMAND_THREADS: Final = 2  # Threads with a command before it is drafted as a check.
MAX_PAGE_SENTENCES: Final = 40
_PLAIN_VALUE_PATTERN: Final = re.compile(r"[A-Za-z0-9_.:-]{1,60}")


def draft_leaves(new: Sequence[NewCause], rows: Sequence[LabelledRow], taxonomy: Taxonomy, checks: Mapping[str, Check]) -> dict[str, Any]:
    """Return category → content of a taxonomy file."""
    files: dict[str, Any] = {}
    for cause in new:
        category, branch, name = cause.label.split(".", 2)
        file = files.setdefault(category, {"category": category, "branches": {}, "leaves": {}})
        if f"{category}.{branch}" not in taxonomy.branches:
            file["branches"][branch] = branch.replace("_", " ").capitalize()
        file["leaves"][f"{branch}.{name}"] = _draft_leaf(cause, rows, taxonomy, checks)
    return {name: {key: part for key, part in file.items() if part} for name, file in files.items() if name in CATEGORIES}


def draft_checks(rows: Sequence[LabelledRow], known: Mapping[str, Check]) -> list[dict[str, Any]]:
    """Return a check per read-only command that several threads typed and no check runs. Its lines are shown unparsed."""
    typed = Counter(command for row in rows for command in row.used.commands)
    check_by_name: dict[str, dict[str, Any]] = {}
    for command, times in typed.items():
        name = re.sub(r"[^a-z0-9]+", "_", command.lower()).strip("_")[:32].rstrip("_")
        if times >= MIN_COMMAND_THREADS and re.fullmatch(r"[a-z][a-z0-9_]{1,31}", name) and name not in known and name not in check_by_name:
            check_by_name[name] = {
                "id": name,
                "asks": f"What does {command} say? People of {times} past incidents typed it.",
                "command": command.split(),
                "timeout": 20,
                "cap_bytes": 65536,
                "facts": [{"key": f"site.{name}", "kind": "str", "regex": "^(?P<value>.{1,200})$"}],
            }
    return [check_by_name[name] for name in sorted(check_by_name)]


def draft_pages(rows: Sequence[LabelledRow], taxonomy: Mapping[str, str]) -> dict[str, str]:
    """Return page name → lasting facts of one label's threads. `taxonomy`: label → title."""
    rows_by_label: dict[str, list[LabelledRow]] = {}
    for row in rows:
        if row.verdict == "labelled" and row.used.lasting:
            rows_by_label.setdefault(row.label, []).append(row)
    return {
        f"threads-{_slugify_label(label)}": _render_page(label, taxonomy.get(label, label), label_rows)
        for label, label_rows in sorted(rows_by_label.items())
    }


def find_common_checks(rows: Iterable[LabelledRow]) -> dict[str, tuple[str, int, int]]:
    """Return label or branch → (most used check, threads with it, all threads)."""
    counts_by_check: dict[str, Counter[str]] = {}
    all_of: Counter[str] = Counter()
    for row in rows:
        if row.verdict == "labelled":
            for name in (row.label, row.label.rpartition(".")[0]):
                all_of[name] += 1
                counts_by_check.setdefault(name, Counter()).update(row.used.looks)
    return {name: (*checks.most_common(1)[0], all_of[name]) for name, checks in sorted(counts_by_check.items()) if checks}


def _draft_leaf(cause: NewCause, rows: Sequence[LabelledRow], taxonomy: Taxonomy, checks: Mapping[str, Check]) -> dict[str, Any]:
    near_leaves = [taxonomy.leaves[row.others[0]] for row in cause.of if row.others and row.others[0] in taxonomy.leaves]
    symptoms = [one for one, _ in Counter(symptom for row in cause.of for symptom in row.used.symptoms).most_common(3)]
    clue = _draft_clue(cause, rows, checks)
    return {
        "title": cause.title,
        "description": " ".join(dict.fromkeys(row.root_cause for row in cause.of[:3])),
        "scope": _find_most_common(one.scope for one in near_leaves) or "node",
        "owner": _find_most_common(one.owner for one in near_leaves) or "provider",
        "symptoms": symptoms or ["vague"],
        "words": find_shared_words(cause.of) or [cause.title.lower()],
        **(clue or {"only_words": True}),
        "next_step": _draft_next_step(cause),
        "share": round(min(0.05, max(0.002, len(cause.of) / max(len(rows), 1))), 4),
        "share_from": f"{len(cause.of)} of {len(rows)} incidents of one build",
        "sources": list(dict.fromkeys(row.url or row.id for row in cause.of))[:5],
    }


def _draft_clue(cause: NewCause, rows: Sequence[LabelledRow], checks: Mapping[str, Check]) -> dict[str, Any]:
    """Return the error that most of its threads and few others quote, with the check that shows it."""
    own_ids = {row.id for row in cause.of}
    quoted = Counter(error for row in cause.of for error in row.used.errors)
    other_rows = [row for row in rows if row.id not in own_ids]
    for error, times in sorted(quoted.items(), key=lambda one: (-one[1], one[0])):
        key, _, value = error.partition("=")
        look = next((name for name, check in checks.items() if key in check.establishes and not check.exclusive), "")
        elsewhere = sum(error in row.used.errors for row in other_rows)
        if (
            look
            and times >= max(2, MIN_CLUE_SHARE * len(cause.of))
            and elsewhere <= MAX_OTHER_SHARE * len(other_rows)
            and _PLAIN_VALUE_PATTERN.fullmatch(value)
        ):
            when = f"value == {value}" if value.isdigit() else f"value == '{value}'"
            row = {"id": "quoted", "key": key, "when": when, "weight": CLUE_WEIGHT, "says": f"{value}, as {times} past incidents quote"}
            return {
                "evidence": [row],
                "checks": [look],
                "remedies": ["none"],
                "customer_words": "This was seen before; our people look at it.",
            }
    return {}


def _draft_next_step(cause: NewCause) -> str:
    typed = Counter(command for row in cause.of for command in row.used.commands).most_common(1)
    next_step = next((sentence for row in cause.of for sentence in row.used.told), "")
    if typed and typed[0][1] >= MIN_COMMAND_THREADS:
        return f"Look at what {typed[0][0]} says."
    return next_step or f"Compare it with {', '.join(row.id for row in cause.of[:3])}; no look of ours shows it."


def _render_page(label: str, title: str, rows: Sequence[LabelledRow]) -> str:
    facts = dict.fromkeys((sentence, row.id) for row in rows for sentence in row.used.lasting)
    thread_by_sentence = dict.fromkeys((sentence, row.id) for row in rows for sentence in row.used.told)
    head = ["---", f"title: {' '.join(title.split())}: what threads say", f"labels: {label}", f"source: {len(rows)} past incidents", "---"]
    lines = [f"- {sentence} ({name})" for sentence, name in list(facts)[:MAX_PAGE_SENTENCES]]
    check_lines = [f"- {sentence} ({name})" for sentence, name in list(thread_by_sentence)[: MAX_PAGE_SENTENCES // 2]]
    return "\n".join([*head, *lines, *(["", "Where people looked:", "", *check_lines] if check_lines else [])]) + "\n"


def _slugify_label(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def _find_most_common(found: Iterable[str]) -> str:
    counts = Counter(found)
    return min(counts, key=lambda one: (-counts[one], one)) if counts else ""


# Render `REVIEW.md` of a build, for review before use. Pure. All text is untrusted and escaped.

MONTHS_CHART_FILE: Final = "labels-by-month.png"
MAX_LISTED_ROWS = 500  # Rows of a list
SAMPLE_ROWS = 50  # rows sampled to check labels
MAX_BAR_CHARS = 40  # characters of the longest bar
_MARKDOWN_PATTERN: Final = re.compile(r"([\\`*_{}\[\]()#+!|~$&<>@:-])")


def render_review(grown: CauseDiscovery, unread: Sequence[str], titles: Mapping[str, str], seed: str) -> str:
    """Return the page. `titles` includes new labels; the same `seed` draws the same sample."""
    rows = grown.rows
    rows_by_verdict = {verdict: [row for row in rows if row.verdict == verdict] for verdict in ("labelled", "doubtful", "dropped")}
    sample = random.Random(seed).sample(rows_by_verdict["labelled"], min(SAMPLE_ROWS, len(rows_by_verdict["labelled"])))  # noqa: S311  # no secret
    parts = [
        "# What was built, to be looked at before it is used",
        (
            f"{len(rows)} rows were read: {len(rows_by_verdict['labelled'])} labelled, {len(rows_by_verdict['doubtful'])} doubtful, {len(rows_by_verdict['dropped'])} dropped; "
            f"{len(unread)} could not be read. {_format_label_sources(rows)} causes are sentences of the threads."
        ),
        _render_list("New causes: drafts, each to be accepted or refused", [_render_new_cause(cause) for cause in grown.new]),
        _render_list("Names that are a cause already", [_render_merged_name(one, titles) for one in grown.merged]),
        _render_label_counts(rows_by_verdict["labelled"], titles),
        _render_common_checks(rows, titles),
        _render_months(count_new_labels_by_month(rows)),
        _render_list("Doubtful: a person chooses", [_render_doubtful_row(row) for row in rows_by_verdict["doubtful"]]),
        _render_list("Dropped", [f"{escape_markdown(row.id)}: {row.why}" for row in rows_by_verdict["dropped"]]),
        _render_list("Could not be read", [escape_markdown(one) for one in unread]),
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
        f"| `{name}` | {escape_markdown(titles.get(name, ''))} | `{look}` | {times} of {of} |"
        for name, (look, times, of) in find_common_checks(rows).items()
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
