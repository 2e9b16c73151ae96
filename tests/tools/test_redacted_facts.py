"""Taking secrets out costs no evidence: facts of an output are the same before and after."""

from collections.abc import Iterator

from kb.redact import redact
from tests.conftest import CAPTURES
from tests.support.samples_checks import SAMPLES
from tools.checks import CHECKS

MOST = 0.005
"""Of all facts, those that may differ: an argument of a process that was a secret."""


def outputs() -> Iterator[tuple[str, str]]:
    """(check, what it printed): samples, and where they lie here published outputs, read by every check."""
    yield from ((check, sample) for check, samples in SAMPLES.items() for sample in samples)
    texts = [path.read_text(errors="replace") for path in sorted(CAPTURES.rglob("*")) if path.is_file() and path.stat().st_size < 200_000]
    yield from ((check, text) for text in texts if redact(text) != text for check in CHECKS)


def test_facts_are_the_same_with_and_without_secrets() -> None:
    before = after = 0
    for check, text in outputs():
        raw, clean = (
            {(fact.key, fact.device, str(fact.value), fact.status) for fact in CHECKS[check].read(said)} for said in (text, redact(text))
        )
        before, after = before + len(raw), after + len(raw ^ clean)
    assert before > 100
    assert after <= MOST * before
