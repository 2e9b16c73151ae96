"""`rackmedic classify`: labels of a text, best first. Reads no host; where a model is set it reads the text too."""

import json
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from bot.run.site import site_checks, site_incidents, site_taxonomy
from bot.run.world import model_of
from bot.settings import Settings
from bot.terminal.edge import tell
from bot.terminal.paper import paper
from graph.model.reasoner import Declined, Material, Reading
from graph.reading.blended import blended
from graph.reading.classify import classify, matches_nothing
from kb.history.likeness import Nearest
from kb.redact import redact
from kb.taxonomy.labels import Taxonomy

PURSE = "classify"
NOTHING_MATCHES = (
    "Nothing in this text matches a cause that I know: it names no symptom and quotes no error. Add what fails, or a line of a log."
)


async def classify_text(settings: Settings, text: str, most: int, *, as_json: bool, by_rules: bool = False) -> int:
    """Print `{schema, matches, labels}` or a table, or that nothing matches; with a model also what it makes of the text as a whole. Raises
    Refusal where the site's own files cannot be used."""
    taxonomy, said = site_taxonomy(settings.kb_dir), redact(text)
    nearest = Nearest.of(taxonomy, site_incidents(settings.kb_dir, taxonomy))
    checks, now = site_checks(settings), datetime.now(UTC)
    ranked = classify(said, taxonomy, nearest, checks, now)
    reading = None if by_rules else await _read(settings, said, taxonomy)
    nothing = not isinstance(reading, Reading) and matches_nothing(said, ranked, taxonomy, checks, now)
    if isinstance(reading, Reading):
        ranked = blended(ranked, reading.causes)
    without = reading.reason if isinstance(reading, Declined) else ""
    if as_json:
        tell(
            json.dumps(
                {
                    "schema": 1,
                    "matches": not nothing,
                    "labels": [{"label": label, "p": round(p, 6)} for label, p in ranked[:most]],
                    **_told(reading, without),
                }
            )
        )
        return 0
    if nothing:
        tell(NOTHING_MATCHES)
    else:
        _print(ranked[:most], taxonomy, reading, without)
    return 0


async def _read(settings: Settings, said: str, taxonomy: Taxonomy) -> Reading | Declined | None:
    """What the model makes of it; None where none is set."""
    model = model_of(settings, None)
    if model is None:
        return None
    try:
        return await model.read(PURSE, Material(said), (), {label: taxonomy.title(label) for label in taxonomy.leaves})
    finally:
        await model.aclose()


def _told(reading: Reading | Declined | None, without: str) -> dict[str, str]:
    if isinstance(reading, Reading):
        return {"category": reading.category, "outside": reading.outside}
    return {"without_model": without} if without else {}


def _print(ranked: list[tuple[str, float]], taxonomy: Taxonomy, reading: Reading | Declined | None, without: str) -> None:
    table = Table("p", header_style="bold")
    table.add_column("label", no_wrap=True, min_width=max((len(label) for label, _ in ranked), default=0))  # what is cut cannot be copied
    table.add_column("what it would be")
    for label, p in ranked:
        table.add_row(f"{p:.0%}", label, Text(taxonomy.title(label)))
    sheet = paper(whole=True)
    sheet.print(table)
    if isinstance(reading, Reading) and reading.outside:
        sheet.print(Text(f"The model says that none of them is it: {reading.outside}"))
    if without:
        sheet.print(Text(f"By rules alone: {without}", style="dim"))
