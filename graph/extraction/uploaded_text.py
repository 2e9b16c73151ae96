"""Facts and log templates of one attached text. Pure. Slow for large texts: keep it off the event loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from graph.extraction.log_digests import digest_log
from graph.extraction.pasted_text import PastedFacts, extract_pasted_facts
from graph.state import LogDigest
from kb.logs.template_filters import FILTERS, FilterRule
from tools.checks import CHECKS
from tools.checks.check_types import Check
from tools.process_pool import run_in_parallel


@dataclass(frozen=True, slots=True)
class TextExtraction:
    pasted: PastedFacts
    digest: LogDigest | None = None


class TextReader(Protocol):
    """Reads a text off the event loop; None on timeout."""

    async def __call__(self, name: str, sha256: str, text: str, now: datetime) -> TextExtraction | None: ...


def extract_text(name: str, sha256: str, text: str, now: datetime, checks: Mapping[str, Check]) -> TextExtraction:
    return TextExtraction(extract_pasted_facts(text, checks), digest_log(name, sha256, text, now))


def extract_text_with_site(
    folders: tuple[Path, ...], rules: tuple[Path, ...], filters: tuple[Path, ...], programs: tuple[str, ...],
    name: str, sha256: str, text: str, now: datetime,
) -> TextExtraction:  # fmt: skip
    """As `extract_text` with a site's own files, for a fresh worker process; facts and templates in parallel.

    `folders` hold its checks, `rules` and `filters` its log rules and filters, `programs` the programs that checks may
    name. Raises BadChecks, BadRules and BadFilters.
    """
    checks: Mapping[str, Check] = CHECKS
    if folders:
        from tools.checks.site.loader import load_site_checks  # half a second of imports, needless without site checks

        checks = {**CHECKS, **load_site_checks(*folders, known=CHECKS, programs=programs)}
    if rules:
        from tools.checks.site.rule_matching import add_rules
        from tools.checks.site.rules import load_rules

        checks = add_rules(checks, load_rules(*rules))
    regular: Sequence[FilterRule] = FILTERS
    if filters:
        from tools.checks.site.filters import load_filters, select_filter_rules

        regular = select_filter_rules(text, load_filters(*filters))
    return TextExtraction(
        *run_in_parallel(lambda: extract_pasted_facts(text, checks), lambda: digest_log(name, sha256, text, now, regular))
    )
