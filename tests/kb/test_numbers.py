"""Numbers from untrusted text are bounded or rejected."""

import pytest

from kb.numbers import MAX_INTEGER, is_storable, parse_bounded_count, parse_integer, parse_seconds

INF = float("inf")


@pytest.mark.parametrize(
    ("said", "read"),
    [
        *[("7", 7), ("-7", -7), ("0", 0), ("9" * 18, 10**18 - 1), (7, 7), (MAX_INTEGER, MAX_INTEGER)],
        *[
            ("9" * 19, None),
            ("9" * 5000, None),
            (10**4000, None),
            ("", None),
            ("²", None),
            ("٣", None),
            ("1.5", None),
            (" 1", None),
            ("--1", None),
        ],
        *[(True, None), (None, None), (1.5, None), ([], None), ("1_0", None), ("0x10", None), ("nan", None)],
    ],
)
def test_a_whole_number_is_bounded(said: object, read: int | None) -> None:
    assert parse_integer(said) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [(7, 7), ("7", 7), (-7, 0), ("-7", 0), (10**4000, 100), ("9" * 5000, 100), (INF, 0), (None, 0), (True, 0), ("many", 0), (101, 100)],
)
def test_a_count_is_clamped(said: object, read: int) -> None:
    assert parse_bounded_count(said, 100) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("7", 7.0),
        ("1.5", 1.5),
        (3, 3.0),
        ("9" * 12, 60.0),
        ("9" * 400, None),
        ("inf", None),
        ("nan", None),
        ("-1", None),
        ("²", None),
        ("", None),
    ],
)
def test_a_time_to_wait_is_bounded(said: object, read: float | None) -> None:
    assert parse_seconds(said, 60.0) == read


def test_what_cannot_be_stored_is_known() -> None:
    assert [is_storable(one) for one in (1, 1.5, True, "x", None, 2**63, INF, float("nan"), -(2**64))] == [
        *(True, True, True, True, True),
        *(False, False, False, False),
    ]
