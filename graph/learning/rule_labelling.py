"""First pass over an export: each past incident becomes labelled, doubtful or dropped, with a reason. It asks no model.

Rules find the sentence that states the cause. Words and quoted errors find the label. A person decides doubtful rows.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from graph.extraction.text_classifier import rank_labels_by_text
from graph.learning.thread_contents import NO_CONTENTS, UNKNOWN_TIME, ThreadContents, ThreadReader
from kb.exports.row import ExportRow
from kb.history.label_ranking import LabelRanker
from kb.history.text_search import extract_terms
from kb.schema import squash_blanks
from kb.taxonomy.taxonomy import Taxonomy
from tools.checks.check_types import Check

RowVerdict = Literal["labelled", "doubtful", "dropped"]
# Probability from which the nearest of more than a hundred labels is taken; below it a person chooses.
MIN_LABEL_SHARE: Final = 0.12
# Probability from which a guide belongs to one label. It is shown with every such cause, so a guess is worse than none.
MIN_GUIDE_SHARE: Final = 0.3
MIN_TERMS: Final = 6
MAX_READ_CHARS = 6_000  # characters of a message that are read
MAX_KEPT_CHARS = 600  # characters of a title or description that are kept
MAX_QUOTE_CHARS = 300  # characters of a quoted sentence
MAX_NAME_CHARS = 80  # characters of a cause's name
# How people state a cause, plainest first.
CAUSE_PATTERNS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\broot[ -]cause\b",
        r"\bturn(?:s|ed) out\b|\bculprit\b",
        r"\b(?:was|were|is|been) (?:caused by|due to)\b|\bthe (?:cause|problem|issue|reason) (?:was|is)\b",
        r"\bbecause\b|\bcaused by\b|\bdue to\b",
    )
)
FIX_PATTERNS: Final = (
    re.compile(r"\b(?:fixed|solved|resolved|cured|went away)\b", re.IGNORECASE),
    re.compile(r"\b(?:replac|reseat|reboot|upgrad|downgrad|restart|set)\w{0,3}\b", re.IGNORECASE),
)
_SENTENCE_END_PATTERN = re.compile(r"(?<=[.!?])\s|\n")


@dataclass(frozen=True, slots=True)
class LabelledRow:
    id: str
    verdict: RowVerdict
    why: str
    title: str
    time: str = ""
    url: str = ""
    label: str = ""  # The nearest label, also of a doubtful row.
    confidence: float = 0.0
    others: tuple[str, ...] = ()
    description: str = ""
    root_cause: str = ""  # As stated in the thread.
    said_by: str = ""
    resolution: str = ""
    check: str = ""
    by: str = ""  # The model that chose the label; empty for rules.
    named: str = ""  # The cause's name by the export or a model where no label fits.
    branch: str = ""  # Its `CATEGORY.BRANCH`; empty if not given.
    used: ThreadContents = NO_CONTENTS


@dataclass(frozen=True)
class RuleLabeller:
    taxonomy: Taxonomy
    ranker: LabelRanker
    checks: Mapping[str, Check]

    @cached_property
    def thread_reader(self) -> ThreadReader:
        return ThreadReader.from_checks(self.checks, self.taxonomy)

    def label_row(self, row: ExportRow) -> LabelledRow:
        """Label a row if its words are sure and the cause is stated; drop it if it says too little."""
        row_fields: dict[str, Any] = {
            "id": row.id,
            "title": squash_blanks(row.title)[:MAX_KEPT_CHARS],
            "time": row.time,
            "url": _sanitize_url(row.url),
        }
        if len(set(extract_terms(row.text))) < MIN_TERMS:
            return LabelledRow(**row_fields, verdict="dropped", why="says too little")
        if row.root_cause:
            cause, speaker = squash_blanks(row.root_cause)[:MAX_QUOTE_CHARS], ""
        else:
            cause, speaker = find_statement(row, CAUSE_PATTERNS)
        ranked = rank_labels_by_text(_build_label_text(row, cause), self.taxonomy, self.ranker, self.checks, UNKNOWN_TIME)[:3]
        label, confidence = ranked[0]
        is_labelled = row.label in self.taxonomy.leaves
        label = row.label if is_labelled else label
        contents = self.thread_reader.read_thread(row)
        row_fields |= {
            "label": label,
            "confidence": 1.0 if is_labelled else round(confidence, 4),
            "others": tuple(name for name, _ in ranked[1:]),
            "description": squash_blanks(" ".join(message.text for message in row.messages))[:MAX_KEPT_CHARS],
            "root_cause": cause,
            "said_by": speaker,
            "resolution": squash_blanks(row.resolution)[:MAX_QUOTE_CHARS] or find_statement(row, FIX_PATTERNS)[0],
            "check": row.check if row.check in self.checks else self._find_deciding_check(label, contents),
            "named": "" if is_labelled else squash_blanks(row.label)[:MAX_NAME_CHARS],
            "used": contents,
        }
        verdict, reason = self._decide_verdict(row, cause, confidence, has_known_label=is_labelled)
        return LabelledRow(**row_fields, verdict=verdict, why=reason)

    def find_guide_label(self, guide: ExportRow) -> str:
        """Return the label that a guide is about; empty for none or several."""
        label, confidence = rank_labels_by_text(_build_label_text(guide, ""), self.taxonomy, self.ranker, self.checks, UNKNOWN_TIME)[0]
        return label if confidence >= MIN_GUIDE_SHARE else ""

    def _find_deciding_check(self, label: str, contents: ThreadContents) -> str:
        return next((check for check in contents.looks if check in self.taxonomy.leaves[label].checks), "")

    def _decide_verdict(self, row: ExportRow, cause: str, confidence: float, *, has_known_label: bool) -> tuple[RowVerdict, str]:
        if not cause:
            return "doubtful", "nobody says what the cause was"
        if has_known_label:
            return "labelled", "the export names the label"
        if row.label:
            return "doubtful", f"the export calls it {row.label[:80]}, which is no label here"
        return ("labelled", "") if confidence >= MIN_LABEL_SHARE else ("doubtful", "no label is near enough")


def find_statement(row: ExportRow, patterns: tuple[re.Pattern[str], ...]) -> tuple[str, str]:
    """Return the sentence that matches the earliest pattern, and its author; the last such sentence, as it was written
    with the most knowledge. Both are empty if none matches.
    """
    sentences = split_sentences(row)
    for pattern in patterns:
        statements = [(sentence, author) for sentence, author in sentences if pattern.search(sentence) and "?" not in sentence[-2:]]
        if statements:
            return statements[-1]
    return "", ""


def split_sentences(row: ExportRow) -> list[tuple[str, str]]:
    """Return each sentence with its author."""
    return [
        (squash_blanks(part)[:MAX_QUOTE_CHARS], message.author)
        for message in row.messages
        for part in _SENTENCE_END_PATTERN.split(message.text[:MAX_READ_CHARS])
        if part.strip()
    ]


def _build_label_text(row: ExportRow, cause: str) -> str:
    first_message = row.messages[0].text[:MAX_READ_CHARS] if row.messages else ""
    return f"{row.title}\n{first_message}\n{cause}"


def _sanitize_url(url: str) -> str:
    is_safe = url.startswith("https://") and not set(url) & set(" \"'<>`")
    return url if is_safe else ""
