"""Suggestions for an unknown host name."""

import pytest

from tests.support.inventories import inventory
from tools.inventory.host_ranges import BadRange, expand_host_range
from tools.inventory.name_suggestions import find_nearest_hosts, find_suggestions, format_unknown_names

FLEET = tuple(f"gpu-{n:03}" for n in range(1, 33))


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("gpu003", ("gpu-003",)),
        ("GPU_003", ("gpu-003",)),
        ("gpu-0003", ("gpu-003",)),
        ("gpu-003.elsewhere.example", ("gpu-003",)),
        ("gp-003", ("gpu-003",)),
        ("gpu-099", ("gpu-029", "gpu-019", "gpu-009")),
        ("gpu-301", ("gpu-031", "gpu-001")),
        ("login", ()),
        ("trainer-700", ()),
        ("gpu-[003-0010]", ("gpu-[003-010]",)),
        ("gpu-[010-003]", ("gpu-[003-010]",)),
        ("gpu-[040-0050]", ()),
    ],
)
def test_the_nearest_hosts_are_offered(name: str, offered: tuple[str, ...]) -> None:
    assert [row.nearest for row in find_suggestions([name], FLEET)] == [offered]


def test_no_more_than_three_are_offered_and_none_of_an_empty_fleet() -> None:
    assert len(find_nearest_hosts("gpu-2", [f"gpu-{n}" for n in range(10, 99)])) == 3
    assert find_nearest_hosts("gpu-2", ()) == ()


def test_a_name_as_long_as_a_book_is_compared_by_its_beginning() -> None:
    assert find_nearest_hosts("gpu-003" + "x" * 100_000, FLEET) == ()


def test_what_is_unknown_is_one_sentence() -> None:
    assert format_unknown_names(()) == ""
    theirs = format_unknown_names(find_suggestions(["gpu-999"], ("gpu-017",), "acme"))
    assert theirs == "none of acme's hosts: gpu-999"
    told = format_unknown_names(find_suggestions(("gpu-301", "foo", "gpu003", "gpu-[003-0010]"), FLEET))
    assert told == (
        "not in the inventory: gpu-301 (did you mean gpu-031 or gpu-001?), foo, gpu003 (did you mean gpu-003?); "
        "gpu-[003-0010] (did you mean gpu-[003-010]?) cannot be read: the ends of '003-0010' are not written with the same number of digits"
    )
    assert format_unknown_names(find_suggestions([f"x{n}" for n in range(10)], FLEET)).endswith("x7, … 2 more")


@pytest.mark.parametrize("text", ["gpu-[003-0010]", "gpu-[1-010]", "gpu-[0001-010]"])
def test_a_range_whose_ends_are_padded_differently_is_no_range(text: str) -> None:
    with pytest.raises(BadRange, match="same number of digits"):
        expand_host_range(text)


@pytest.mark.parametrize(("text", "many"), [("gpu-[001-1000]", 1000), ("gpu-[9-11]", 3), ("gpu-[001-3]", 3), ("gpu-[00-01]", 2)])
def test_a_range_that_grows_wider_is_one(text: str, many: int) -> None:
    assert len(expand_host_range(text)) == many


def test_a_range_by_option_offers_the_nearest_too() -> None:
    with pytest.raises(BadRange, match=r"not in the inventory: n9 \(did you mean n4, n3 or n2\?\)"):
        inventory().select_hosts("n1,n9")


def test_the_domains_of_hosts_are_those_of_their_names_and_addresses() -> None:
    fleet = inventory(
        groups={"g": {"hosts": "n[1-3],m1.dc2.example"}},
        hosts={"n1": {"address": "n1.dc1.example"}, "n2": {"address": "10.0.0.2"}},
        channels=[],
    )
    assert fleet.list_domains(fleet.hosts) == {"dc1.example", "dc2.example"}
    assert fleet.list_domains(("n2", "n3")) == frozenset()
