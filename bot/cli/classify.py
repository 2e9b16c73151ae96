"""`rackmedic classify`: rank the labels of a text. Reads no host."""

import json
from datetime import UTC, datetime

from rich.text import Text

from bot.app.diagnosis_runtime import build_model
from bot.app.site_files import load_all_checks, load_site_incidents, load_site_taxonomy
from bot.cli.command_runtime import print_text
from bot.cli.safe_console import build_text_table, open_table_console
from bot.settings import Settings
from graph.extraction.text_classifier import blend_rankings, matches_nothing, rank_labels_by_text
from graph.model.reasoner import DeclinedAnswer, PromptMaterial, ReadingChoices, ReportExtraction
from kb.history.label_ranking import LabelRanker
from kb.redact import redact
from kb.taxonomy.taxonomy import Taxonomy

MODEL_BUDGET_KEY = "classify"
NO_MATCH_TEXT = (
    "Nothing in this text matches a cause that I know: it names no symptom and quotes no error. Add what fails, or a line of a log."
)


async def classify_text(settings: Settings, text: str, max_labels: int, *, as_json: bool, by_rules: bool = False) -> int:
    """Print a ranking. Raises Refusal for unusable site files."""
    taxonomy, redacted_text = load_site_taxonomy(settings.kb_dir), redact(text)
    nearest = LabelRanker.build(taxonomy, load_site_incidents(settings.kb_dir, taxonomy))
    checks, now = load_all_checks(settings), datetime.now(UTC)
    ranked = rank_labels_by_text(redacted_text, taxonomy, nearest, checks, now)
    reading = None if by_rules else await _read_with_model(settings, redacted_text, taxonomy)
    nothing = not isinstance(reading, ReportExtraction) and matches_nothing(redacted_text, ranked, taxonomy, checks, now)
    if isinstance(reading, ReportExtraction):
        ranked = blend_rankings(ranked, reading.causes, fits_none=bool(reading.outside))
    without = reading.reason if isinstance(reading, DeclinedAnswer) else ""
    if as_json:
        print_text(
            json.dumps(
                {
                    "schema": 1,
                    "matches": not nothing,
                    "labels": [{"label": label, "p": round(p, 6)} for label, p in ranked[:max_labels]],
                    **_build_model_fields(reading, without),
                }
            )
        )
        return 0
    if nothing:
        print_text(NO_MATCH_TEXT)
    else:
        _print_ranking(ranked[:max_labels], taxonomy, reading, without)
    return 0


async def _read_with_model(settings: Settings, said: str, taxonomy: Taxonomy) -> ReportExtraction | DeclinedAnswer | None:
    model = build_model(settings, None)
    if model is None:
        return None
    try:
        titles = {label: taxonomy.get_title(label) for label in taxonomy.leaves}
        return await model.extract_report(MODEL_BUDGET_KEY, PromptMaterial(said), ReadingChoices((), titles))
    finally:
        await model.aclose()


def _build_model_fields(reading: ReportExtraction | DeclinedAnswer | None, without: str) -> dict[str, str]:
    if isinstance(reading, ReportExtraction):
        return {"category": reading.category, "outside": reading.outside}
    return {"without_model": without} if without else {}


def _print_ranking(
    ranked: list[tuple[str, float]], taxonomy: Taxonomy, reading: ReportExtraction | DeclinedAnswer | None, without: str
) -> None:
    rows = [(label, f"{p:.0%}", taxonomy.get_title(label)) for label, p in ranked]
    sheet = open_table_console()
    sheet.print(build_text_table(("label", "p", "cause"), rows))
    if isinstance(reading, ReportExtraction) and reading.outside:
        sheet.print(Text(f"The model says that none of them is it: {reading.outside}"))
    if without:
        sheet.print(Text(f"By rules alone: {without}", style="dim"))
