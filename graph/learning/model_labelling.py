"""Label past incidents with a model, which chooses among causes and numbered sentences.

A row keeps the label of the rules, with the reason, if the model declines or its answer cannot be parsed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from graph.learning.rule_labelling import MAX_QUOTE_CHARS, LabelledRow, RuleLabeller, split_sentences
from graph.learning.thread_contents import MAX_PER_KIND, MAX_SENTENCE_CHARS
from graph.model.budget import estimate_tokens
from graph.model.client import build_past_question
from graph.model.reasoner import DeclinedAnswer, ModelSpend, PastGuess, PastLabeller
from kb.exports.row import ExportRow
from kb.schema import squash_blanks

BUDGET_ID: Final = "kb build"
MAX_HEAD_CHARS = 3_000  # characters shown from a thread's start
MAX_TAIL_CHARS = 9_000  # characters shown from its end, where the cause is mostly stated
ANSWER_TOKENS: Final = 250  # Tokens of an answer, for the estimate.


@dataclass(slots=True)
class ModelLabeller:
    """Labeller that asks a model about rows that the rules cannot decide.

    Attributes:
        max_concurrent: Questions asked at a time.
        declined: Count of each reason why a row kept the label of the rules.
    """

    rules: RuleLabeller
    model: PastLabeller
    name: str
    max_concurrent: int = 8
    declined: dict[str, int] = field(default_factory=dict)

    async def label_rows(self, rows: Sequence[ExportRow]) -> list[LabelledRow]:
        semaphore = asyncio.Semaphore(self.max_concurrent)

        async def label_when_free(row: ExportRow) -> LabelledRow:
            async with semaphore:
                return await self._label_row(row)

        return list(await asyncio.gather(*map(label_when_free, rows)))

    async def _label_row(self, row: ExportRow) -> LabelledRow:
        labelled_row = await asyncio.to_thread(self.rules.label_row, row)
        if not needs_model(row, labelled_row, self.rules):
            return labelled_row
        sentences = select_sentences(row)
        guess = await self.model.label_past_incident(
            BUDGET_ID, format_opening(row), [words for words, _ in sentences], get_label_titles(self.rules)
        )
        if isinstance(guess, DeclinedAnswer):
            self.declined[guess.reason] = self.declined.get(guess.reason, 0) + 1
            reasons = [reason for reason in (labelled_row.why, f"by rules: {guess.reason}") if reason]
            return replace(labelled_row, why="; ".join(reasons))
        return apply_guess(labelled_row, guess, sentences, self.name)

    @property
    def spend(self) -> ModelSpend:
        return self.model.get_spend(BUDGET_ID)


def needs_model(row: ExportRow, labelled_row: LabelledRow, rules: RuleLabeller) -> bool:
    """Return whether the model must be asked: the row says enough and the export names no label of the taxonomy."""
    return labelled_row.verdict != "dropped" and row.label not in rules.taxonomy.leaves


def get_label_titles(rules: RuleLabeller) -> Mapping[str, str]:
    return {label: leaf.title for label, leaf in rules.taxonomy.leaves.items()}


def format_opening(row: ExportRow) -> str:
    """Return the title and the first message, which the model sees in full."""
    return f"{row.title}\n{row.messages[0].text if row.messages else ''}"


def select_sentences(row: ExportRow) -> list[tuple[str, str]]:
    """Return the sentences to choose from with their authors: of a long thread only its start and its end."""
    sentences = split_sentences(row)
    sentences += [(squash_blanks(text)[:MAX_QUOTE_CHARS], "") for text in (row.root_cause, row.resolution) if text]
    head = _select_first(sentences, MAX_HEAD_CHARS)
    tail = _select_first(sentences[len(head) :][::-1], MAX_TAIL_CHARS)
    return [*head, *tail[::-1]]


def _select_first(sentences: Sequence[tuple[str, str]], max_chars: int) -> list[tuple[str, str]]:
    selection: list[tuple[str, str]] = []
    char_count = 0
    for sentence, author in sentences:
        char_count += len(sentence)
        if char_count > max_chars:
            break
        selection.append((sentence, author))
    return selection


def apply_guess(labelled_row: LabelledRow, guess: PastGuess, sentences: Sequence[tuple[str, str]], model_name: str) -> LabelledRow:
    """Return the row with the model's choices. The row is doubtful if no sentence states the cause."""
    if not guess.relevant:
        return LabelledRow(labelled_row.id, "dropped", f"no incident, says {model_name}", labelled_row.title)
    cause, speaker = sentences[guess.cause] if guess.cause >= 0 else (labelled_row.root_cause, labelled_row.said_by)
    fix = sentences[guess.fix][0] if guess.fix >= 0 else labelled_row.resolution
    lasting_facts = tuple(squash_blanks(sentences[index][0])[:MAX_SENTENCE_CHARS] for index in guess.lasting)[:MAX_PER_KIND]
    row = replace(
        labelled_row,
        root_cause=cause,
        said_by=speaker,
        resolution=fix,
        description=guess.summary or labelled_row.description,
        by=model_name,
        used=replace(labelled_row.used, lasting=lasting_facts),
    )
    if not guess.label:
        return replace(
            row,
            verdict="doubtful",
            why=f"no label that there is comes near, says {model_name}",
            named=guess.title or row.named,
            branch=guess.branch,
            by=model_name if guess.title else "",
        )
    rule_labels = (labelled_row.label, *labelled_row.others)
    other_labels = tuple(label for label in rule_labels if label != guess.label)[:2]
    row = replace(row, label=guess.label, others=other_labels, confidence=0.0)
    if not cause:
        return replace(row, verdict="doubtful", why="nobody says what the cause was")
    return replace(row, verdict="labelled", why="" if guess.label in rule_labels else f"by words it would be {labelled_row.label}")


def estimate_question_tokens(row: ExportRow, labels: Mapping[str, str]) -> int:
    return estimate_tokens(build_past_question(format_opening(row), [words for words, _ in select_sentences(row)], labels).size)
