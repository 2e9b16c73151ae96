"""Who is accused: only what is guilty by itself, never who suffers with it or differs from a mistake of ours."""

from dataclasses import replace
from datetime import timedelta

from graph.derive import wrong_clocks
from graph.engine import assess
from kb.taxonomy import Taxonomy
from tests.fakes_graph import NOW, TAXONOMY, clue, fact, healthy, instead, leaf, lens
from tools.fact import Fact, Status

LEAF = "INTERCONNECT.SWITCH.Leaf"


def clock(host: str, seconds: float) -> Fact:
    return replace(fact(host, "time", "time.clock", (NOW + timedelta(seconds=seconds)).timestamp()), time=NOW)


def offsets(*facts: Fact) -> dict[str, float]:
    return {row.host: row.value for row in wrong_clocks(facts) if isinstance(row.value, float)}


def test_a_clock_that_differs_from_all_others_is_the_wrong_one() -> None:
    assert offsets(clock("n1", 0.2), clock("n2", -412.0), clock("n3", 0.1)) == {"n1": 0.1, "n2": -412.1, "n3": 0.0}


def test_what_all_clocks_differ_by_is_the_error_of_ours() -> None:
    assert offsets(clock("n1", 300.0), clock("n2", 300.5), clock("n3", 299.0)) == {"n1": 0.0, "n2": 0.5, "n3": -1.0}


def test_of_two_clocks_each_is_compared_with_ours() -> None:
    assert offsets(clock("n1", 300.0), clock("n2", 0.0)) == {"n1": 300.0, "n2": 0.0}


def test_a_time_source_says_it_better_and_a_clock_that_cannot_be_read_says_nothing() -> None:
    said = fact("n1", "time", "time.offset", 2.0)
    unread = Fact("time", "time.clock", status=Status.UNREADABLE, host="n2")
    assert offsets(clock("n1", 9.0), said, unread, clock("n3", 1.0)) == {"n3": 1.0}


def test_a_bad_switch_accuses_no_machine_behind_it() -> None:
    row = leaf(LEAF, "switch", clue("waits", "nvlink.replay_errors", "value > 0", 9, decisive=True))
    known = replace(
        lens(Taxonomy({**TAXONOMY.leaves, LEAF: row}, TAXONOMY.branches)), place=lambda host, kind: {"n3": "l2"}.get(host, "l1")
    )
    sick = [fact(host, "nvlink", "nvlink.replay_errors", 9, "gpu0") for host in ("n1", "n2")]
    now = assess(instead(healthy("n1", "n2", "n3"), *sick), known, ("n1", "n2", "n3"), None, NOW)
    (cause,) = [row for row in now.root_causes() if row.label == LEAF]
    assert (cause.hosts, cause.devices) == ((), ("leaf:l1",))
    assert {line.host for line in cause.evidence} <= {"n1", "n2"}
