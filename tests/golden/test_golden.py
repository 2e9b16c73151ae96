"""Every rendered text is what its golden file says."""

from difflib import unified_diff

import pytest

from tests.golden.table import EXPECTED, GROUPS, read

RENEW = "run `make fix`, and read the diff of tests/golden/expected"


@pytest.mark.parametrize("group", GROUPS)
def test_rendered_texts_are_those_of_the_golden_files(group: str) -> None:
    expected, rendered = read(group), GROUPS[group]()
    assert expected.keys() == rendered.keys(), RENEW
    changed = [
        line
        for name in sorted(expected.keys() | rendered.keys())
        for line in unified_diff(
            expected.get(name, "").splitlines(), rendered.get(name, "").splitlines(), f"expected/{group}/{name}", "rendered", lineterm=""
        )
    ]
    assert not changed, "\n".join([RENEW, *changed])


def test_no_golden_file_is_without_a_row() -> None:
    groups = {str(path.parent.relative_to(EXPECTED)) for path in EXPECTED.rglob("*") if path.is_file()}
    assert groups == set(GROUPS), RENEW
