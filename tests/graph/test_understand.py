"""Reports in everyday words: hosts, job, time and symptoms."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from graph.extraction.hosts import expand_host_numbers
from graph.extraction.reports import ParsedReport, parse_report
from kb.taxonomy.symptoms import SYMPTOM_BY_SIGNATURE, SYMPTOM_CLASSES, find_symptoms
from kb.taxonomy.taxonomy import SYMPTOMS

NOW = datetime(2026, 5, 20, 9, 30, tzinfo=UTC)
HOSTS = tuple(f"gpu-{number:03}" for number in range(1, 33))


def read(text: str, known: tuple[str, ...] = HOSTS) -> ParsedReport:
    return parse_report(text, known, NOW)


def test_the_on_call_story_is_understood_whole() -> None:
    told = read("job 4711 hangs, NCCL timeout on gpu-[017-020]")
    assert told == ParsedReport(
        hosts=("gpu-017", "gpu-018", "gpu-019", "gpu-020"),
        job="4711",
        symptoms=("nccl_timeout", "hang"),
    )


def numbered(*numbers: int) -> tuple[str, ...]:
    return tuple(f"gpu-{number:03}" for number in numbers)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu-[001-003,7] slow", numbered(1, 2, 3, 7)),
        ("gpu-[001-003,007] slow", numbered(1, 2, 3, 7)),
        ("gpu-{001..003} slow", numbered(1, 2, 3)),
        ("gpu-001..003 slow", numbered(1, 2, 3)),
        ("gpu-001 to gpu-003 slow", numbered(1, 2, 3)),
        ("gpu-001 through 003 slow", numbered(1, 2, 3)),
        ("gpu-001–gpu-003 slow", numbered(1, 2, 3)),
        ("gpu-001-003 slow", numbered(1, 2, 3)),
        ("gpu-001, 002 and 005 slow", numbered(1, 2, 5)),
        ("gpu-001/002", numbered(1, 2)),
        ("gpu-001,gpu-004", numbered(1, 4)),
        ("nodes 17-19 slow", numbered(17, 18, 19)),
        ("`gpu-002`, *gpu-003*", numbered(2, 3)),
        ("GPU-002.cluster.local is slow", numbered(2)),
        ("<http://gpu-005.example.com|gpu-005.example.com>", numbered(5)),
        ("gpu-7 is slow", numbered(7)),
        ("xgpu-001 and gpu-0010, gpu-001x, my-gpu-001", ()),
        ("GPU 3 of 8 GPUs, gpu3, 8 nodes 16 GPUs", ()),
        ("gpu-2-4 is short a GPU", ()),
    ],
)
def test_hosts_are_found_however_they_are_written(text: str, hosts: tuple[str, ...]) -> None:
    assert read(text).hosts == hosts


def test_short_and_full_names_of_a_host_are_one() -> None:
    known = ("ip-10-2-0-5.ec2.internal", "n5", "n6", "login01")
    assert read("ip-10-2-0-5 and N5 fail, n6 is slow", known).hosts == ("ip-10-2-0-5.ec2.internal", "n5", "n6")


def test_a_look_alike_is_no_known_host() -> None:
    assert read("gpu\u2011001 is slow").hosts == ()


def test_unknown_hosts_are_named_as_such() -> None:
    told = read("gpu-031, gpu-099 and node foo-12 are slow, our H100 too")
    assert (told.hosts, told.unknown_hosts) == (("gpu-031",), ("gpu-099", "foo-12"))
    assert read("gpu-[031-034] are slow").unknown_hosts == ("gpu-033", "gpu-034")


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("job 4711 hangs", "4711"),
        ("job 7 hangs", "7"),
        ("what about `job 7`?", "7"),
        ("please cancel job 7.", "7"),
        ("give the job 8 GPUs", ""),
        ("it killed my job 2 hours ago", ""),
        ("job 1 of 3 died", ""),
        ("our job 2.5x slower", ""),
        ("Job #4711 hangs", "4711"),
        ("slurm job id 4711", "4711"),
        ("jobid=4711_3 died", "4711_3"),
        ("JobId: 4711", "4711"),
        ("SLURM_JOB_ID=4711", "4711"),
        ("job `llama-70b-7` hangs", "llama-70b-7"),
        ("our job is slow on 16 nodes", ""),
        ("all jobs fail since 03:10", ""),
    ],
)
def test_the_job_is_found(text: str, job: str) -> None:
    assert read(text).job == job


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 5, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("slow since 03:10", at(20, 3, 10), None),
        ("slow since 14:05", at(19, 14, 5), None),
        ("slow since yesterday 22:15 CEST", at(19, 20, 15), None),
        ("died around 08:05 UTC", at(20, 7, 55), None),
        ("died at 3pm PST", at(19, 22, 50), None),
        ("at 2026-05-18 22:00 it broke", at(18, 21, 50), None),
        ("between 02:00 and 03:30 it was slow", at(20, 2), at(20, 3, 30)),
        ("from 23:00 to 01:00", at(19, 23), at(20, 1)),
        ("10 minutes ago", at(20, 9, 20), None),
        ("since an hour ago", at(20, 8, 30), None),
        ("stuck for the last 2 hours", at(20, 7, 30), None),
        ("last night", at(19, 18), at(20, 6)),
        ("this morning", at(20, 5), None),
        ("we went from 8 to 16 nodes and used 4 GPUs", None, None),
        ("error 12 on 8 ranks", None, None),
    ],
)
def test_the_time_is_found(text: str, since: datetime | None, until: datetime | None) -> None:
    told = read(text)
    assert (told.since, told.until) == (since, until)


PARAPHRASES = [
    (
        "hang",
        [
            "it is stuck at step 400",
            "training froze",
            "no progress for an hour",
            "the run hasn't moved since",
            "all ranks sit there doing nothing",
            "it never finishes",
            "stopped printing",
            "everything is frozen",
            "deadlocked",
            "GPUs at 100% but nothing happens",
            "wedged",
            "stalls after warm-up",
        ],
    ),
    (
        "slow",
        [
            "slower than last week",
            "throughput dropped by half",
            "step time doubled",
            "only 40% of expected",
            "MFU is low",
            "bandwidth fell to 90 GB/s",
            "it crawls",
            "takes twice as long",
            "performance degraded",
            "poor NCCL bandwidth",
        ],
    ),
    (
        "no_device",
        [
            "I can't see the GPU",
            "one GPU is missing",
            "nvidia-smi shows only 7 GPUs",
            "GPU 3 disappeared",
            "torch finds no CUDA devices",
            "7 of 8 GPUs",
            "lost a GPU",
            "Failed to initialize NVML",
            "cuda not available",
            "the card fell off the bus",
        ],
    ),
    ("cuda_oom", ["CUDA out of memory", "we OOM on the GPU", "ran out of GPU memory", "torch.OutOfMemoryError"]),
    (
        "killed",
        [
            "the job was killed",
            "exit code 137",
            "got preempted",
            "DataLoader worker died",
            "it ended without any message",
            "SIGTERM out of nowhere",
        ],
    ),
    ("nccl_timeout", ["NCCL timed out", "watchdog fired", "allreduce times out", "collective operation timeout"]),
    ("ib_err12", ["completion with error 12", "vendor err 129", "InfiniBand errors everywhere", "links are flapping", "NET/IB failure"]),
    ("conn_refused", ["connection refused", "workers cannot connect to the master", "no route to host", "unable to connect to rank 0"]),
    (
        "init_fail",
        [
            "init_process_group fails",
            "the job won't start",
            "crashes at startup",
            "system not yet initialized",
            "container does not start",
            "fails during initialization",
        ],
    ),
    ("invalid_ordinal", ["invalid device ordinal"]),
    (
        "cuda_error",
        ["CUDA error: an illegal memory access", "unspecified launch failure", "cublas blew up", "no kernel image is available"],
    ),
    ("ecc_text", ["uncorrectable ECC error", "row remapping pending", "double-bit errors"]),
    ("loss_nan", ["loss went NaN", "the loss diverges", "loss is nan on restart", "gradients explode"]),
    (
        "py_exception",
        [
            "KeyError in the loader",
            "we get a traceback",
            "No space left on device",
            "permission denied on /data",
            "cannot load the checkpoint",
        ],
    ),
    ("unreachable", ["gpu-003 is down", "can't ssh to gpu-003", "the node is not responding", "host unreachable", "ssh times out"]),
    ("vague", ["GPUs are broken", "something is off with gpu-003", "please check this node", ""]),
]


@pytest.mark.parametrize(("symptom", "text"), [(symptom, text) for symptom, texts in PARAPHRASES for text in texts])
def test_a_symptom_is_heard_in_many_words(symptom: str, text: str) -> None:
    assert symptom in read(text).symptoms


@pytest.mark.parametrize(
    ("symptom", "text"),
    [("hang", "it is not hanging"), ("cuda_oom", "no OOM, just slow"), ("loss_nan", "it went fine"), ("killed", "it did not get killed")],
)
def test_what_is_denied_is_not_heard(symptom: str, text: str) -> None:
    assert symptom not in read(text).symptoms


def test_the_classes_are_those_of_the_taxonomy() -> None:
    assert set(SYMPTOM_CLASSES) == SYMPTOMS
    assert set(SYMPTOM_BY_SIGNATURE.values()) < SYMPTOMS
    assert [name for name, _ in PARAPHRASES if name not in SYMPTOMS] == []


def test_pasted_lines_speak_through_their_signatures() -> None:
    told = read(
        "gpu-003 acts up, dmesg says\n"
        "[Wed May 20 03:09:00 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        "[rank3]: RuntimeError: CUDA error: unspecified launch failure\n"
        "2026-05-20 01:00:00,000 INFO retrying after failed start, timeout set to 600, since 02:00 nothing was slow\n"
    )
    assert told.signatures == ("xid:79", "cuda_launch_failure")
    assert set(told.symptoms) == {"no_device", "cuda_error"}
    assert told.since is None


def test_an_xid_named_in_words_is_a_signature() -> None:
    assert read("we saw XID 79 and SXid error 20034 on gpu-003").signatures == ("xid:79", "sxid:20034")


def test_the_cause_comes_before_its_echoes() -> None:
    text = (
        "[rank0]: [Rank 0] Watchdog caught collective operation timeout\n"
        "[rank13]: Traceback (most recent call last):\n[rank13]:   File 'x'\n[rank13]: KeyError: 'a'\n"
    )
    assert read(text).signatures == ("python_exception", "nccl_timeout")


@given(st.text(max_size=300), st.lists(st.text(max_size=12), max_size=4))
def test_any_text_can_be_read(text: str, known: list[str]) -> None:
    told = parse_report(text, known, NOW)
    assert set(told.hosts) <= set(known)
    assert told.symptoms


@given(
    st.lists(
        st.sampled_from(
            [
                "gpu-",
                "001",
                "[",
                "]",
                "-",
                "..",
                "to",
                "since",
                "03:10",
                "24:99",
                "yesterday",
                " ",
                ",",
                "job",
                "99999999",
                "9" * 7,
                "{",
                "}",
                "ago",
                "2 hours",
            ]
        )
    )
)
def test_fragments_of_ranges_and_times_never_fail(parts: list[str]) -> None:
    assert set(read("".join(parts)).hosts) <= set(HOSTS)


def test_a_huge_range_is_no_attack() -> None:
    assert len(read("gpu-[1-99999999] gpu-[1-9999]{1..9999}").hosts) <= len(HOSTS)


def test_most_published_incidents_are_not_vague() -> None:
    folder = Path(os.environ.get("RACKMEDIC_CAPTURES", Path(__file__).parents[3] / "shared/captures")).parent / "incidents"
    files = sorted(folder.glob("*.yaml"))
    if not files:
        pytest.skip("no incidents beside the captures")
    rows = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    vague = [row["id"] for row in rows if read(f"{row['title']}\n{row['description']}").symptoms == ("vague",)]
    assert len(vague) <= len(rows) * 0.15, vague


def test_words_alone_are_enough_for_the_symptoms() -> None:
    assert find_symptoms("Job is STUCK and Slow") == ("slow", "hang")


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("diff 001 and 003", "diff gpu-001 and gpu-003"),
        ("temps on 003?", "temps on gpu-003?"),
        ("only 003, 004 matter", "only gpu-003, gpu-004 matter"),
        ("gpu-[001-004] and gpu-003", "gpu-[001-004] and gpu-003"),
        ("since 02:40, job 0047 and 099", "since 02:40, job 0047 and 099"),
        ("what about job 003?", "what about job 003?"),
        ("jobs 003 and 004 on 005", "jobs 003 and 004 on gpu-005"),
        ("rank 003 on 004 died with error 005", "rank 003 on gpu-004 died with error 005"),
        ("run nccl on 001 and 002", "run nccl on gpu-001 and gpu-002"),
        ("recheck nodes 3-5", "recheck gpu-003, gpu-004, gpu-005"),
        ("hosts 3-5", "hosts gpu-003, gpu-004, gpu-005"),
        ("recheck nodes 3, 5 and 7", "recheck gpu-003, gpu-005, gpu-007"),
        ("is node 3 ok?", "is gpu-003 ok?"),
        ("nodes 3-9 hang", "nodes 3-9 hang"),
        ("3 nodes 8 GPUs", "3 nodes 8 GPUs"),
    ],
)
def test_a_bare_number_is_the_host_that_has_it(text: str, means: str) -> None:
    assert expand_host_numbers(text, [f"gpu-{n:03}" for n in range(1, 9)]) == means


def test_a_number_that_two_hosts_have_names_neither() -> None:
    assert expand_host_numbers("look at 003", ["gpu-003", "cpu-003"]) == "look at 003"
