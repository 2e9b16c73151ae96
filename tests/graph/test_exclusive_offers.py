"""An exclusive check is proposed only for a finding on the host, or for a complaint about exactly what it measures."""

from collections.abc import Sequence

import pytest

from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.check_selection import rank_exclusive_offers
from graph.engine.reference_data import ReferenceData
from graph.extraction.complaints import find_measuring_checks
from graph.state import Attachment
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.symptoms import find_symptoms
from tests.support.clock import T0
from tests.support.talk import Talk, case_of
from tools.checks import CHECKS
from tools.fact import Fact, Status

NODES = ("gpu-001", "gpu-002", "gpu-003")
LENS = ReferenceData(load_taxonomy().decidable, CHECKS)
BROAD = dict.fromkeys(LENS.taxonomy.leaves, 2.0)  # the highest priors that words and history may give


def weighed(text: str, asked: Sequence[str] = (), *more: Fact) -> Assessment:
    """Assess three hosts whose passive checks are all healthy."""
    calm = [Fact(check.id, "", status=Status.ABSENT, host=host, time=T0) for host in NODES for check in LENS.list_passive_checks()]
    symptoms = find_symptoms(text)
    return assess_facts([*calm, *more], LENS, NODES, BROAD, T0, symptoms, asked, find_measuring_checks(text, symptoms))


def offers(now: Assessment) -> dict[str, tuple[str, ...]]:
    return {offer.check: offer.hosts for offer in rank_exclusive_offers(now)}


@pytest.mark.parametrize(
    "text",
    [
        "something is wrong with gpu-001",
        "please check gpu-[001-003]",
        "our job failed",
        "job 4711 crashed, no idea why",
        "can you have a look at the cluster",
        "the node rebooted last night",
        "is everything ok?",
        "irgendwas stimmt nicht",
        "we cannot log in",
        "NCCL hangs",
    ],
)
def test_healthy_hosts_and_general_words_put_up_nothing(text: str) -> None:
    assert offers(weighed(text)) == {}


PAIR, ONE = ("gpu-001", "gpu-002"), ("gpu-001",)


@pytest.mark.parametrize(
    ("text", "asked", "check"),
    [
        ("slow all_reduce between gpu-001 and gpu-002", PAIR, "ibbw"),
        ("allreduce is slow on gpu-[001-003]", NODES, "nccl2"),
        ("collectives run slowly on gpu-[001-003]", NODES, "nccl2"),
        ("nccl-tests show low bandwidth, all_gather slow on gpu-001", ONE, "nccl1"),
        ("busbw dropped, slow since yesterday on gpu-001", ONE, "nccl1"),
        ("RDMA is slow between gpu-001 and gpu-002", PAIR, "ibbw"),
        ("ib_write_bw is slow between gpu-001 and gpu-002", PAIR, "ibbw"),
        ("slow H2D copies on gpu-001", ONE, "bw"),
        ("p2p is slow on gpu-001", ONE, "p2p"),
        ("slow matmuls on GPU 3 of gpu-001", ONE, "gemm"),
        ("wrong results on GPU 3 of gpu-001", ONE, "sdc"),
        ("NaN on GPU 3 of gpu-001", ONE, "sdc"),
    ],
)
def test_a_complaint_of_exactly_that_puts_it_up_where_it_was_named(text: str, asked: tuple[str, ...], check: str) -> None:
    assert offers(weighed(text, asked)).get(check) == asked


@pytest.mark.parametrize("check", [check.id for check in CHECKS.values() if check.exclusive])
def test_no_exclusive_check_is_put_up_on_hosts_without_a_finding(check: str) -> None:
    assert check not in offers(weighed("something is wrong", NODES))


def test_a_finding_on_one_host_asks_for_its_test_there_alone() -> None:
    seen = Fact("smi", "gpu.throttle.sw_power_cap", True, "gpu3", host="gpu-002", time=T0)
    now = weighed("training is slow", NODES, seen, Fact("dmesg", "kernel.xid", 48, "gpu3", host="gpu-002", time=T0))
    assert all(hosts == ("gpu-002",) for check, hosts in offers(now).items() if CHECKS[check].scope == "host" and check != "sdc")


def test_a_slow_word_without_what_is_slow_measures_nothing() -> None:
    for text in ("training is slow", "gpu-001 is slow", "all_reduce hangs", "all_reduce times out"):
        assert find_measuring_checks(text, find_symptoms(text)) == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "log", "target"),
    [
        ("something is wrong with gpu-[001-003]", "", ""),
        ("please look at this", "NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', GPU has fallen off the bus.", ""),
        ("wrong results on GPU 3 of gpu-001", "", "gpu-001"),
    ],
)
async def test_busy_hosts_see_a_card_only_where_it_is_asked_for(text: str, log: str, target: str) -> None:
    talk = Talk.over(build_case_run(case_of(nodes=NODES)))
    given = [Attachment(name="kern.log", text=f"Nov 20 03:00:00 gpu-099 kernel: {log}\n")] if log else []
    await talk.reports(text, *given)
    assert [row.target for row in (await talk.rows()).remediations] == ([target] if target else [])
