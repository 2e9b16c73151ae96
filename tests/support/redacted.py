"""What taking secrets out of an output does to the facts that are read from it."""

from collections.abc import Iterable

from kb.redact import redact
from tools.checks import CHECKS

MOST = 0.005
"""Of all facts, those that may differ: an argument of a process that was a secret."""


def facts_that_differ(outputs: Iterable[tuple[str, str]]) -> tuple[int, int]:
    """(facts read, of them those that differ without secrets) over (check, what it printed)."""
    before = after = 0
    for check, text in outputs:
        raw, clean = (
            {(fact.key, fact.device, str(fact.value), fact.status) for fact in CHECKS[check].parse_output(said)}
            for said in (text, redact(text))
        )
        before, after = before + len(raw), after + len(raw ^ clean)
    return before, after
