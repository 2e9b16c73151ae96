"""Differences from peers are reported with both values and accuse no host alone."""

from collections.abc import Mapping, Sequence
from itertools import permutations

import pytest

from graph.engine.abnormal_facts import is_abnormal
from graph.engine.assessment import assess_facts
from graph.engine.belief import MAX_DIFFERENCE_LOG_ODDS
from graph.engine.peer_differences import (
    DIFFERENCE_KEYS,
    MAX_DIFFERENCES_PER_KIND,
    PAST_DIFFERS_KEY,
    PEER_DIFFERS_KEY,
    HostBaseline,
    build_baselines,
    find_past_differences,
    find_peer_differences,
    sort_rarest_first,
)
from graph.engine.reference_data import ReferenceData
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tools.checks import CHECKS
from tools.fact import Fact, Status

USUAL = ("kernel = 5.15", "time zone = Etc/UTC +0000", "memory = 2000 GiB")


def rows(kind: str, *hosts: Sequence[str]) -> list[Fact]:
    return [Fact("base", "base.rows", list(own), kind, host=f"n{i}", time=T0) for i, own in enumerate(hosts, 1)]


def apart(facts: Sequence[Fact], kinds: Mapping[str, str] | None = None) -> dict[tuple[str, str | None], tuple[object, object]]:
    found = find_peer_differences(facts, lambda host: (kinds or {}).get(host, ""))
    return {(fact.host, fact.device): (fact.value, fact.attrs["most"]) for fact in found}


def test_what_one_host_has_otherwise_is_told_with_both_values() -> None:
    odd = ("kernel = 5.15", "time zone = Asia/Tokyo +0900", "memory = 2000 GiB")
    assert apart(rows("system", USUAL, odd, USUAL)) == {("n2", "system time zone"): ("Asia/Tokyo +0900", "Etc/UTC +0000")}


def test_a_row_that_is_missing_or_alone_is_a_difference_too() -> None:
    found = apart(rows("mount", ["/ = ext4", "/data = nfs4"], ["/ = ext4"], ["/ = ext4", "/data = nfs4", "/mnt = sshfs"]))
    assert found == {("n2", "mount /data"): ("absent", "nfs4"), ("n3", "mount /mnt"): ("sshfs", "absent")}


def test_what_all_hosts_share_is_no_finding_however_wrong() -> None:
    assert apart(rows("service", *(["slurmd = failed"],) * 5)) == {}


def test_two_hosts_tell_nothing_and_neither_do_hosts_of_different_kinds() -> None:
    assert apart(rows("system", USUAL, ["kernel = 6.8"])) == {}
    kinds = {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}
    assert apart(rows("system", USUAL, USUAL, ["kernel = 6.8"], ["kernel = 6.8"]), kinds) == {}


def test_without_a_majority_value_no_host_differs() -> None:
    assert apart(rows("system", ["kernel = 1"], ["kernel = 1"], ["kernel = 2"], ["kernel = 2"])) == {}
    assert apart(rows("config", ["a = 1"], ["a = 2"], ["a = 3"])) == {}


def test_host_specific_rows_are_no_difference() -> None:
    assert apart(rows("hosts", *([f"peer-{n} = 10.0.0.{n}", "ctl = 10.0.0.9"] for n in range(1, 6)))) == {}


def test_sizes_that_hardly_differ_are_the_same_and_other_numbers_are_not() -> None:
    assert apart(rows("system", USUAL, USUAL, ["kernel = 5.15", "time zone = Etc/UTC +0000", "memory = 1984 GiB"])) == {}
    assert ("n3", "system memory") in apart(
        rows("system", USUAL, USUAL, ["kernel = 5.15", "time zone = Etc/UTC +0000", "memory = 1000 GiB"])
    )
    link = ["eth0 = up 25000 Mb/s full"]
    assert apart(rows("link", link, link, ["eth0 = up 1000 Mb/s full"])) == {
        ("n3", "link eth0"): ("up 1000 Mb/s full", "up 25000 Mb/s full")
    }


def test_units_that_come_and_go_are_not_told() -> None:
    usual = ["apt-daily = inactive", "logrotate = inactive", "sssd = active"]
    assert apart(rows("service", usual, usual, ["apt-daily = activating start", "sssd = active"])) == {}


def test_many_differences_of_one_kind_are_counted() -> None:
    usual = [f"p{n} = 1" for n in range(100)]
    found = find_peer_differences(rows("package", usual, usual, [f"p{n} = 2" for n in range(100)]), lambda host: "")
    assert len(found) == MAX_DIFFERENCES_PER_KIND + 1
    assert found[-1].value == f"{100 - MAX_DIFFERENCES_PER_KIND} more"


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_hosts_changes_nothing(order: tuple[int, ...]) -> None:
    hosts = [rows("route", ["default = via a"], ["default = via a"], ["default = blackhole"])[n] for n in order]
    assert set(apart(hosts)) == {("n3", "route default")}


