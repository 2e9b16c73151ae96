"""Attached files are acknowledged with name, size and findings, or the reason they were not read, on first messages and
replies.
"""

import json
from typing import get_args

import pytest

from graph.engine.abnormal_facts import is_abnormal
from graph.extraction.pasted_text import extract_pasted_facts, find_quoted_lines
from graph.extraction.uploaded_files import UNREAD_REASONS, build_attachment, build_file_read, decode_file, format_file_read
from graph.report import FileReadResult
from graph.state import Attachment, InboxItem, InboxItemKind, UnreadReason
from tests.graph.test_flow import LOST_ON_N2, Desk, world
from tests.support.fakes_graph import item
from tools.checks import CHECKS

LOG = """2026-05-20T02:40:00Z [rank0]: step 1 loss 2.3
2026-05-20T02:41:11Z [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
2026-05-20T02:51:10Z [rank1]: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=184, OpType=ALLREDUCE, Timeout(ms)=600000)
"""
KERNEL = "[Wed May 20 02:41:10 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.\n"


def read(name: str, text: str, size: int = 0) -> FileReadResult:
    given, pasted = Attachment(name=name, size=size or len(text)), extract_pasted_facts(text, CHECKS)
    return build_file_read(given, pasted.facts, is_abnormal, recognised=pasted.recognised)


def test_a_file_is_acknowledged_by_its_size_and_what_was_found_in_it() -> None:
    assert format_file_read(read("rank0.log", LOG, 1_234_567)) == "1.2 MB: 2 kinds of errors, first cuda oom at 02:41 UTC"
    assert format_file_read(read("dmesg", KERNEL)).endswith(
        "bytes: Xid 79 on 0000:9b:00.0: GPU fell off the PCIe bus: driver reads all ones at 02:41 UTC"
    )
    assert format_file_read(read("notes.txt", "hello\nworld\n", 12)) == "12 bytes: I cannot read this kind of output"


# outputs that people send and no parser knows
UNKNOWN_KINDS = {
    "mlxlink": "Module Info\n-----------\nTemperature [C] : 71 [-10..80]\nRx LOS [per lane] : 0,0,1,0\n",
    "iblinkinfo": 'Switch: 0xb0cf leaf-07:\n 12 4[  ] ==( Down/ Polling)==> [  ] "" ( )\n',
    "ibdiagnet": "-E- Link lid=12 port=4 has speed 25 while both ports support 100\nStage  Warnings  Errors\nNodes Info 0 3\n",
    "dcgmi nvlink": "+----+\n| NVLINK Error Counts |\n| GPU 0 |\n+----+\n| Link 0 | CRC FLIT Error | 812 |\n",
    "perfquery": "# Port counters: Lid 12 port 1\nSymbolErrorCounter:..............812\nLinkDownedCounter:...............4\n",
    "json": '{"status": "degraded", "devices": [{"id": 3, "state": "failed"}]}\n',
    "yaml": "nodes:\n  - name: gpu-001\n    healthy: false\n",
    "table": "NODE     STATE    GPUS\ngpu-001  drained  7/8\n",
}


@pytest.mark.parametrize("kind", UNKNOWN_KINDS)
def test_an_output_of_no_known_form_is_never_called_clean(kind: str) -> None:
    row = read("out.txt", UNKNOWN_KINDS[kind])
    assert (row.recognised, row.kinds) == (False, 0)
    assert "I cannot read this kind of output" in format_file_read(row)


def test_lines_that_may_tell_of_trouble_are_counted_and_the_first_is_shown() -> None:
    row = read(
        "rank0.log", "2026-05-20T02:40:00Z step 1\n2026-05-20T02:41:00Z ERROR: the frobnicator is lost\n2026-05-20T02:42:00Z FATAL: gone\n"
    )
    assert (row.recognised, row.kinds, row.not_understood) == (True, 0, 2)
    assert row.line == "2026-05-20T02:41:00Z ERROR: the frobnicator is lost"


