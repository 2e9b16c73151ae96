"""The multi-needle scan finds every line with a needle once."""

from hypothesis import given
from hypothesis import strategies as st

from kb.logs.log_lines import build_piece
from kb.needle_search import MAX_LINE_CHARS, Needles, cut_lines

WORDS = ("ab", "b", "abc", "é a", "aa")
TEXTS = st.text(alphabet="abcé \n", max_size=60)


@given(TEXTS)
def test_the_lines_that_hold_a_needle_are_those_that_hold_it(text: str) -> None:
    found = Needles(WORDS).find_in_text(text)
    held = {line: needles for (_, line), needles in zip(cut_lines(text, list(found)), found.values(), strict=True)}
    assert held == {line: {word for word in WORDS if word in line} for line in text.split("\n") if any(word in line for word in WORDS)}
    assert list(found) == sorted(found)
    assert all(text[start - 1 : start] in ("", "\n") and text[end : end + 1] in ("", "\n") for start, end in found)


@given(TEXTS)
def test_a_line_is_asked_for_all_needles_at_once(line: str) -> None:
    assert Needles(WORDS).find_in_line(line) == {word for word in WORDS if word in line}


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), min_size=1, max_size=8), st.data())
def test_many_lines_become_text_as_each_of_them_does(lines: list[bytes], data: st.DataObject) -> None:
    piece = build_piece(b"\n".join(lines) + b"\n")
    some = sorted(data.draw(st.sets(st.integers(0, len(lines) - 1))))
    assert (
        piece.get_lines(some)
        == [piece.get_line(number) for number in some]
        == [lines[at].decode("utf-8", "replace").rstrip("\r") for at in some]
    )
    assert [piece.get_raw_line(number, 99) for number in range(len(lines))] == lines


def test_a_line_without_end_is_cut_where_many_become_text() -> None:
    piece = build_piece(b"short\n" + b"x" * (MAX_LINE_CHARS + 1) + b"\n")
    assert [len(line) for line in piece.get_lines([0, 1])] == [5, MAX_LINE_CHARS]
