"""Redaction loses no evidence: an output's facts are the same before and after."""

from collections.abc import Iterator

from kb.redact import redact
from tests.conftest import CAPTURES
from tests.support.redacted import MOST, facts_that_differ
from tests.support.samples_checks import SAMPLES
from tools.checks import CHECKS


def outputs() -> Iterator[tuple[str, str]]:
    """Yield (check, output): samples, and published captures if present, for every check."""
    yield from ((check, sample) for check, samples in SAMPLES.items() for sample in samples)
    texts = [path.read_text(errors="replace") for path in sorted(CAPTURES.rglob("*")) if path.is_file() and path.stat().st_size < 200_000]
    yield from ((check, text) for text in texts if redact(text) != text for check in CHECKS)


def test_facts_are_the_same_with_and_without_secrets() -> None:
    before, after = facts_that_differ(outputs())
    assert before > 100
    assert after <= MOST * before
