"""Clock, CPU, interface, subnet, scheduler, shared mount and BMC checks: what their outputs say and leave unobserved."""

import re
from datetime import UTC, datetime

import pytest

from graph.engine.abnormal_facts import is_abnormal
from kb.taxonomy.loader import load_taxonomy
from tests.support import samples_checks as samples
from tools.checks import CHECKS
from tools.fact import Fact, Status


def read(check: str, *texts: str) -> list[Fact]:
    facts = [fact for text in texts for fact in CHECKS[check].parse_output(text)]
    settle = CHECKS[check].settle
    return list(settle(facts)) if settle else facts


def values(facts: list[Fact]) -> dict[tuple[str, str | None], object]:
    return {(fact.key, fact.device): fact.value for fact in facts if fact.status is Status.OK}


NEW = ("docker", "time", "sched", "cpu", "net", "store", "ipmi", "vers", "fabric")


@pytest.mark.parametrize("check", NEW)
def test_a_look_that_failed_stays_failed(check: str) -> None:
    refused = Fact(check, "", status=Status.DENIED, line="sudo: a password is required")
    settle = CHECKS[check].settle
    assert settle is None or refused in settle([refused])


def test_most_cpus_name_the_governor_and_the_middle_one_the_frequency() -> None:
    facts = read("cpu", samples.LSCPU, samples.GOVERNORS)
    assert values(facts) == {
        ("cpu.count", None): 224,
        ("cpu.numa_nodes", None): 2,
        ("cpu.governor", None): "powersave",
        ("cpu.mhz", None): 1200,
    }
    assert next(fact for fact in facts if fact.key == "cpu.governor").attrs == {"cpus": 3, "of": 4, "driver": "intel_pstate"}
    assert values(read("cpu", samples.CPUPOWER)) == {("cpu.governor", None): "powersave"}


def test_chrony_tells_offset_and_leap_in_both_of_its_forms() -> None:
    assert values(read("time", samples.CHRONY)) == {("time.offset", None): -412.000012411, ("time.synchronised", None): False}
    assert values(read("time", samples.CHRONY_TEXT)) == {("time.offset", None): -3.000012411, ("time.synchronised", None): True}


@pytest.mark.parametrize("text", [samples.CHRONY_NO_SOURCE, samples.CHRONY_NO_SOURCE_TEXT])
def test_without_a_time_source_chrony_knows_no_offset(text: str) -> None:
    assert values(read("time", text)) == {("time.synchronised", None): False}


def test_a_clock_that_anything_keeps_is_kept() -> None:
    silent, kept = "506 Cannot talk to daemon\n", "NTP=yes\nNTPSynchronized=yes\n"
    assert values(read("time", silent, kept))[("time.synchronised", None)] is True
    assert values(read("time", silent))[("time.synchronised", None)] is False
    unkept = read("time", "1779246600.120000000\n")
    assert values(unkept) == {("time.clock", None): 1779246600.12, ("check.skipped", None): "no_tool"}, "nobody said whether it is kept"


def test_only_interfaces_of_a_network_have_an_mtu_worth_comparing() -> None:
    found = values(read("net", samples.IP_LINK))
    assert {device for key, device in found if key == "net.mtu"} == {"eth0"}
    assert found[("net.rx_dropped", "eth0")] == 7
    assert found[("net.state", "eth1")] == "DOWN"
    assert values(read("net", samples.IP_LINK_TEXT))[("net.mtu", "eth0")] == 1500


def test_discards_and_pause_frames_are_added_up_for_each_adapter() -> None:
    found = values(read("net", samples.ADAPTERS))
    assert found == {("net.rx_discards", "eth2"): 912334, ("net.pause", "eth2"): 42, ("net.rx_discards", "eth3"): 0}


def test_the_worst_of_several_masters_counts_and_what_is_unknown_counts_for_nothing() -> None:
    assert values(read("net", samples.MASTERS)) == {("net.master_reach", None): "no_name"}
    (fact,) = [fact for fact in read("net", "master 10.0.0.1 29500 unknown\n") if fact.key == "net.master_reach"]
    assert fact.status is Status.ABSENT


def test_silence_of_the_subnet_manager_is_not_the_lack_of_a_port() -> None:
    assert values(read("fabric", samples.SMINFO)) == {("fabric.sm", None): "MASTER"}
    assert values(read("fabric", samples.NO_SM)) == {("fabric.sm", None): "none"}
    (fact,) = read("fabric", "sminfo: iberror: failed: Failed to open '(null)' port '0'\n")
    assert (fact.key, fact.value) == ("check.skipped", "no_device"), "nobody was asked, so nothing is well"


