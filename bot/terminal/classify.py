"""`rackmedic classify`: labels of a text, best first. Reads no host and asks no model."""

import json
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from bot.run.site import site_checks, site_incidents, site_taxonomy
from bot.settings import Settings
from bot.terminal.paper import paper
from graph.reading.classify import classify
from kb.history.likeness import Nearest
from kb.redact import redact


async def classify_text(settings: Settings, text: str, most: int, *, as_json: bool) -> int:
    """Print `{schema, labels}` or a table. Raises Refusal where the site's own files cannot be used."""
    taxonomy = site_taxonomy(settings.kb_dir)
    nearest = Nearest.of(taxonomy, site_incidents(settings.kb_dir, taxonomy))
    ranked = classify(redact(text), taxonomy, nearest, site_checks(settings), datetime.now(UTC))[:most]
    if as_json:
        print(json.dumps({"schema": 1, "labels": [{"label": label, "p": round(p, 6)} for label, p in ranked]}))
        return 0
    table = Table("p", header_style="bold")
    table.add_column("label", no_wrap=True, min_width=max((len(label) for label, _ in ranked), default=0))  # what is cut cannot be copied
    table.add_column("what it would be")
    for label, p in ranked:
        table.add_row(f"{p:.0%}", label, Text(taxonomy.title(label)))
    paper(whole=True).print(table)
    return 0