@pytest.mark.parametrize(
    "line",
    ["2026-05-20T02:40:00Z step 12 loss 2.31 errors=0", "2026-05-20T02:40:00Z INFO retrying after timeout", "2026-05-20T02:40:00Z no errors so far",
     "2026-05-20T02:40:00Z Link Failure: No", "2026-05-20T02:40:00Z timeout: 1800"],
)  # fmt: skip
def test_a_log_that_tells_of_no_trouble_is_clean(line: str) -> None:
    row = read("rank0.log", f"{line}\n")
    assert (row.recognised, row.kinds, row.not_understood) == (True, 0, 0)
    assert format_file_read(row).endswith("nothing that I know as an error")


def diagnosed(*results: tuple[str, str, str]) -> str:
    """Return `dcgmi diag` JSON of DCGM 4 with (test, status, warning) results on GPU 5."""
    tests = [
        {
            "name": name,
            "results": [{"entity_group": "GPU", "entity_id": 5, "status": status, "warnings": [{"warning": says}] if says else []}],
        }
        for name, status, says in results
    ]
    return json.dumps({"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}})


# diagnostics that were not run, by the reason to report
NOT_RUN = {
    "GPU memory is in use": diagnosed(("memory", "Fail", "Couldn't allocate at least 75.0% of GPU memory on GPU 5")),
    "another process uses the GPU": diagnosed(("memory", "Fail", "GPU 5 is in use by process 4711")),
    "MIG is enabled": diagnosed(("memory", "Fail", "Cannot run diagnostic: MIG is enabled on GPU 5")),
    "persistence mode is off": diagnosed(("software", "Fail", "Persistence mode for GPU 5 is disabled.")),
    "the compute mode is exclusive or prohibited": diagnosed(("memory", "Fail", "GPU 5 is in exclusive process compute mode")),
    "permissions are missing": diagnosed(("software", "Fail", "Insufficient permissions to run this test")),
    "versions do not fit together": diagnosed(("software", "Fail", "DCGM API version mismatch")),
    "clocks are locked": diagnosed(("memory", "Warn", "Application clocks are set on GPU 5")),
    "skipped": diagnosed(("software", "Pass", ""), ("pcie", "Skip", "")),
    "unable to connect to the host engine": '{"DCGM Diagnostic": {"runtime_error": "unable to connect to the host engine"}}',
    "A diag instance is already running": "Error: Unable to complete diagnostic for group 0. A diag instance is already running",
}


@pytest.mark.parametrize("why", NOT_RUN)
def test_a_diagnostic_that_was_not_run_could_not_look(why: str) -> None:
    row = read("diag.json", NOT_RUN[why])
    assert (row.recognised, row.kinds) == (True, 0)
    assert "could not look" in format_file_read(row)
    assert why in format_file_read(row)
    assert "nothing that I know as an error" not in format_file_read(row)


def test_a_fault_is_told_beside_the_tests_that_were_not_run() -> None:
    fault = ("memory", "Fail", "Pending page retirements together with a DBE were detected on GPU 5")
    row = read("diag.json", diagnosed(fault, ("pcie", "Skip", "")))
    assert row.kinds == 1
    assert "not run: pcie (skipped)" in format_file_read(row)
    assert "could not look" not in format_file_read(row)


def test_a_diagnostic_that_was_run_and_passed_is_clean() -> None:
    assert format_file_read(read("diag.json", diagnosed(("memory", "Pass", ""), ("pcie", "Pass", "")))).endswith(
        "nothing that I know as an error"
    )


QUOTED = {
    "kernel: NVRM: Xid (PCI:0000:9b:00): 95, pid=5122, name=python3, Uncontained: FBHUB.": ("kernel.xid", 95),
    "we see NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.": ("kernel.xid", 79),
    "[ 4021.551200] NVRM: Xid (PCI:0000:a7:00): 64, Row Remapper: Failed to store the remap": ("kernel.xid", 64),
    "Aug 30 21:10:01 gpu-001 kernel: NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE": ("kernel.xid", 48),
    "> gpu-001 kernel: mlx5_core 0000:4d:00.0 ens4: TX timeout detected": ("kernel.mlx5", "tx_timeout"),
    "NETDEV WATCHDOG: ens4f1np1 (mlx5_core): transmit queue 7 timed out 5030 ms": ("kernel.mlx5", "tx_timeout"),
    "n1:5:6 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu-003<41109>": (
        "job.error",
        "nccl_remote_exited",
    ),
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.": ("job.error", "cuda_oom"),
    "srun: error: Node failure on gpu-003": ("job.error", "node_failed"),
    "`slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.`": (
        "job.error",
        "host_killed",
    ),
}


@pytest.mark.parametrize("line", QUOTED)
def test_a_line_of_a_log_is_read_without_a_fence(line: str) -> None:
    (given,) = find_quoted_lines(f"gpu-001 misbehaves, this is what it printed:\n{line}\nplease help")
    assert QUOTED[line] in {(fact.key, fact.value) for fact in extract_pasted_facts(given.text, CHECKS).facts}


@pytest.mark.parametrize(
    "text",
    [
        "gpu-001 is in trouble",
        "Xid 79 on gpu-001?",
        "the kernel panics",
        "NCCL hangs since 2026-05-20 03:10",
        "see rank 3: it is slow",
        "it said: error",
    ],
)
def test_words_are_no_log(text: str) -> None:
    assert find_quoted_lines(text) == ()


def test_every_reason_why_a_file_was_not_read_says_what_to_send_instead() -> None:
    assert set(UNREAD_REASONS) == set(get_args(UnreadReason)) - {""}
    for why, words in UNREAD_REASONS.items():
        assert format_file_read(FileReadResult(name="x", size=9000, unread=why)) == f"9.0 kB: not read, {words}"
        assert ": " in words
    assert format_file_read(FileReadResult(name="x", unread="refused")).startswith("of no known size: not read")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", ""), (b"Xid 79", ""), ("Xid 79".encode("utf-16"), ""), (b"RIFF is a word", ""), (b"RIFF\0\0\0\0WEBP", "image"),
        (b"BM", ""), (b"%PDF-1.4", "document"), (b"\x7fELF\0", "binary"), (b"a\0", "binary"),
    ],
)  # fmt: skip
def test_text_is_told_from_what_is_none(raw: bytes, why: str) -> None:
    assert decode_file(raw)[1] == why


