"""Row labellers: rules, or a model within a budget announced before the first request."""

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from bot.cli.command_runtime import print_text
from bot.refusal import Refusal
from bot.settings import Settings
from graph.learning.rule_labelling import LabelledRow, RuleLabeller
from kb.exports.row import ExportRow, UnreadRow

if TYPE_CHECKING:
    from bot.cli.kb.build_command import ModelOptions
    from graph.learning.model_labelling import ModelLabeller
    from graph.model.client import ModelReasoner

MAX_CONCURRENT_QUESTIONS = 8  # concurrent model requests
JOURNAL_WINDOW_ROWS = 64  # rows per journal write
_PROGRESS_INTERVAL_SECONDS: Final = 5.0


class RowLabeller(Protocol):
    """Labels a build's rows.

    Attributes:
        name: keeps another labeller from resuming the build.
        window: rows taken at once.
        total: expected rows; 0 if not counted.
        paid: cost so far.
    """

    name: str
    window: int
    total: int

    def estimate_work(self, rows: Iterable[ExportRow | UnreadRow]) -> None:
        """Estimate the cost. Raises Refusal above the budget."""

    def label_rows(self, rows: Sequence[ExportRow]) -> list[LabelledRow]: ...

    @property
    def paid(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class RulesRowLabeller:
    labeller: RuleLabeller
    name: str = "rules"
    window: int = 1
    total: int = 0

    def estimate_work(self, rows: Iterable[ExportRow | UnreadRow]) -> None:
        if sys.stderr.isatty():  # counting reads all rows once more
            self.total = sum(isinstance(row, ExportRow) and not row.guide for row in rows)

    def label_rows(self, rows: Sequence[ExportRow]) -> list[LabelledRow]:
        return [self.labeller.label_row(row) for row in rows]

    @property
    def paid(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


@dataclass(slots=True)
class ModelRowLabeller:
    """A model with one budget per build; declined rows are labelled by rules."""

    asked: "ModelLabeller"
    model: "ModelReasoner"
    most_usd: float
    free: bool  # answers come from a recording only
    name: str
    window: int = JOURNAL_WINDOW_ROWS
    total: int = 0
    _runner: asyncio.Runner = field(default_factory=asyncio.Runner)

    def estimate_work(self, rows: Iterable[ExportRow | UnreadRow]) -> None:
        from graph.learning.model_labelling import ANSWER_TOKENS, estimate_question_tokens, get_label_titles
        from graph.model.budget import find_price

        labels, tokens = get_label_titles(self.asked.rules), 0
        for row in rows:
            if isinstance(row, ExportRow) and not row.guide:
                self.total += 1
                tokens += estimate_question_tokens(row, labels)
        usd = find_price(self.asked.name).compute_usd(tokens, ANSWER_TOKENS * self.total)
        estimate = f"{self.total} rows, about {tokens / 1000:,.0f} thousand tokens, at most about ${usd:.2f} at {self.asked.name}"
        if usd > self.most_usd and not self.free:
            raise Refusal(f"{estimate}: more than --most-usd {self.most_usd:g}; raise it, or build without --model", 2)
        if not self.free:
            print_text(estimate, err=True)

    def label_rows(self, rows: Sequence[ExportRow]) -> list[LabelledRow]:
        return self._runner.run(self.asked.label_rows(rows))

    @property
    def paid(self) -> dict[str, Any]:
        spent = self.asked.spend
        usd = 0.0 if self.free else round(spent.usd, 4)
        bill = {
            "name": self.asked.name,
            "questions": spent.calls,
            "tokens_in": spent.tokens_in,
            "tokens_out": spent.tokens_out,
            "usd": usd,
        }
        return {**bill, "declined": dict(self.asked.declined)}

    def close(self) -> None:
        with self._runner:
            self._runner.run(self.model.aclose())


def open_row_labeller(labeller: RuleLabeller, settings: Settings, asked: "ModelOptions | None") -> RowLabeller:
    """Return the labeller. Raises Refusal if no model is set."""
    if asked is None:
        return RulesRowLabeller(labeller)
    from graph.learning.model_labelling import ModelLabeller
    from graph.model.budget import Budget
    from graph.model.client import open_model
    from graph.model.prompts import load_prompt
    from graph.model.recording import BadRecording

    url, key = (settings.model_url, settings.model_api_key.get_secret_value()) if asked.live else ("", "")
    if asked.live and not (url or key):
        raise Refusal("--model: no model is set; name one with RACKMEDIC_MODEL_URL or RACKMEDIC_MODEL_API_KEY, or --replay a recording", 2)
    budget = Budget(calls=sys.maxsize, tokens=sys.maxsize, usd=asked.most_usd if asked.live else float("inf"))
    try:
        model = open_model(
            url,
            key,
            settings.model_name,
            seconds=settings.model_seconds,
            budget=budget,
            recording=asked.recording,
            context=settings.model_context,
        )
    except BadRecording as error:
        raise Refusal(str(error), 2) from error
    assert model is not None
    name = f"{settings.model_name}, question {load_prompt('label').version}"
    return ModelRowLabeller(
        ModelLabeller(labeller, model, settings.model_name, MAX_CONCURRENT_QUESTIONS), model, asked.most_usd, not asked.live, name
    )


def format_model_bill(paid: Mapping[str, Any]) -> list[str]:
    if not paid:
        return []
    tokens = f"{paid['tokens_in']:,} tokens in, {paid['tokens_out']:,} out"
    first = f"{paid['name']}: {paid['questions']} questions, {tokens}, ${paid['usd']:.2f}"
    return [
        first,
        *(f"  {times} rows by rules: {reason}" for reason, times in sorted(paid["declined"].items(), key=lambda one: -one[1])[:10]),
    ]


@dataclass(slots=True)
class BuildProgress:
    total: int = 0
    _began: float = field(default_factory=time.monotonic)
    _told: float = field(default_factory=time.monotonic)
    _first: int = -1

    def report_rows(self, rows: int) -> None:
        now = time.monotonic()
        if self._first < 0:
            self._first = rows  # rows of an interrupted build took no time
        if sys.stderr.isatty() and now - self._told > _PROGRESS_INTERVAL_SECONDS:
            self._told = now
            print_text(format_progress_line(rows, self.total, (rows - self._first) / (now - self._began)), err=True)


def format_progress_line(rows: int, total: int, speed: float) -> str:
    """Return `1,200 of 10,000 rows, 38 a second, 4 min left`."""
    seconds_left = (total - rows) / speed if total and speed else 0.0
    ends = f"{seconds_left / 60:.0f} min left" if seconds_left >= 90 else f"{seconds_left:.0f} s left"
    return f"{rows:,}{f' of {total:,}' if total else ''} rows, {speed:.0f} a second{f', {ends}' if seconds_left else ''}"
