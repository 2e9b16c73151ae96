"""A table of leaks as people write them, and of harmless text that must pass."""

import pytest

from bot.tenants.leak_detector import LeakDetector
from tests.support.inventories import inventory

SITE = inventory(
    groups={
        "acme": {"hosts": "gpu-[003-004]", "tenant": "acme", "controller": "ctl"},
        "globex": {"hosts": "gpu-[001-002]", "tenant": "globex"},
        "sap": {"hosts": "b200-r7-[01-04]", "tenant": "sap"},
        "big": {"hosts": "gpu-101", "tenant": "Big Corp"},
        "ctl": {"hosts": "ctl"},
    },
    hosts={"gpu-003": {"leaf": "leaf-sw-7"}, "gpu-001": {"alias": "render-a"}, "gpu-002": {"alias": "train-01"}},
    channels=[
        {"channel": "C0OPS", "name": "gpu-incidents", "kind": "operators", "approvers": "S0APPROVE"},
        {"channel": "C0ACME", "kind": "tenant", "tenant": "acme", "internal": "C0OPS"},
    ],
)
INSIDE = LeakDetector(SITE, "acme", "inc-aaaaaa", ("priya", "Anton Weber", "Will Fox", "Bo Li"))

CUSTOMERS = (
    *(
        "globexcorp has it too",
        "GlobexCorp had the same",
        "theglobex team",
        "globex2",
        "globex's job",
        "Globex's",
        "GLOBEX-EU",
        "globex.com",
    ),
    *(
        "glóbex",
        "ɡlobex und globéx",
        "ｇｌｏｂｅｘ",
        "gl0bex",
        "G.l.o.b.e.x",
        "g l o b e x had it",
        "glоbex",
        "trainglobex7",
        "globexTraining",
    ),
    *("big corp's nodes", "bigcorp", "Big-Corp", "BIG_CORP", "bigcorps nodes", "SAP has it", "SAPcluster", "sap_train", "sap2 is down"),
)
MACHINES = (
    *("gpu 001 is fine", "gpu001", "gpu_001", "GPU001", "gpu.001", "gpu-1 was slow", "gpu #001", "gpu no. 001", "gpu-0001", "gpu  - 001"),
    *("gpu-[1-4]", "gpu[001-002]", "gpu-[001,002]", "gpu-{001,002}", "gpu-00[1-2]", "gpu-(001-002)", "gpu-00{1..2}", "gpu-[003;001]"),
    *("gpu-003 and 002", "gpu-003, 001", "gpu-003/002", "gpu-003 und 001", "gpu-003 & 002", "gpu-003,004,001", "gpu-003 + 001"),
    *(
        "gpu-000 through gpu-004",
        "gpu-001 until 004",
        "gpu-000~004",
        "gpu-001–004",
        "gpu-000 bis 004",
        "gpus 001 and 002",
        "gpu-001, gpu-002",
    ),
    *("gpu-003 through 001", "gpu-001_mlx5", "http://gpu-001/metrics", "user@gpu-001", "gpu-001 - gpu-004", "gpu-001/2"),
    *("gpu-00*", "gpu-00x", "gpu-*", "node 001", "host #002", "Knoten 001", "machines 002", "gpu 101", "GPU101", "gpu-0101"),
    *("leaf sw 7", "leafsw7", "leaf_sw_7", "leaf-sw-07"),
    *("b200 r7 02", "b200r702x b200-r7-2", "B200-R7-[1-4]", "b200-r07-01", "rendera", "render_a"),
    *("train01", "train 01", "train-1", "ctl's log", "ctl-log"),
    *("gpu\u2011001", "gpu\u2212001", "gpu-00\u200b1", "ｇｐｕ-００１", "gpu-001.dc1.example.com:9400"),
)
OTHERS = (
    *("priya_k looks at it", "@priya", "priyas Idee", "A. Weber", "weber/li", "anton weber", "call Priya.", "ask Will about it"),
    *("idrac9", "BMCs"),
    *(
        "BMC-Reset",
        "run book",
        "runbooks",
        "post mortem",
        "kubectl-Zugriff",
        "sudo'd",
        "pagers",
        "PagerDuty",
        "break glass",
        "he is on call",
    ),
    *("IPMI says so", "fe80::1", "gpu_incidents", "oncall-engineer", "anton.weber", "our on-call"),
    *("nvidia-smi  -r", "nvidia smi -r", "the gpu-incidents channel", "approvers said", "scontrol'd"),
    *(
        "it is 10.0.4.17.",
        "10.0.4[.]17",
        "10.0.4.x",
        "(10.0.4.17)",
        "10.0.4.17:9400",
        "grafana.internal/d/1",
        "vault.corp",
        "00-1a-2b-3c-4d-5e",
    ),
    *("noc(at)rackwise.example", "noc [at] rackwise [dot] example", "INC_abcdef", "inc 1bcdef", "incident #ab1def", "apr_0966d9fc3921"),
)
HARMLESS = (
    *(
        "GPU 3 of gpu-003 was replaced.",
        "gpu3 on gpu-004 has ECC errors.",
        "GPUs 1 to 4 of gpu-003 are fine.",
        "GPU 0 and 1 are throttled.",
    ),
    *(
        "gpu-003, 2 times since Monday.",
        "gpu-003 to 14:30 UTC",
        "gpu-003 and 4 more of your jobs",
        "gpu-003 and gpu-004 are back.",
        "gpu 003 is back",
    ),
    *("gpu-[003-004] are free again.", "gpu-003..004 work."),
    *("gpu-003/004", "gpu003", "GPU-004: done.", "your node 003 is back", "8 GPUs, 2 nodes"),
    *(
        "Use NCCL 2.21.5 and driver 550.54.15.",
        "Version 12.4.1 of CUDA, build 550.300.1.2",
        "Start with --exclude=gpu-003.",
        "Xid 79 at 0000:9b:00.0",
    ),
    *("std::vector at 14:30:12 took 3::", "The step took 0.35 s, 1,024 ranks."),
    *("Ring of 16 GPUs at 400 Gb/s", "It hangs on calls to cudaMalloc."),
    *(
        "It depends on call order.",
        "Your ticket is inc-aaaaaa.",
        "Your ticket is INC-AAAAAA.",
        "INC: aaaaaa",
        "The job will start tomorrow.",
        "Will it run? Yes.",
    ),
    *(
        "We repaired gpu-003; please try again.",
        "Acme's job can start again.",
        "Der Acme-Cluster ist wieder frei.",
        "acmecorp and acme-train run",
        "acme2",
    ),
    *("Sapphire Rapids hosts are not affected.", "We sapped nothing; samples run out.", "global batch size 4096", "a globe of text"),
    *(
        "Training renders a picture.",
        "We train 01:30 hours",
        "We train 1 model",
        "Controllers of yours restart",
        "The leaf of the tree, switch 7",
        "big changes, corp",
    ),
    *(
        "In April 202605 it was fine",
        "Incident reports follow",
        "incident accede",
        "Please increase the timeout to 1800 s",
        "bigger corpora",
        "Bolt and Libra",
    ),
    *("We are confident it is fixed.", "The job ran.", "Weberei", "priyanka/model", "10.5 GB of 80.0 GB", "port 29500 on all nodes"),
)


@pytest.mark.parametrize("text", CUSTOMERS)
def test_a_customer_is_found_however_it_is_written(text: str) -> None:
    assert "another customer" in {leak.kind for leak in INSIDE.find_leaks(text)}


@pytest.mark.parametrize("text", MACHINES)
def test_a_machine_is_found_however_it_is_written(text: str) -> None:
    assert "a machine that is not theirs" in {leak.kind for leak in INSIDE.find_leaks(text)}


@pytest.mark.parametrize("text", OTHERS)
def test_a_person_a_word_and_an_address_are_found(text: str) -> None:
    assert INSIDE.find_leaks(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_words_go_through(text: str) -> None:
    assert INSIDE.find_leaks(text) == ()


def test_the_table_is_as_large_as_it_says() -> None:
    assert len(CUSTOMERS) + len(MACHINES) + len(OTHERS) >= 60
    assert len(HARMLESS) >= 40
