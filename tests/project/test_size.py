"""Code stays in small pieces; `python -m tests.project.size` prints the figures."""

import pytest

from tests.project.size import PACKAGES, modules


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "tests"])
def test_no_module_and_no_function_has_grown_out_of_hand(package: str) -> None:
    large = [f"{row.path}: {row.lines} lines" for row in modules(package) if row.lines > 400]
    large += [f"{row.path}:{name}: {lines} lines" for row in modules(package) for name, lines in row.functions if lines > 75]
    assert not large
