"""A parser answers any input with facts or one reason, never with an exception or a wrong type."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kb.fact_keys import find_key
from kb.numbers import is_storable
from tests.support.samples_checks import SAMPLES
from tools.checks import CHECKS
from tools.checks.check_types import Check
from tools.fact import Fact, Status

EVERY = [pytest.param(check, id=check.id) for check in CHECKS.values()]
QUICK = settings(max_examples=40, suppress_health_check=list(HealthCheck))
JUNK = st.text(alphabet=st.sampled_from("\0\t\n\r :=<>|[]{}\"'0123456789abcxGPUN/A,.-%\x1bé"), max_size=12)


def sound(check: Check, facts: Sequence[Fact]) -> None:
    for fact in check.settle(facts) if check.settle else facts:
        assert fact.key or fact.line
        row = find_key(fact.key) if fact.key else None
        assert row is not None or not fact.key, fact.key
        assert fact.status is not Status.OK or (fact.key and fact.value is not None)
        Fact.from_json(fact.to_json())
        assert is_storable(fact.value), "a checkpoint takes 64 bits and no infinity"


@pytest.mark.parametrize("check", EVERY)
@QUICK
@given(data=st.data())
def test_a_text_cut_anywhere_and_with_junk_in_it_is_answered(check: Check, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SAMPLES[check.id]))
    cut = text[: data.draw(st.integers(0, len(text)))]
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(cut)))
        cut = cut[:at] + data.draw(JUNK) + cut[at + data.draw(st.integers(0, 8)) :]
    sound(check, check.parse_output(cut))


@pytest.mark.parametrize("check", EVERY)
@QUICK
@given(data=st.data())
def test_lines_in_any_order_any_number_of_times_are_answered(check: Check, data: st.DataObject) -> None:
    lines = "".join(SAMPLES[check.id]).splitlines(keepends=True)
    picked = data.draw(st.lists(st.sampled_from(lines), max_size=40))
    sound(check, check.parse_output("".join(picked)))


@pytest.mark.parametrize("check", EVERY)
@QUICK
@given(text=st.text(max_size=300))
def test_any_text_at_all_is_answered(check: Check, text: str) -> None:
    sound(check, check.parse_output(text))


@pytest.mark.parametrize("check", EVERY)
@QUICK
@given(data=st.data())
def test_numbers_of_any_size_are_answered(check: Check, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([text for text in SAMPLES[check.id] if any(char.isdigit() for char in text)]))
    huge = data.draw(st.sampled_from(["9" * 40, "9" * 5000, "-1", "1e400", "0x" + "f" * 30, "٣", "²", "nan", "inf"]))
    digits = [at for at, char in enumerate(text) if char.isdigit()]
    at = data.draw(st.sampled_from(digits))
    sound(check, check.parse_output(text[:at] + huge + text[at + 1 :]))


@pytest.mark.parametrize("check", EVERY)
def test_a_number_longer_than_python_reads_loses_no_more_than_itself(check: Check) -> None:
    for text in SAMPLES[check.id][:2]:
        runs = [found.span() for found in re.finditer(r"\d+", text)]
        for start, end in runs[:: max(1, len(runs) // 6)]:
            sound(check, check.parse_output(f"{text[:start]}{'7' * 5000}{text[end:]}"))