def test_a_leaf_is_judged_by_its_links_to_switches_and_not_by_those_to_hosts() -> None:
    found = read("fabric", samples.IBLINKINFO)
    assert values(found) == {("fabric.leaf", None): "leaf-2", ("fabric.degraded", None): 1}
    assert "spine-1" in found[1].line
    to_a_host = samples.IBLINKINFO.replace('"spine-1"', '"gpu-018 mlx5_0"').replace('"spine-2"', '"gpu-019 mlx5_0"')
    (none,) = [fact for fact in read("fabric", to_a_host) if fact.key == "fabric.degraded"]
    assert none.status is Status.ABSENT, "a leaf without links to switches has none that is degraded, and none that is whole"


ONE_HOP = """\
0x0000000000200000 "               leaf1"      2    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>  0x0000000000100001      3    1[  ] "gpu-001 mlx5_0" ( )
0x0000000000200000 "               leaf1"      2    3[  ] ==(                Down/ Polling)==>             [  ] "" ( )
0x0000000000200000 "               leaf1"      2   35[  ] ==( 1X      25.78125 Gbps Active/  LinkUp)==>      "Port not available"
0x0000000000200000 "               leaf1"      2   36[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>      "Port not available"
0x0000000000100001 "      gpu-001 mlx5_0"      3    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>  0x0000000000200000      2    1[  ] "leaf1" ( )
"""
TWO_HOPS = """\
0x0000000000200002 "              spine1"      5    1[  ] ==( 1X      25.78125 Gbps Active/  LinkUp)==>  0x0000000000200000      2 35[  ] "leaf1" ( Could be 4X)
0x0000000000200002 "              spine1"      5    2[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>  0x0000000000200000      2   36[  ] "leaf1" ( )
0x0000000000200002 "              spine1"      5    3[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>      "Port not available"
0x0000000000200002 "              spine1"      5    4[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>      "Port not available"
0x0000000000200000 "               leaf1"      2    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>  0x0000000000100001      3    1[  ] "gpu-001 mlx5_0" ( )
0x0000000000200000 "               leaf1"      2   35[  ] ==( 1X      25.78125 Gbps Active/  LinkUp)==>  0x0000000000200002      5 1[  ] "spine1" ( Could be 4X)
0x0000000000200000 "               leaf1"      2   36[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>  0x0000000000200002      5    2[  ] "spine1" ( )
"""


def test_links_that_iblinkinfo_could_not_follow_are_not_well() -> None:
    found = read("fabric", ONE_HOP)
    assert values(found) == {("fabric.leaf", None): "leaf1"}
    (unseen,) = [fact for fact in found if fact.status.blind]
    assert "2 links of leaf1 could not be followed" in unseen.line


def test_two_hops_show_the_leafs_links_despite_unfollowed_spine_links() -> None:
    found = read("fabric", TWO_HOPS)
    assert values(found) == {("fabric.leaf", None): "leaf1", ("fabric.degraded", None): 1}
    assert found[1].attrs == {"leaf": "leaf1", "uplinks": 2, "port": "35", "width": "1X", "could": "4X"}
    assert not any(fact.status.blind for fact in found)


# ibsim, and a fabric of faster parts than the site uses, print this for every link
BUILT_FOR_MORE = "(Could be 12X Could be 53.125 Gbps)"


def of_faster_parts(text: str) -> str:
    return re.sub(r"\( (?:Could be 4X)?\)", BUILT_FOR_MORE, text)


@pytest.mark.parametrize(("width", "degraded"), [("4X", 0), ("1X", 1), ("2X", 1)])
def test_a_fabric_whose_every_link_could_be_more_is_well_but_for_one_below_the_others(width: str, degraded: int) -> None:
    found = read("fabric", of_faster_parts(TWO_HOPS).replace("1X ", f"{width} "))
    assert values(found)["fabric.degraded", None] == degraded


def test_a_fabric_whose_uplinks_all_carry_less_than_its_adapters_is_not_well() -> None:
    found = read("fabric", re.sub(r'(leaf1" +2 +3[56].{3,8}==\( )4X', r"\g<1>1X", of_faster_parts(TWO_HOPS)))
    assert values(found)["fabric.degraded", None] == 2


def test_slurm_says_state_and_reason_in_each_of_its_forms() -> None:
    assert values(read("sched", samples.NODE)) == {
        ("sched.state", None): "ALLOCATED+DRAIN+NOT_RESPONDING",
        ("sched.reason", None): "maintenance CHG-204",
        ("sched.partitions", None): ["gpu"],
    }
    assert values(read("sched", samples.NODE_JSON)) == {("sched.state", None): "IDLE+DRAIN", ("sched.reason", None): "planned work"}


