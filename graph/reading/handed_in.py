"""One text that people handed in: its facts, and its templates where it is a long log. Pure, and of a large text not for the event loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from graph.reading.logs import read_log
from graph.reading.pasted import Pasted, read_pasted
from graph.state import LogDigest
from kb.logs.templates.filters import FILTERS, FilterRule
from tools.apart import beside
from tools.checks import CHECKS
from tools.checks.row import Check


@dataclass(frozen=True, slots=True)
class HandedIn:
    """What was read of it."""

    pasted: Pasted
    digest: LogDigest | None = None


class Reader(Protocol):
    """Reads a text without holding up the loop; None where it takes longer than anybody would wait for."""

    async def __call__(self, name: str, sha256: str, text: str, now: datetime) -> HandedIn | None: ...


def read_handed_in(name: str, sha256: str, text: str, now: datetime, checks: Mapping[str, Check]) -> HandedIn:
    """All of it."""
    return HandedIn(read_pasted(text, checks), read_log(name, sha256, text, now))


def read_with_site(
    folders: tuple[Path, ...], rules: tuple[Path, ...], filters: tuple[Path, ...], programs: tuple[str, ...],
    name: str, sha256: str, text: str, now: datetime,
) -> HandedIn:  # fmt: skip
    """As `read_handed_in`, in a process that knows nothing yet: facts and templates beside each other. `folders`: those of the site's own
    checks, which may know what others do not; `rules` and `filters`: those of its rules and filters for lines of logs; `programs`: the folders
    of programs that checks may name. Raises BadChecks, BadRules and BadFilters."""
    checks: Mapping[str, Check] = CHECKS
    if folders:
        from tools.checks.site.reader import load_site_checks  # brings half a second of imports, which a site without any does without

        checks = {**CHECKS, **load_site_checks(*folders, known=CHECKS, programs=programs)}
    if rules:
        from tools.checks.site.ruled import with_rules
        from tools.checks.site.rules import load_rules

        checks = with_rules(checks, load_rules(*rules))
    regular: Sequence[FilterRule] = FILTERS
    if filters:
        from tools.checks.site.filters import load_filters, rules_for

        regular = rules_for(text, load_filters(*filters))
    return HandedIn(*beside(lambda: read_pasted(text, checks), lambda: read_log(name, sha256, text, now, regular)))
