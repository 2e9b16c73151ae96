"""Only a host at fault is accused, not one that suffers from it or differs because of our own error."""

from dataclasses import replace
from datetime import timedelta

import pytest

from graph.engine.abnormal_facts import is_abnormal
from graph.engine.assessment import assess_facts
from graph.engine.derived_facts import find_absent_adapters, find_missing_programs, find_waiting_ports, find_wrong_clocks
from graph.engine.fact_preparation import prepare_facts
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.taxonomy import Taxonomy
from tests.support.clock import T0
from tests.support.fakes_graph import DESYNC, TAXONOMY, clue, fact, healthy, instead, leaf, lens
from tools.fact import Fact, Status, Value, build_unobserved_fact

LEAF = "INTERCONNECT.SWITCH.Leaf"


def clock(host: str, seconds: float) -> Fact:
    return replace(fact(host, "time", "time.clock", (T0 + timedelta(seconds=seconds)).timestamp()), time=T0)


def offsets(*facts: Fact) -> dict[str, float]:
    return {row.host: row.value for row in find_wrong_clocks(facts) if isinstance(row.value, float)}


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
    now = assess_facts(instead(healthy("n1", "n2", "n3"), *sick), known, ("n1", "n2", "n3"), None, T0)
    (cause,) = [row for row in now.list_root_causes() if row.label == LEAF]
    assert (cause.hosts, cause.devices) == ((), ("leaf:l1",))
    assert {line.host for line in cause.evidence} <= {"n1", "n2"}


def adapter(host: str, number: int, bdf: str = "") -> list[Fact]:
    name = f"mlx5_{number}"
    return [fact(host, "ibstat", "ib.state", "Active", name), *([fact(host, "ibstat", "ib.bdf", bdf, name)] if bdf else [])]


def test_an_adapter_missing_between_two_is_that_one_and_one_missing_at_the_end_may_be_any() -> None:
    whole = [row for host in ("n1", "n2") for n in range(4) for row in adapter(host, n)]
    gap = [row for n in (0, 1, 3) for row in adapter("n3", n)]
    assert [(row.host, row.device) for row in find_absent_adapters([*whole, *gap])] == [("n3", "mlx5_2")]
    shorter = [row for n in (0, 1, 2) for row in adapter("n3", n)]
    assert find_absent_adapters([*whole, *shorter]) == []
    assert find_absent_adapters(gap) == []


def test_ports_that_waited_long_are_told_from_counters_that_grew_for_months() -> None:
    def contrast(**waits: int) -> dict[str, Value]:
        facts = [fact(host, "ibstat", "ib.port_xmit_wait", ticks + n, f"mlx5_{n}") for host, ticks in waits.items() for n in range(4)]
        return {row.host: row.value for row in find_waiting_ports(facts)}

    assert contrast(n1=2000, n2=8 * 10**9) == {"n1": 1.0, "n2": 3996004.0}
    assert contrast(n1=8 * 10**9, n2=9 * 10**9)["n2"] == 1.1
    assert contrast(n1=8 * 10**9) == {}


def test_an_adapter_is_called_as_other_hosts_call_the_one_of_its_address() -> None:
    facts = [row for host in ("n1", "n2") for n in range(3) for row in adapter(host, n, f"0000:{n}8:00.0")]
    out = fact("n3", "dmesg", "kernel.mlx5", "cable_unplugged", "0000:18:00.0")
    assert [row.device for row in prepare_facts([*facts, out]) if row.host == "n3"] == ["mlx5_1"]
    other = fact("n4", "ibstat", "ib.bdf", "0000:18:00.0", "mlx5_7")
    assert [row.device for row in prepare_facts([*facts, other, out]) if row.host == "n3"] == ["0000:18:00.0"]


