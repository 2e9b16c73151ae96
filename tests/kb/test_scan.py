"""Many words are looked for at once, and every line that holds one is found, once."""

from hypothesis import given
from hypothesis import strategies as st

from kb.scan import Needles, lines_of

WORDS = ("ab", "b", "abc", "é a", "aa")
TEXTS = st.text(alphabet="abcé \n", max_size=60)


@given(TEXTS)
def test_the_lines_that_hold_a_needle_are_those_that_hold_it(text: str) -> None:
    found = Needles(WORDS).in_text(text)
    held = {line: needles for (_, line), needles in zip(lines_of(text, list(found)), found.values(), strict=True)}
    assert held == {line: {word for word in WORDS if word in line} for line in text.split("\n") if any(word in line for word in WORDS)}
    assert list(found) == sorted(found)
    assert all(text[start - 1 : start] in ("", "\n") and text[end : end + 1] in ("", "\n") for start, end in found)


@given(TEXTS)
def test_a_line_is_asked_for_all_needles_at_once(line: str) -> None:
    assert Needles(WORDS).in_line(line) == {word for word in WORDS if word in line}
