"""Label the rows of a build by rules, or by a model whose cost is estimated and announced before its first request."""

import asyncio
import sys
import time
from collections import Counter
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

MAX_CONCURRENT_QUESTIONS = 8
JOURNAL_WINDOW_ROWS = 64  # rows per journal write
MAX_DECLINED_REASONS = 10  # printed after a build
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

    def label_rows(self, export_rows: Sequence[ExportRow]) -> list[LabelledRow]: ...

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

    def label_rows(self, export_rows: Sequence[ExportRow]) -> list[LabelledRow]:
        return [self.labeller.label_row(row) for row in export_rows]

    @property
    def paid(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


@dataclass(slots=True)
class ModelRowLabeller:
    """Labels by a model with one budget for the build. Rows that the model declines are labelled by rules."""

    labeller: "ModelLabeller"
    model: "ModelReasoner"
    most_usd: float
    is_free: bool  # all answers come from a recording
    name: str
    window: int = JOURNAL_WINDOW_ROWS
    total: int = 0
    _runner: asyncio.Runner = field(default_factory=asyncio.Runner)

    def estimate_work(self, rows: Iterable[ExportRow | UnreadRow]) -> None:
        from graph.learning.model_labelling import ANSWER_TOKENS, estimate_question_tokens, get_label_titles
        from graph.model.budget import find_price

        labels, tokens = get_label_titles(self.labeller.rules), 0
        for row in rows:
            if isinstance(row, ExportRow) and not row.guide:
                self.total += 1
                tokens += estimate_question_tokens(row, labels)
        usd = find_price(self.labeller.name).compute_usd(tokens, ANSWER_TOKENS * self.total)
        estimate = f"{self.total} rows, about {tokens / 1000:,.0f} thousand tokens, at most about ${usd:.2f} at {self.labeller.name}"
        if usd > self.most_usd and not self.is_free:
            raise Refusal(f"{estimate}: more than --most-usd {self.most_usd:g}; raise it, or build without --model", 2)
        if not self.is_free:
            print_text(estimate, err=True)

    def label_rows(self, export_rows: Sequence[ExportRow]) -> list[LabelledRow]:
        return self._runner.run(self.labeller.label_rows(export_rows))

    @property
    def paid(self) -> dict[str, Any]:
        spent = self.labeller.spend
        usd = 0.0 if self.is_free else round(spent.usd, 4)
        bill = {
            "name": self.labeller.name,
            "questions": spent.calls,
            "tokens_in": spent.tokens_in,
            "tokens_out": spent.tokens_out,
            "usd": usd,
        }
        return {**bill, "declined": dict(self.labeller.declined)}

    def close(self) -> None:
        with self._runner:
            self._runner.run(self.model.aclose())


def open_row_labeller(labeller: RuleLabeller, settings: Settings, model_options: "ModelOptions | None") -> RowLabeller:
    """Return the labeller. Raises Refusal if a model is wanted and none is set."""
    if model_options is None:
        return RulesRowLabeller(labeller)
    from graph.learning.model_labelling import ModelLabeller
    from graph.model.budget import Budget
    from graph.model.client import open_model
    from graph.model.prompts import load_prompt
    from graph.model.recording import BadRecording

    url, key = (settings.model_url, settings.model_api_key.get_secret_value()) if model_options.live else ("", "")
    if model_options.live and not (url or key):
        raise Refusal("--model: no model is set; name one with RACKMEDIC_MODEL_URL or RACKMEDIC_MODEL_API_KEY, or --replay a recording", 2)
    budget = Budget(calls=sys.maxsize, tokens=sys.maxsize, usd=model_options.most_usd if model_options.live else float("inf"))
    try:
        model = open_model(
            url,
            key,
            settings.model_name,
            seconds=settings.model_seconds,
            budget=budget,
            recording=model_options.recording,
            context=settings.model_context,
            output_tokens=settings.model_output_tokens,
        )
    except BadRecording as error:
        raise Refusal(str(error), 2) from error
    assert model is not None
    name = f"{settings.model_name}, question {load_prompt('label').version}"
    return ModelRowLabeller(
        ModelLabeller(labeller, model, settings.model_name, MAX_CONCURRENT_QUESTIONS),
        model,
        model_options.most_usd,
        not model_options.live,
        name,
    )


def format_model_bill(paid: Mapping[str, Any]) -> list[str]:
    if not paid:
        return []
    tokens = f"{paid['tokens_in']:,} tokens in, {paid['tokens_out']:,} out"
    commonest_reasons = Counter(paid["declined"]).most_common(MAX_DECLINED_REASONS)
    return [
        f"{paid['name']}: {paid['questions']} questions, {tokens}, ${paid['usd']:.2f}",
        *(f"  {count} rows by rules: {reason}" for reason, count in commonest_reasons),
    ]


@dataclass(slots=True)
class BuildProgress:
    """Prints the progress of a build to a terminal, every few seconds."""

    total: int = 0
    _started_at: float = field(default_factory=time.monotonic)
    _printed_at: float = field(default_factory=time.monotonic)
    _resumed_rows: int = -1  # rows of an interrupted build, which took no time; -1 until known

    def report_rows(self, rows: int) -> None:
        now = time.monotonic()
        if self._resumed_rows < 0:
            self._resumed_rows = rows
        if sys.stderr.isatty() and now - self._printed_at > _PROGRESS_INTERVAL_SECONDS:
            self._printed_at = now
            rows_per_second = (rows - self._resumed_rows) / (now - self._started_at)
            print_text(format_progress_line(rows, self.total, rows_per_second), err=True)


def format_progress_line(rows: int, total: int, rows_per_second: float) -> str:
    """Return for example `1,200 of 10,000 rows, 38 a second, 4 min left`. Without a total the time left is not known."""
    count = f"{rows:,} of {total:,}" if total else f"{rows:,}"
    line = f"{count} rows, {rows_per_second:.0f} a second"
    seconds_left = (total - rows) / rows_per_second if total and rows_per_second else 0.0
    if not seconds_left:
        return line
    return f"{line}, {seconds_left / 60:.0f} min left" if seconds_left >= 90 else f"{line}, {seconds_left:.0f} s left"