def test_without_a_readable_log_no_host_is_called_healthy() -> None:
    facts = [row for row in healthy("n1", "n2") if row.check != "joblog"]

    def finding(*blind_hosts: str) -> str:
        unread = [build_unobserved_fact("joblog", Status.DENIED, "permission denied", host) for host in blind_hosts]
        read = [Fact("joblog", "job.error", status=Status.ABSENT, host=host) for host in {"n1", "n2"} - set(blind_hosts)]
        return assess_facts([*facts, *unread, *read], lens(), ("n1", "n2"), None, T0).finding

    assert finding("n1") == "no_fault"
    assert finding("n1", "n2") == "abstained"


def test_where_there_was_nothing_to_look_at_the_report_says_so_beside_no_fault() -> None:
    none = [fact("n1", "joblog", "job.log", False), Fact("fabric", "check.skipped", "no_tool", line="not installed", host="n2")]
    now = assess_facts([*healthy("n1", "n2"), *none], lens(), ("n1", "n2"), None, T0)
    assert now.finding == "no_fault"
    assert {(row.host, row.check) for row in now.list_unobserved()} == {("n1", "joblog"), ("n2", "fabric")}


def test_a_port_of_another_network_accuses_no_host() -> None:
    def ports(*layers: str) -> list[Fact]:
        return [fact("n1", "ibstat", "ib.link_layer", layer, f"mlx5_{n}") for n, layer in enumerate(layers)]

    down = fact("n1", "ibstat", "ib.state", "Down", "mlx5_1")

    def elsewhere(*layers: str) -> bool:
        return any(row.attrs.get("elsewhere") for row in prepare_facts([*ports(*layers), down]))

    assert elsewhere("InfiniBand", "Ethernet", "InfiniBand", "InfiniBand")
    assert not elsewhere("Ethernet", "Ethernet", "Ethernet", "Ethernet")
    assert not elsewhere("InfiniBand", "InfiniBand", "InfiniBand", "Ethernet")
    assert not elsewhere("InfiniBand", "Ethernet")
    marked = [row for row in prepare_facts([*ports("InfiniBand", "Ethernet", "InfiniBand"), down]) if row.key == "ib.state"]
    assert not is_abnormal(marked[0], "Active")


@pytest.mark.parametrize(
    ("key", "bad", "good", "expected"),
    [
        ("ib.symbol_error", 5000, 3, None),
        ("ib.link_downed", 37, 1, None),
        ("pcie.acs", True, False, False),
        ("gpu.clock.app", 345, 1980, 1980),
        ("gpu.throttle.hw_thermal", True, False, None),
        ("module.loaded", False, True, True),
        ("cpu.governor", "powersave", "performance", None),
        ("net.rx_discards", 830_112, 12, None),
        ("mem.memlock_kib", 64, -1, -1),
        ("proc.orphan", 61_000, 4, None),
    ],
)
def test_what_is_wrong_by_itself_is_never_called_healthy_whether_a_label_fits_or_not(
    key: str, bad: Value, good: Value, expected: Value
) -> None:
    assert is_abnormal(fact("n1", "x", key, bad), expected)
    assert not is_abnormal(fact("n1", "x", key, good), expected)


def test_how_a_machine_is_set_up_does_not_acquit_a_program() -> None:
    said = fact("n1", "joblog", "job.error", "collective_desync")
    hot = fact("n2", "smi", "gpu.throttle.hw_power_brake", True, "gpu0")
    assert [
        row.label for row in assess_facts([*instead(healthy("n1", "n2"), said), hot], lens(), ("n1", "n2"), None, T0).list_root_causes()
    ] == [DESYNC]


BUILT_IN = load_taxonomy().decidable
# link counters, a high total, and the cause it may prove
COUNTED = [
    ("ib.link_downed", 37, "INTERCONNECT.IB.Link_Flapping"),
    ("ib.symbol_error", 5000, "INTERCONNECT.IB.Symbol_Errors"),
    ("ib.link_error_recovery", 60, ""),
    ("ib.link_integrity_errors", 9000, ""),
    ("ib.ack_timeouts", 90_000, ""),
    ("ib.sequence_errors", 900_000, ""),
    ("ib.roce_adp_retrans", 9000, ""),
    ("net.rx_discards", 900_000, ""),
]


