"""Links that agree with each other but not with the profile question the profile or the fabric, not a cable."""

import pytest

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.belief import LINK_KEYS, ClueMatcher
from graph.engine.reference_data import ReferenceData
from kb.taxonomy.loader import load_taxonomy
from tests.support.fakes_graph import fact
from tools.checks import CHECKS
from tools.fact import Fact, Value

TAXONOMY = load_taxonomy()


def expected(host: str, key: str, device: str | None) -> Value:
    return {"ib.rate": 400}.get(key) if device != "mlx5_1" else None


def weighed(rates: dict[str, int], device: str = "mlx5_0") -> Assessment:
    facts = [fact(host, "ibstat", "ib.rate", rate, device, unit="Gb/s") for host, rate in rates.items()]
    facts += [fact(host, "ibstat", "ib.state", "Active", device) for host in rates]
    return assess_facts(facts, ReferenceData(TAXONOMY, CHECKS, expected), list(rates))


def accused(now: Assessment) -> list[tuple[str, tuple[str, ...]]]:
    return [(row.label, row.hosts) for row in now.list_root_causes()]


def test_one_slow_link_among_fast_ones_is_the_link() -> None:
    now = weighed({"n1": 400, "n2": 100, "n3": 400})
    assert [hosts for _, hosts in accused(now)] == [("n2",)]
    assert not now.doubted_profiles


def test_equal_links_accuse_no_cable() -> None:
    now = weighed({"n1": 104, "n2": 104, "n3": 104})
    assert accused(now) == []
    assert now.finding == "abstained"
    (says,) = now.doubted_profiles.values()
    assert "104" in says
    assert "400" in says
    assert "sku" in says
    assert now.why_unsure[0] == says[:200]


@pytest.mark.parametrize("key", LINK_KEYS)
@pytest.mark.parametrize("odd", [1, 50, 103])
def test_one_link_below_the_others_is_that_link_and_makes_no_other_one_guilty(key: str, odd: int) -> None:
    facts = [fact(f"n{n}", "ibstat", key, odd if n == 3 else 104, "mlx5_0") for n in range(1, 6)]
    matcher = ClueMatcher.from_facts(facts, ReferenceData(TAXONOMY, CHECKS, lambda host, key, device: 400))
    (doubt,) = matcher.find_doubts(key)
    assert (doubt.expected, doubt.majority) == (400, 104)
    assert {row.host: matcher.get_expected(row) for row in facts} == {f"n{n}": 104 for n in range(1, 6)}


@pytest.mark.parametrize("odd", [25, 10, 2])
@pytest.mark.parametrize("state", ["Active", "Down"])
def test_a_slow_or_dead_port_among_alike_ones_accuses_its_own_host_at_most(odd: int, state: str) -> None:
    rates = {"n1": 100, "n2": 100, "n3": odd}
    facts = [fact(host, "ibstat", "ib.rate", rate, "mlx5_0", unit="Gb/s") for host, rate in rates.items()]
    facts += [fact(host, "ibstat", "ib.state", state if host == "n3" else "Active", "mlx5_0") for host in rates]
    now = assess_facts(facts, ReferenceData(TAXONOMY, CHECKS, expected), list(rates))
    assert {host for _, hosts in accused(now) for host in hosts} == {"n3"}
    assert not [row for row in now.abnormal_facts if row.host in ("n1", "n2")]


def test_where_some_link_is_what_the_profile_says_the_others_are_below_it() -> None:
    now = weighed({"n1": 104, "n2": 104, "n3": 400, "n4": 104})
    assert sorted(host for _, hosts in accused(now) for host in hosts) == ["n1", "n2", "n4"]
    assert not now.doubted_profiles


def test_one_faster_link_accuses_no_host() -> None:
    now = weighed({"n1": 104, "n2": 104, "n3": 200})
    assert (accused(now), now.finding, list(now.doubted_profiles)) == ([], "abstained", ["ib.rate"])


@pytest.mark.parametrize("rates", [{"n1": 104, "n2": 104}, {"n1": 104}, {"n1": 104, "n2": 150, "n3": 200}])
def test_of_few_links_or_of_such_that_all_differ_the_profile_is_believed(rates: dict[str, int]) -> None:
    now = weighed(rates)
    assert sorted(host for _, hosts in accused(now) for host in hosts) == sorted(rates)
    assert not now.doubted_profiles


def test_what_a_profile_says_nothing_of_questions_nothing() -> None:
    facts: list[Fact] = [fact(f"n{n}", "ibstat", "ib.rate", 100, "mlx5_1", unit="Gb/s") for n in range(1, 5)]
    assert not assess_facts(facts, ReferenceData(TAXONOMY, CHECKS, expected), ["n1", "n2", "n3", "n4"]).doubted_profiles