def test_the_partitions_of_a_node_are_read_in_both_forms() -> None:
    (named,) = [
        fact for fact in read("sched", "NodeName=n1 State=IDLE Partitions=train,debug Weight=1\n") if fact.key == "sched.partitions"
    ]
    (listed,) = [
        fact
        for fact in read("sched", '{"nodes": [{"name": "n1", "state": ["IDLE"], "partitions": ["train", "debug"]}]}')
        if fact.key == "sched.partitions"
    ]
    assert named.value == listed.value == ["train", "debug"]


def test_the_latest_job_counts() -> None:
    found = [fact for fact in read("sched", samples.SACCT) if fact.key == "sched.job"]
    assert [(fact.value, fact.attrs["job"]) for fact in found] == [("PREEMPTED", "812")]


def test_a_node_that_slurm_does_not_know_has_no_state() -> None:
    (fact,) = read("sched", "Node gpu-017 not found\n")
    assert (fact.key, fact.status) == ("sched.state", Status.ABSENT)


NO_MUNGE = """scontrol: error: If munged is up, restart with --num-threads=10
scontrol: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2": No such file or directory (Did you start munged?)
scontrol: error: slurm_send_node_msg: auth_g_create: REQUEST_NODE_INFO has authentication error
slurm_load_node error: Protocol authentication error
"""
NO_CONTROLLER = "slurm_load_node error: Unable to contact slurm controller (connect failure)\n"
NO_DATABASE = """sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:ctl:6819: Connection refused
sacct: error: Problem talking to the database: Connection refused
"""
NO_ACCOUNTS = "Slurm accounting storage is disabled\n"


@pytest.mark.parametrize(("text", "word"), [(NO_MUNGE, "munge"), (NO_CONTROLLER, "slurmctld"), (NO_DATABASE, "slurmdbd")])
def test_a_scheduler_that_does_not_answer_could_not_be_asked_and_every_host_says_so_in_the_same_words(text: str, word: str) -> None:
    (fact,) = read("sched", text, text)
    assert (fact.key, fact.status) == ("", Status.UNREACHABLE)
    assert word in fact.line
    assert "gpu" not in fact.line


@pytest.mark.parametrize("said", ["Zero Bytes were transmitted or received", "Invalid authentication credential"])
def test_a_controller_that_takes_no_credential_of_a_host_rejects_it(said: str) -> None:
    unasked, rejected = read("sched", f"slurm_load_node error: {said}\n")
    assert (unasked.key, unasked.status) == ("", Status.UNREACHABLE)
    assert (rejected.key, rejected.device, rejected.value) == ("base.answer", "scheduler", "rejected")


def test_the_queue_names_the_jobs_of_a_node_where_no_cgroup_does() -> None:
    found = read("sched", samples.NODE, "14,RUNNING,alice\n13,RUNNING,alice\n9,PENDING,bob\n")
    assert values(found)["sched.running", None] == ["14", "13"]
    assert read("sched", samples.NODE, NO_CONTROLLER)[-1].status is Status.UNREACHABLE


def test_a_site_without_accounts_has_answered() -> None:
    found = read("sched", samples.NODE, NO_ACCOUNTS)
    assert not any(fact.status.blind for fact in found)
    assert [fact.status for fact in found if fact.key == "sched.job"] == [Status.ABSENT]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("gres/gpu count reported lower than configured (6 < 8) [slurm@2026-11-22T18:29:23]", "gpus_missing"),
        ("Kill task failed [root@2026-11-22T18:18:41]", "kill_task_failed"),
        ("Not responding [slurm@2026-11-22T18:18:41]", "not_responding"),
        ("batch job complete failure [slurm@2026-11-22T18:18:41]", "batch_job_failure"),
        ("Prolog error [root@2026-11-22T18:18:41]", "prolog_failed"),
        ("Low RealMemory (reported:1000 < 100.00% of configured:2000) [slurm@2026-11-22T18:18:41]", "hardware_missing"),
        ("bad fan, see ticket 4211 [priya@2026-11-22T18:18:41]", None),
    ],
)
def test_what_slurm_itself_says_of_a_node_is_told_from_what_people_do(reason: str, told: str | None) -> None:
    found = read("sched", f"NodeName=gpu-003 State=IDLE+DRAIN+INVALID_REG Partitions=train Reason={reason}\n")
    (why,) = [fact for fact in found if fact.key == "sched.reason"]
    assert values(found)["sched.state", None] == "IDLE+DRAIN+INVALID_REG"
    assert (why.value, why.attrs.get("told"), bool(why.attrs["by"]), is_abnormal(why)) == (
        reason.partition(" [")[0],
        told,
        True,
        bool(told),
    )