def test_what_fits_the_words_comes_first_then_what_has_to_be_alike_then_what_is_rare() -> None:
    facts = [
        Fact("base", PEER_DIFFERS_KEY, "5.19", "system kernel", attrs={"most": "5.15", "hosts": 9, "of": 10}),
        Fact("base", PEER_DIFFERS_KEY, "absent", "mount /data", attrs={"most": "nfs4", "hosts": 9, "of": 10}),
        Fact("base", PEER_DIFFERS_KEY, "absent", "service sssd", attrs={"most": "active", "hosts": 6, "of": 10}),
    ]
    assert [fact.device for fact in sort_rarest_first(facts)] == ["mount /data", "service sssd", "system kernel"]
    assert sort_rarest_first(facts, ["it must be the kernel"])[0].device == "system kernel"
    assert sort_rarest_first(facts, ["sssd looks odd"])[0].device == "service sssd"


def test_limits_of_a_daemon_that_does_not_run_are_no_difference() -> None:
    limits = ["slurmd processes = 96365", "sssd processes = 500"]
    gone = rows("limit", limits, limits, ["sssd processes = 500"], limits)
    stopped = rows("daemon", ["slurmd = runs"], ["slurmd = runs"], [], ["slurmd = runs"])
    assert {(fact.host, fact.device) for fact in find_peer_differences([*gone, *stopped], one)} == {("n3", "daemon slurmd")}
    assert {(fact.host, fact.device) for fact in find_peer_differences(gone, one)} == {("n3", "limit slurmd processes")}


EVERY_KIND = (
    "service sssd", "service slurmd", "daemon slurmd", "mount /data", "route default", "route neighbour 10.0.0.1", "link eth0", "resolver nameserver",
    "hosts ctl", "device /dev/nvidia", "device /dev/infiniband/uverbs", "library libcuda.so.1", "library libnccl.so.2", "package munge",
    "config /etc/slurm/slurm.conf", "limit slurmd processes", "sysctl vm.swappiness", "cmdline iommu", "module nvidia_peermem", "system kernel",
    "system time zone", "system memory", "system cpus", "answer name of server nas1",
)  # fmt: skip
PRIORS = dict.fromkeys(load_taxonomy().decidable.leaves, 2.0)


@pytest.mark.parametrize("device", EVERY_KIND)
def test_a_difference_alone_never_exceeds_six_tenths_confidence(device: str) -> None:
    kind, _, name = device.partition(" ")
    usual = [f"{name} = usual"]
    for own in (["other = 1"], [f"{name} = failed"], [f"{name} = inactive"], [f"{name} = 2"]):
        now = assess_facts(
            rows(kind, usual, usual, own, usual), ReferenceData(load_taxonomy().decidable, CHECKS), ["n1", "n2", "n3", "n4"], PRIORS, T0
        )
        assert not now.roots
        speaking = [row for row in now.beliefs if any(match.fact.key in DIFFERENCE_KEYS for match in row.support)]
        assert all(row.posterior <= 0.6 + 1e-9 and row.log_odds <= MAX_DIFFERENCE_LOG_ODDS for row in speaking)


def test_what_has_to_be_alike_is_abnormal_and_a_setting_is_not() -> None:
    def odd(device: str) -> bool:
        return is_abnormal(Fact("base", PEER_DIFFERS_KEY, "x", device, host="n1", attrs={"most": "y", "hosts": 2, "of": 3}))

    assert odd("service sssd")
    assert odd("mount /data")
    assert not odd("service slurmd"), "the check of services says that itself"
    assert not odd("system time zone")
    assert odd("answer name of server nas1")
    assert not odd("package munge")
    assert not odd("system kernel")


def one(host: str) -> str:
    return "all"


def test_a_host_is_compared_with_what_it_was_when_it_was_last_seen_well() -> None:
    before = {"n1": HostBaseline(T0, {"system": ("kernel = 5.15", "time zone = Etc/UTC +0000"), "mount": ("/data = nfs4",)})}
    now = [*rows("system", ["kernel = 6.8", "time zone = Etc/UTC +0000"]), *rows("mount", ["/ = ext4"])]
    found = {fact.device: (fact.key, fact.value, fact.attrs["before"]) for fact in find_past_differences(now, before, one)}
    assert found == {
        "system kernel": (PAST_DIFFERS_KEY, "6.8", "5.15"),
        "mount /": (PAST_DIFFERS_KEY, "ext4", "absent"),
        "mount /data": (PAST_DIFFERS_KEY, "absent", "nfs4"),
    }


def test_a_host_that_was_looked_at_alone_is_compared_with_peers_of_earlier_incidents() -> None:
    seen = {f"n{n}": HostBaseline(T0, {"service": ("slurmd = active",)}) for n in range(2, 6)}
    found = find_past_differences(rows("service", ["slurmd = inactive"]), seen, one)
    assert [(fact.host, fact.key, fact.value, fact.attrs["most"]) for fact in found] == [("n1", PEER_DIFFERS_KEY, "inactive", "active")]


def test_peers_of_now_are_preferred_to_those_of_then_and_other_kinds_are_no_peers() -> None:
    seen = {f"m{n}": HostBaseline(T0, {"service": ("slurmd = active",)}) for n in range(8)}
    assert find_past_differences(rows("service", *(["slurmd = inactive"],) * 3), seen, one) == []
    assert find_past_differences(rows("service", ["slurmd = inactive"]), seen, lambda host: host[0]) == []


def test_only_hosts_that_were_read_whole_are_remembered() -> None:
    part = Fact("base", "", status=Status.UNREADABLE, line="it broke off", host="n2")
    found = build_baselines([*rows("system", USUAL, USUAL), part])
    assert list(found) == ["n1"]
    assert found["n1"] == HostBaseline(T0, {"system": USUAL})
