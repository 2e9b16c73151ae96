"""The prefilter for lines of trouble misses no line that the pattern matches."""

import re

import pytest

from tools.checks.not_understood import _TROUBLE_PATTERN, iter_trouble_lines

WORDS = """NCCL WARN|Error|error|Errors|errors|ERROR|ERRORS|Fatal|fatal|FATAL|CRITICAL|Fail|fail|Failed|failed|Failure|failure|Fails|fails|FAIL|FAILED|FAILURE|
Panic|panic|Degraded|degraded|Uncorrected|uncorrectable|Timed out|timed out|Timeout|timeout|TIMEOUT|Refused|refused|Denied|denied|Unreachable|unreachable|
Corrupt|corrupted|Lost|lost|Down|down|DOWN|Broken|broken|Missing|missing|Invalid|invalid""".replace("\n", "").split("|")


@pytest.mark.parametrize("word", WORDS)
def test_every_word_of_the_pattern_is_found(word: str) -> None:
    line = f"the link is {word} here"
    assert _TROUBLE_PATTERN.search(line)
    assert list(iter_trouble_lines(f"one\n{line}\r\nthree\n")) == [line]


def test_the_words_of_the_test_are_those_of_the_pattern() -> None:
    stems = {word.lower() for word in re.findall(r"[A-Za-z]{4,}", re.sub(r"\[(.).\]", r"\1", _TROUBLE_PATTERN.pattern))}
    assert all(any(stem[:4] in word.lower() for word in WORDS) for stem in stems)


@pytest.mark.parametrize("line", ["no errors so far", "timeout: 1800", "all is well", "Link Failure: No", "x" * 600 + " error"])
def test_other_lines_tell_of_no_trouble(line: str) -> None:
    assert list(iter_trouble_lines(line)) == []