@pytest.mark.parametrize(
    ("reason", "planned"),
    [("maintenance CHG-204", True), ("planned work", True), ("unplanned outage", False), ("Unscheduled maintenance", False)],
)
def test_an_unplanned_drain_is_no_planned_maintenance(reason: str, planned: bool) -> None:
    leaf = load_taxonomy().leaves["OTHER.SCHED.Planned_Maintenance"]
    (why,) = [
        fact
        for fact in read("sched", f"NodeName=gpu-003 State=IDLE+DRAIN Reason={reason} [root@2026-11-22]\n")
        if fact.key == "sched.reason"
    ]
    assert any(clue.matches(why, None, None) for clue in leaf.evidence) is planned


def test_a_mount_without_an_answer_is_where_the_look_got_stuck() -> None:
    found = values(read("store", samples.SHARED_MOUNTS))
    assert found == {("store.mount", "/home"): "ok", ("store.mount", "/old"): "stale", ("store.mount", "/data"): "timeout"}


def test_the_bmc_tells_what_still_stands_and_when() -> None:
    found = read("ipmi", samples.SEL)
    assert [(fact.value, fact.time) for fact in found] == [
        ("psu", datetime(2026, 5, 20, 3, 1, 22, tzinfo=UTC)),
        ("pcie", datetime(2026, 5, 20, 3, 1, 23, tzinfo=UTC)),
    ]


def test_the_hottest_inlet_and_failed_supplies_are_found_and_unfitted_sensors_are_not() -> None:
    found = read("ipmi", samples.SDR, samples.SDR_POWER)
    assert ("ipmi.inlet", 43) in [(fact.key, fact.value) for fact in found]
    sensors = [(fact.value, fact.attrs["sensor"]) for fact in found if fact.key == "ipmi.sensor"]
    assert ("psu", "PSU2 Status") in sensors
    assert not {sensor for _, sensor in sensors} & {"PSU1 Status", "Riser Temp"}


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("SEL has no entries\n", Status.ABSENT),
        ("Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: No such file or directory\n", Status.OK),
        ("Get SDR 0000 command failed\n", Status.UNREADABLE),
    ],
)
def test_a_bmc_with_nothing_to_say_is_no_trouble_and_one_that_fails_is_unreadable(text: str, status: Status) -> None:
    assert [fact.status for fact in read("ipmi", text)] == [status]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (samples.HEADERS, "ok"),
        (samples.HEADERS_SLOW, "throttled"),
        (samples.HEADERS_PROXY, "error"),
        (samples.CURL_REFUSED, "refused"),
        (samples.CURL_NO_NAME, "no_name"),
        ("curl: (28) Connection timed out after 3001 milliseconds\n", "timeout"),
        ("curl: (7) Couldn't connect to server: No route to host\n", "timeout"),
        ("curl: (60) SSL certificate problem: certificate is not yet valid\n", "tls"),
        ("curl: (52) Empty reply from server\n", "other"),
        ("HTTP/2 429 \r\n\r\n", "throttled"),
        ("HTTP/1.1 301 Moved Permanently\r\nLocation: https://elsewhere.example/\r\n\r\n", "ok"),
    ],
)
def test_a_service_that_asks_for_credentials_answers_and_one_that_complains_does_not(text: str, word: str) -> None:
    assert values(read("store", text))["store.object", None] == word
    assert values(read("net", text))["net.tracker", None] == word


def test_an_event_from_before_the_bmc_knew_the_time_is_an_event() -> None:
    """Format of ipmitool 1.8.19: two blanks before the word, none around the seconds since the BMC's start."""
    (found,) = read("ipmi", "   1 |  Pre-Init  |0000027752| Power Supply #0x51 | Failure detected | Asserted\n")
    assert (found.key, found.value, found.time) == ("ipmi.event", "psu", None)


def test_a_sensor_beyond_its_threshold_is_abnormal_in_every_output_format() -> None:
    rows = "Inlet Temp       | 01h | ucr |  7.1 | 47 degrees C\nFAN1             | 02h | lcr |  7.2 | 500 RPM\nFAN2 | 03h | cr |  7.3 | 0 RPM\n"
    found = [fact for fact in read("ipmi", rows) if fact.key == "ipmi.sensor"]
    assert [(fact.value, fact.attrs["sensor"]) for fact in found] == [("temperature", "Inlet Temp"), ("fan", "FAN1"), ("fan", "FAN2")]
