"""NCCL versions with known defects."""

import pytest

from kb.catalogues.nccl import find_known_bad, load_bad_ranges, parse_version


def test_every_row_is_a_range_with_an_effect_and_a_source() -> None:
    assert load_bad_ranges()
    for row in load_bad_ranges():
        assert len(row.first) == len(row.last) == 3, row
        assert row.first <= row.last, row
        assert not row.fixed or parse_version(row.fixed) > row.last, row
        assert row.effect in ("crash", "hang", "corruption", "slow"), row
        assert row.meaning
        assert row.source.startswith("https://")


@pytest.mark.parametrize(
    ("version", "effects"),
    [
        ("2.27.7", ["crash"]),
        ("2.27.7+cuda12.4", ["crash"]),
        ("2.27.5", []),
        ("2.15.5", ["hang"]),
        ("2.29.2", ["hang"]),
        ("2.29.3", []),
        ("2.30.7", []),
        ("2.18.1", ["corruption"]),
        ("2.27", []),
        ("", []),
        ("2.27.7.9", []),
        ("error: no", []),
    ],
)
def test_a_version_is_bad_inside_its_range_only_and_half_a_version_is_none(version: str, effects: list[str]) -> None:
    assert [row.effect for row in find_known_bad(version)] == effects
