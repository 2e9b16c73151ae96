"""Host ranges as operators write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.inventory.host_ranges import BadRange, expand_host_range, fold_host_names


def test_a_range_keeps_the_width_of_its_first_number() -> None:
    assert expand_host_range("gpu-[001-003,7],n5") == ["gpu-001", "gpu-002", "gpu-003", "gpu-7", "n5"]


def test_two_ranges_in_one_name_multiply() -> None:
    assert expand_host_range("r[1-2]n[3-4]") == ["r1n3", "r1n4", "r2n3", "r2n4"]


@pytest.mark.parametrize(
    "text", ["gpu-[001", "gpu-[9-1]", "gpu-[a-b]", "gpu-[1-99999999]", "-oProxyCommand=x", "gpu-[[1]]", "a;b", "$(id)"]
)
def test_what_is_no_host_range_is_refused_in_words(text: str) -> None:
    with pytest.raises(BadRange):
        expand_host_range(text)


def test_names_fold_for_reading_and_unfold_again() -> None:
    names = ["gpu-001", "gpu-002", "gpu-003", "gpu-117", "login"]
    assert fold_host_names(names) == "gpu-[001-003,117],login"


def test_a_name_without_a_number_stands_beside_one_that_it_begins() -> None:
    assert fold_host_names(["login", "login1", "login2"]) == "login,login[1-2]"


@given(st.sets(st.integers(0, 3000), min_size=1, max_size=40), st.sampled_from(["gpu-{:04d}", "n{}", "ip-10-2-0-{}", "gpu-{:03d}.dc1"]))
def test_expand_undoes_fold(numbers: set[int], shape: str) -> None:
    names = {shape.format(n) for n in numbers}
    assert set(expand_host_range(fold_host_names(names))) == names


@given(st.text(max_size=60))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand_host_range(text)
    except BadRange:
        return
    assert all(name and not name.startswith("-") for name in names)