def test_what_a_terminal_attaches_is_told_from_text_too() -> None:
    assert build_attachment("a.log", "Xid 79").unread == ""
    assert build_attachment("core", "\x7fELF\0\0").model_dump(exclude_defaults=True) == {"name": "core", "size": 6, "unread": "binary"}


DESYNC = Attachment(name="rank3.log", text="joblog: job.error rank3 collective_desync")
PICTURE = Attachment(name="screen.png", size=80_000, unread="image")


def handing_in(text: str, kind: InboxItemKind, *files: Attachment, name: str = "") -> InboxItem:
    return item(text, kind, name, attachments=files)


async def test_files_of_a_mention_and_of_a_reply_are_acknowledged_once_each() -> None:
    desk = Desk(world(LOST_ON_N2))
    report = await desk.turn(handing_in("n2 hangs", "mention", DESYNC, PICTURE))
    assert [(row.name, row.kinds, row.unread) for row in report.files] == [("rank3.log", 1, ""), ("screen.png", 0, "image")]
    assert report.files[0].size == len(DESYNC.text)
    assert "files" not in (await desk.state())["turn"]
    again = await desk.turn(handing_in("and this one", "reply", Attachment(name="empty.log", text="all is well")))
    assert [(row.name, row.kinds) for row in again.files] == [("empty.log", 0)]
    assert (await desk.turn(item("status", "status"))).files == ()


async def test_a_log_that_comes_with_a_question_is_read_like_any_other() -> None:
    desk = Desk(world())
    await desk.turn(item("n2 hangs"))
    report = await desk.turn(handing_in("why?", "why", DESYNC))
    assert [row.name for row in report.files] == ["rank3.log"]
    assert report.outcome == "diagnosed"
    stays = await desk.turn(handing_in("status", "status", name="later"))
    assert stays.reply


async def test_what_was_pasted_is_read_and_is_no_file() -> None:
    report = await Desk(world()).turn(item(f"n2 hangs\n```\n{DESYNC.text}\nand more of it\n```"))
    assert report.files == ()


async def test_of_no_file_nothing_is_stored() -> None:
    desk = Desk(world(LOST_ON_N2))
    await desk.turn(item("n2 hangs"))
    state = await desk.state()
    assert "files" not in state["report"]
    assert "files" not in state["turn"]
