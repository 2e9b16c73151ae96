"""Label past incidents with a model, which chooses among causes and numbered sentences.

A row that the model declines or answers out of shape keeps the label of the rules, and says so.
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
HEAD_CHARS = 3_000  # characters shown from a thread's start
TAIL_CHARS = 9_000  # characters shown from its end; the cause is mostly stated late
ANSWER_TOKENS: Final = 250  # Tokens of an answer, for the estimate.


@dataclass(slots=True)
class ModelLabeller:
    """`most`: concurrent questions. `declined` counts the reasons why rows kept the rules' label."""

    rules: RuleLabeller
    model: PastLabeller
    name: str
    most: int = 8
    declined: dict[str, int] = field(default_factory=dict)

    async def label_rows(self, rows: Sequence[ExportRow]) -> list[LabelledRow]:
        turns = asyncio.Semaphore(self.most)

        async def one(row: ExportRow) -> LabelledRow:
            async with turns:
                return await self._label_row(row)

        return list(await asyncio.gather(*map(one, rows)))

    async def _label_row(self, row: ExportRow) -> LabelledRow:
        ruled = await asyncio.to_thread(self.rules.label_row, row)
        if not needs_model(row, ruled, self.rules):
            return ruled
        sentences = select_sentences(row)
        guess = await self.model.label_past_incident(
            BUDGET_ID, format_opening(row), [words for words, _ in sentences], get_label_titles(self.rules)
        )
        if isinstance(guess, DeclinedAnswer):
            self.declined[guess.reason] = self.declined.get(guess.reason, 0) + 1
            return replace(ruled, why="; ".join(filter(None, (ruled.why, f"by rules: {guess.reason}"))))
        return apply_guess(ruled, guess, sentences, self.name)

    @property
    def spend(self) -> ModelSpend:
        return self.model.get_spend(BUDGET_ID)


def needs_model(row: ExportRow, ruled: LabelledRow, rules: RuleLabeller) -> bool:
    """Rows that say too little or name a built-in label need none."""
    return ruled.verdict != "dropped" and row.label not in rules.taxonomy.leaves


def get_label_titles(rules: RuleLabeller) -> Mapping[str, str]:
    return {label: leaf.title for label, leaf in rules.taxonomy.leaves.items()}


def format_opening(row: ExportRow) -> str:
    """Return title and first message, which are shown whole."""
    return f"{row.title}\n{row.messages[0].text if row.messages else ''}"


def select_sentences(row: ExportRow) -> list[tuple[str, str]]:
    """Return the sentences to choose from with their authors; of a long thread its start and end."""
    sentences = split_sentences(row)
    sentences += [(squash_blanks(one)[:MAX_QUOTE_CHARS], "") for one in (row.root_cause, row.resolution) if one]
    head = _select_first(sentences, HEAD_CHARS)
    tail = _select_first(sentences[len(head) :][::-1], TAIL_CHARS)
    return [*head, *tail[::-1]]


def _select_first(said: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    selection: list[tuple[str, str]] = []
    for sentence in said:
        most -= len(sentence[0])
        if most < 0:
            break
        selection.append(sentence)
    return selection


def apply_guess(ruled: LabelledRow, guess: PastGuess, said: Sequence[tuple[str, str]], by: str) -> LabelledRow:
    """Return the row with the model's choices. It is doubtful if no sentence states the cause."""
    if not guess.relevant:
        return LabelledRow(ruled.id, "dropped", f"no incident, says {by}", ruled.title)
    cause, speaker = said[guess.cause] if guess.cause >= 0 else (ruled.root_cause, ruled.said_by)
    fix = said[guess.fix][0] if guess.fix >= 0 else ruled.resolution
    row = replace(ruled, root_cause=cause, said_by=speaker, resolution=fix, description=guess.summary or ruled.description, by=by)
    stays = tuple(squash_blanks(said[at][0])[:MAX_SENTENCE_CHARS] for at in guess.lasting)[:MAX_PER_KIND]
    row = replace(row, used=replace(row.used, lasting=stays), named=row.named if guess.label else guess.title or row.named)
    if not guess.label:
        reason = f"no label that there is comes near, says {by}"
        return replace(row, verdict="doubtful", why=reason, branch=guess.branch, by=by if guess.title else "")
    near_labels = (ruled.label, *ruled.others)
    row = replace(row, label=guess.label, others=tuple(one for one in near_labels if one != guess.label)[:2], confidence=0.0)
    if not cause:
        return replace(row, verdict="doubtful", why="nobody says what the cause was")
    return replace(row, verdict="labelled", why="" if guess.label in near_labels else f"by words it would be {ruled.label}")


def estimate_question_tokens(row: ExportRow, labels: Mapping[str, str]) -> int:
    return estimate_tokens(build_past_question(format_opening(row), [words for words, _ in select_sentences(row)], labels).size)
