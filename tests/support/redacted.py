"""The effect of redaction on the facts read from an output."""

from collections.abc import Iterable

from kb.redact import redact
from tools.checks import CHECKS

MOST = 0.005  # maximum share of facts that may differ: secret process arguments


def facts_that_differ(outputs: Iterable[tuple[str, str]]) -> tuple[int, int]:
    """Return (facts read, facts that differ after redaction) over (check, output)."""
    before = after = 0
    for check, text in outputs:
        raw, clean = (
            {(fact.key, fact.device, str(fact.value), fact.status) for fact in CHECKS[check].parse_output(said)}
            for said in (text, redact(text))
        )
        before, after = before + len(raw), after + len(raw ^ clean)
    return before, after
