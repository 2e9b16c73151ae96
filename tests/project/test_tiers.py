"""Each test has one tier, only timeouts are retried, and each slice of tier 3 is run by some commit."""

from pathlib import Path

import pytest

from tests.conftest import TESTS, TIER_OF_FOLDER, timed_out
from tests.tier3 import GROUPS, SLICES, slice_of

FEWEST_SLICES = 8


class PlaywrightTimeout(Exception):
    """Playwright's own class has this name and does not inherit from Python's."""


PlaywrightTimeout.__name__ = "TimeoutError"


@pytest.mark.parametrize(
    ("error", "is_retried"),
    [
        (TimeoutError("no report"), True),
        (PlaywrightTimeout(), True),
        (AssertionError("ran 2 times"), False),
        (RuntimeError("TimeoutError"), False),
        (KeyError("x"), False),
        (None, False),
    ],
)
def test_only_a_timeout_is_retried(error: BaseException | None, *, is_retried: bool) -> None:
    assert timed_out(error) is is_retried


def test_an_assertion_that_breaks_after_a_timeout_is_not_retried() -> None:
    broken = AssertionError("found while cleaning up")
    broken.__context__ = TimeoutError()
    assert not timed_out(broken)


def test_each_folder_with_a_tier_exists() -> None:
    assert [name for name in TIER_OF_FOLDER if not (TESTS / name).is_dir()] == []


def test_commits_choose_among_all_slices() -> None:
    names = [one.name for one in SLICES]
    assert len(names) == len(set(names)) >= FEWEST_SLICES
    assert {slice_of(f"{number:x}").name for number in range(len(SLICES))} == set(names)
    assert slice_of("578df5c" + "0" * 33) == slice_of("578df5c" + "0" * 33)
    assert {name for group in GROUPS.values() for name in group} <= set(names)


def test_each_slice_names_paths_that_exist() -> None:
    named = {word for one in SLICES for word in (*one.short, *one.long) if word.startswith("tests/")}
    assert [path for path in sorted(named) if not (Path(TESTS).parent / path).is_dir()] == []