def counted(key: str, total: int, days: float | None) -> list[Fact]:
    """Return facts of a healthy host and of one with that total; `days` since both booted, None if unknown."""
    bad = fact("n1", "ibstat", key, total, "mlx5_2")
    if days is None:
        return [*healthy("n1", "n2"), bad]
    return [
        *healthy("n1", "n2"),
        bad,
        *(fact(host, "dmesg", "host.booted_at", (T0 - timedelta(days=days)).isoformat()) for host in ("n1", "n2")),
    ]


@pytest.mark.parametrize(("key", "total", "label"), COUNTED)
def test_a_counter_that_grows_fast_is_a_fault_and_an_old_total_is_none(key: str, total: int, label: str) -> None:
    fast, slow, unknown = (assess_facts(counted(key, total, days), lens(BUILT_IN), ("n1", "n2"), None, T0) for days in (6, 400, None))
    assert [row.key for row in slow.abnormal_facts] == []
    assert [row.key for row in fast.abnormal_facts] == [key]
    assert [row.key for row in unknown.abnormal_facts] == [key]
    assert slow.list_root_causes() == ()
    assert unknown.list_root_causes() == ()
    if label:
        assert [row.label for row in fast.list_root_causes()] == [label]
        assert unknown.build_hypothesis(label).confidence <= 0.6
        assert "since the counters were last cleared" in " ".join(cited.says for cited in unknown.build_hypothesis(label).evidence)


def test_a_host_that_booted_today_counts_a_whole_day() -> None:
    facts = prepare_facts(counted("ib.link_downed", 3, 0.01), T0)
    assert [row.attrs["per_day"] for row in facts if row.key == "ib.link_downed"] == [3.0]


@pytest.mark.parametrize("when", ["", "yesterday", "9999-99-99", "2999-01-01T00:00:00+00:00"])
def test_a_boot_of_no_known_time_gives_no_rate(when: str) -> None:
    facts = prepare_facts([fact("n1", "ibstat", "ib.link_downed", 37, "mlx5_2"), fact("n1", "dmesg", "host.booted_at", when)], T0)
    assert all("per_day" not in row.attrs for row in facts)


def without_tool(*hosts: str, check: str = "base", tool: str = "python3") -> list[Fact]:
    return [Fact(check, "check.skipped", "no_tool", line=f"{tool} is not installed", host=host, time=T0) for host in hosts]


@pytest.mark.parametrize(("check", "tool"), [("base", "python3"), ("ibstat", "ibstat"), ("pcie", "lspci"), ("ipmi", "ipmitool")])
def test_a_program_that_most_hosts_have_is_missed_where_it_is_not(check: str, tool: str) -> None:
    have = [Fact(check, "host.reachable", True, host=host, time=T0) for host in ("n2", "n3")]
    (found,) = find_missing_programs([*without_tool("n1", check=check, tool=tool), *have])
    assert (found.host, found.key, found.value, found.device) == ("n1", "peer.differs", "absent", f"program {tool}")
    assert found.attrs == {"most": "installed", "hosts": 2, "of": 3}
    assert is_abnormal(found)


def test_a_program_that_few_hosts_have_is_missed_nowhere() -> None:
    have = [Fact("base", "host.reachable", True, host=host, time=T0) for host in ("n2", "n3")]
    assert find_missing_programs([*without_tool("n1", "n4"), *have]) == []
    assert find_missing_programs([*without_tool("n1"), *have[:1]]) == []
    assert find_missing_programs([*without_tool("n1"), *have], lambda host: host) == [], "they are hosts of different kinds"
    assert find_missing_programs([*without_tool("n1"), build_unobserved_fact("base", Status.TIMEOUT, "late", host="n2"), *have[1:]]) == []
    assert find_missing_programs([Fact("base", "check.skipped", "busy", line="x is not installed", host="n1"), *have]) == []
