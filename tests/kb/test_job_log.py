"""Job logs: what failed, on which rank, and which rank failed first."""

import csv
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.logs.job_error_rules import ERROR_RULES, HINT_CAUSES, ErrorRule, list_eligible_rules
from kb.logs.job_log import JobLogReader, list_job_events, read_job_log
from kb.logs.log_lines import LogEvent
from kb.logs.ranks import get_rank_from_path, split_rank_tag
from kb.needle_search import zero_digits

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)

SIGNS = [
    (
        "nccl_timeout",
        (
            "[rank3]:[E520 03:20:00.1 ProcessGroupNCCL.cpp:616] "
            "[Rank 3] Watchdog caught "
            "collective operation timeout: "
            "WorkNCCL(SeqNum=19, OpType=ALLREDUCE, NumelIn=1, "
            "NumelOut=1, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
        ),
        {"rank": "3", "seq": 19, "op": "ALLREDUCE"},
    ),
    (
        "nccl_timeout",
        (
            "[rank3]:[E520 03:20:00.1 x.cpp:1] [PG ID 2 Rank 3] Exception (either an error or timeout) detected by watchdog at work: 32, "
            "last enqueued NCCL work: 32, last completed NCCL work: 31."
        ),
        {"work": 32, "completed": 31},
    ),
    (
        "nccl_connection_refused",
        "n1:5:6 [0] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 172.17.0.2<38007> failed : Connection refused",
        {"peer": "172.17.0.2<38007>"},
    ),
    (
        "nccl_ib_error",
        (
            "n1:5:6 [0] transport/net_ib.cc:1296 NCCL "
            "WARN NET/IB : Got completion from peer "
            "10.2.0.5<33092> with status=12 opcode=0 "
            "len=0 vendor err 129 (Recv) hca mlx5_3"
        ),
        {"status": 12, "vendor_err": 129, "device": "mlx5_3"},
    ),
    ("nccl_ib_device", "n1:5:6 [0] NCCL WARN NET/IB : Unable to open device mlx5_1", {"device": "mlx5_1"}),
    ("nccl_no_interface", "n1:5:6 [0] NCCL WARN Bootstrap : no socket interface found", {}),
    (
        "nccl_remote_exited",
        "n1:5:6 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu-003<41109>",
        {"peer": "gpu-003<41109>"},
    ),
    (
        "nccl_init_failed",
        (
            "RuntimeError: NCCL error in: "
            "../ProcessGroupNCCL.cpp:1691, unhandled "
            "system error (run with NCCL_DEBUG=INFO "
            "for details), NCCL version 2.19.3"
        ),
        {},
    ),
    ("duplicate_gpu", "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000", {"other": "1", "device": "1000"}),
    ("import_nccl_symbol", "ImportError: libtorch_cuda.so: undefined symbol: ncclCommRegister", {"symbol": "ncclCommRegister"}),
    (
        "import_cuda_symbol",
        "libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12",
        {"symbol": "__nvJitLinkAddData_12_1"},
    ),
    (
        "checkpoint_write_failed",
        "RuntimeError: [enforce fail at inline_container.cc:471] . PytorchStreamWriter failed writing file data/228: file write failed",
        {},
    ),
    ("cuda_oom", "cudaMalloc retry failed: out of memory", {}),
    ("nccl_invalid_usage", "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", {}),
    ("cudnn_failed", "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", {"status": "CUDNN_STATUS_EXECUTION_FAILED"}),
    ("nccl_wrong_values", "# Out of bounds values : 56 FAILED", {"values": "56"}),
    ("headers_missing", "op.cpp:1:10: fatal error: Python.h: No such file or directory", {"header": "Python.h"}),
    ("cuda_toolkit_mismatch", "Installed CUDA version 12.2 does not match the version torch was compiled with 11.7, unable to compile", {}),
    ("gloo_connect_failed", "Gloo connectFullMesh failed with [pair.cc:144] timed out, remote=[127.0.1.1]:1", {"peer": "127.0.1.1"}),
    ("nccl_net_socket", "n1:5:6 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0", {"first": False}),
    ("nccl_gdr_disabled", "n1:5:6 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", {"first": False}),
    ("nccl_shm_failed", "n1:5:6 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device", {}),
    ("cuda_illegal_access", "RuntimeError: CUDA error: an illegal memory access was encountered", {}),
    ("cuda_ecc_uncorrectable", "RuntimeError: CUDA error: uncorrectable ECC error encountered", {}),
    ("cuda_launch_failure", "RuntimeError: CUDA error: unspecified launch failure", {}),
    ("cuda_illegal_instruction", "RuntimeError: CUDA error: an illegal instruction was encountered", {}),
    ("cuda_no_device", "RuntimeError: No CUDA GPUs are available", {}),
    ("cuda_invalid_ordinal", "RuntimeError: CUDA error: invalid device ordinal", {}),
    ("cuda_no_kernel_image", "RuntimeError: CUDA error: no kernel image is available for execution on the device", {}),
    ("cuda_devices_busy", "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", {}),
    ("cuda_system_not_initialized", "Error 802: system not yet initialized", {}),
    ("cuda_driver_mismatch", "Failed to initialize NVML: Driver/library version mismatch", {}),
    ("cuda_driver_too_old", "CUDA driver version is insufficient for CUDA runtime version", {}),
    (
        "cublas_failed",
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`",
        {"status": "CUBLAS_STATUS_EXECUTION_FAILED"},
    ),
    ("cudnn_not_initialized", "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", {}),
    ("device_assert", "RuntimeError: CUDA error: device-side assert triggered", {}),
    ("host_killed", "rank 5: Killed", {"rank": "5"}),
    ("host_killed", "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.", {}),
    ("sigterm", "torch.distributed.elastic.multiprocessing.api.SignalException: Process 9 got signal: 15", {}),
    ("dataloader_killed", "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", {}),
    (
        "dataloader_shm",
        (
            "RuntimeError: DataLoader worker (pid "
            "7) is killed by signal: Bus error. "
            "It is possible that dataloader's "
            "workers are out of shared memory. "
            "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."
        ),
        {},
    ),
    ("no_space", "OSError: [Errno 28] No space left on device", {}),
    ("read_only_fs", "OSError: [Errno 30] Read-only file system: '/scratch/x'", {}),
    ("file_not_found", "FileNotFoundError: [Errno 2] No such file or directory: '/data/train'", {}),
    ("permission_denied", "PermissionError: [Errno 13] Permission denied: '/data/train'", {}),
    (
        "import_undefined_symbol",
        "ImportError: /x/flash_attn.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
        {"symbol": "_ZN3c104cuda9SetDeviceEi"},
    ),
    ("checkpoint_mismatch", "RuntimeError: Error(s) in loading state_dict for GPT:", {}),
    ("checkpoint_corrupt", "RuntimeError: Invalid magic number; corrupt file?".lower(), {}),
    (
        "rendezvous_timeout",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 64/72 clients joined.",
        {"joined": 64, "expected": 72},
    ),
    (
        "rendezvous_refused",
        "[c10d] The client socket has failed to connect to [gpu-001]:29500 (errno: 111 - Connection refused).",
        {"peer": "gpu-001", "port": 29500},
    ),
    ("name_resolution", "socket.gaierror: [Errno -2] Name or service not known", {}),
    ("certificate_time", "ssl.SSLCertVerificationError: certificate verify failed: certificate is not yet valid", {}),
    ("memlock", "n1:5:6 [0] misc/ibvwrap.cc:217 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory", {}),
    ("loss_nan", "iteration 10 | lm loss: nan | learning rate: 1.0E-4", {}),
    ("grad_explodes", "iteration 10 | lm loss: 7.1 | grad norm: 81234.5", {"norm": "81234.5"}),
    (
        "collective_desync",
        (
            "Detected mismatch between collectives "
            "on ranks. Rank 5 is running "
            "collective: CollectiveFingerPrint(SequenceNumber=1041, "
            "OpType=ALLGATHER), "
            "but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=1041, OpType=ALLREDUCE)"
        ),
        {"rank": "5", "seq": 1041, "op": "ALLGATHER", "others": "ALLREDUCE"},
    ),
    ("too_many_files", "ncclOsSocketTryAccept: Accept failed: Too many open files", {}),
    (
        "service_unreachable",
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='tracker.local', port=443): Max retries exceeded with url: /api",
        {"service": "tracker.local"},
    ),
    ("storage_throttled", "botocore.exceptions.ClientError: An error occurred (503 SlowDown): Please reduce your request rate", {}),
    ("preempted", "slurmstepd: error: *** JOB 4711 ON gpu-001 CANCELLED AT 2026-05-20T03:09:00 DUE TO PREEMPTION ***", {}),
    ("missing_gpu_runtime", 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].', {}),
    ("nvml_unknown_error", "Failed to initialize NVML: Unknown Error", {}),
    ("crash_signal", "Fatal Python error: Segmentation fault", {"signal": 11}),
    ("aborted", "terminate called after throwing an instance of 'c10::Error'", {}),
    ("time_limit", "slurmstepd: error: *** JOB 4711 ON gpu-001 CANCELLED AT 2026-05-20T03:09:00 DUE TO TIME LIMIT ***", {}),
    ("cancelled", "slurmstepd: error: *** JOB 4711 ON gpu-001 CANCELLED AT 2026-05-20T03:09:00 ***", {}),
    ("node_failed", "srun: error: Node failure on gpu-003", {"node": "gpu-003"}),
    ("step_unkillable", "update_node: node gpu-003 reason set to: Kill task failed", {}),
]


def one(text: str) -> LogEvent:
    (event,) = list_job_events(text, NOW)
    return event


@pytest.mark.parametrize(("cause", "line", "attrs"), SIGNS)
def test_each_sign_is_its_class(cause: str, line: str, attrs: dict[str, object]) -> None:
    event = one(line)
    assert (event.kind, event.value) == ("job.error", cause)
    assert attrs.items() <= dict(event.attrs).items()
    assert event.attrs["first"] is (cause not in HINT_CAUSES)


def test_every_class_has_a_sign_here() -> None:
    assert {row.cause for row in ERROR_RULES} | {"file_not_found", "permission_denied"} <= {cause for cause, _, _ in SIGNS} | {"cuda_oom"}


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
    "GPU 3 has a total capacity of 79.10 GiB of which 1.06 GiB is free. "
)


def test_memory_that_another_process_holds_is_not_the_jobs_own() -> None:
    other = one(OOM + "Process 2841 has 61.00 GiB memory in use. Including non-PyTorch memory, this process has 17.00 GiB memory in use.")
    assert (other.attrs["own"], other.attrs["other_pid"], other.attrs["other_gib"], other.device) == (False, 2841, 61.0, "gpu3")
    own = one(OOM + "Process 2841 has 0.60 GiB memory in use. Including non-PyTorch memory, this process has 77.00 GiB memory in use.")
    assert own.attrs["own"] is True
    assert "other_pid" not in own.attrs
    nameless = one(OOM + "Process 2841 has 77.00 GiB memory in use.")
    assert nameless.attrs["own"] is True


def test_an_older_pytorch_gives_the_same_answer_from_its_totals() -> None:
    line = (
        "RuntimeError: CUDA out of memory. Tried to "
        "allocate 2.00 GiB (GPU 0; 79.35 GiB total "
        "capacity; {} GiB already allocated; 0.50 GiB "
        "free; {} GiB reserved in total by PyTorch)"
    )
    assert one(line.format(76, 77)).attrs["own"] is True
    assert one(line.format(15, 16)).attrs["other_gib"] == pytest.approx(62.85)


STORY = """\
==> /logs/4711/rank_0.log <==
2026-05-20 03:09:59,000 INFO step 99
[rank0]:[E520 03:20:00.1 x.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1041, OpType=ALLREDUCE, Timeout(ms)=1) x
[rank0]:[E520 03:20:00.2 x.cpp:1785] [PG ID 0 Rank 0] Exception detected by watchdog at work: 1041, last enqueued work: 1041, last completed work: 1040.

==> /logs/4711/rank_13.log <==
2026-05-20 03:10:00,000 INFO step 99
[rank13]: Traceback (most recent call last):
[rank13]:   File "train.py", line 12, in <module>
[rank13]:     raise RuntimeError("CUDA out of memory")  # never reached
[rank13]: KeyError: 'input_ids'
[rank13]:[W520 03:10:01.1 x.cpp:3] Warning: destroy_process_group() was not called

==> /logs/4711/rank_14.log <==
gpu-002:5:6 [6] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu-002<41109>
"""


def test_the_earliest_failing_rank_is_the_cause_and_the_rest_are_consequences() -> None:
    log = read_job_log(STORY, NOW)
    assert log.first_rank == "13"
    assert log.ranks == frozenset({"0", "13", "14"})
    timeout, error, closed = log.events
    assert (error.value, error.attrs["type"], error.attrs["detail"]) == ("python_exception", "KeyError", "'input_ids'")
    assert (error.time, error.attrs["first"], error.attrs["consequence"]) == (datetime(2026, 5, 20, 3, 10, tzinfo=UTC), True, False)
    assert (timeout.attrs["count"], timeout.attrs["first"], timeout.attrs["consequence"]) == (2, False, True)
    assert (closed.value, closed.attrs["rank"], closed.attrs["consequence"]) == ("nccl_remote_exited", "14", True)


def test_timeouts_alone_are_no_consequence() -> None:
    line = (
        "[rank{0}]:[E520 03:20:0{0}.1 x.cpp:1] "
        "[Rank {0}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=7, "
        "OpType=ALLREDUCE, Timeout(ms)=1) x"
    )
    events = list_job_events("\n".join(line.format(rank) for rank in (4, 2, 3)), NOW)
    assert [(event.attrs["rank"], event.attrs["first"], event.attrs["consequence"]) for event in events] == [
        ("4", False, False),
        ("2", True, False),
        ("3", False, False),
    ]


def test_a_network_error_before_an_exception_is_the_cause() -> None:
    text = (
        "==> rank_1.log <==\n2026-05-20 03:05:00 "
        "n1:5:6 [1] NCCL WARN NET/IB : Got "
        "completion from peer 10.0.0.1 with error "
        "12, opcode 0, len 0, vendor err 129\n"
        "==> rank_2.log <==\n2026-05-20 03:06:00 INFO x\nTraceback (most recent call last):\n  File 'x'\nValueError: bad\n"
    )
    assert read_job_log(text, NOW).first_rank == "1"
    assert read_job_log(text.replace("03:05", "03:07"), NOW).first_rank == "2"


def test_a_rank_in_another_collective_is_found_from_the_watchdogs() -> None:
    line = (
        "[rank{0}]:[E520 03:20:00.1 x.cpp:1] "
        "[Rank {0}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=1041, "
        "OpType={1}, Timeout(ms)=1) x"
    )
    events = list_job_events("\n".join(line.format(rank, "ALLGATHER" if rank == 5 else "ALLREDUCE") for rank in range(8)), NOW)
    (desync,) = [event for event in events if event.value == "collective_desync"]
    assert (desync.attrs["rank"], desync.attrs["op"], desync.attrs["others"], desync.attrs["first"]) == (
        "5",
        "ALLGATHER",
        "ALLREDUCE",
        True,
    )


def test_a_flight_recorders_list_names_the_rank_in_the_minority() -> None:
    text = "\n".join(
        f"[rank0] flight recorder: rank {rank}: seq 1041 {'ALLGATHER' if rank == 5 else 'ALLREDUCE'} started at x.py:1" for rank in range(8)
    )
    event = one(text)
    assert (event.value, event.attrs["rank"], event.attrs["op"], event.attrs["others"]) == (
        "collective_desync",
        "5",
        "ALLGATHER",
        "ALLREDUCE",
    )
    assert list_job_events(text.replace("ALLGATHER", "ALLREDUCE")) == []


def test_what_a_run_survives_is_first_only_before_mere_echoes() -> None:
    slow = "2026-05-20 03:00:00 botocore.exceptions.ClientError: An error occurred (503 SlowDown)"
    closed = "2026-05-20 03:05:00 n1:5:6 [0] NCCL WARN socketProgress: Connection closed by remote peer n2<1>"
    crash = "2026-05-20 03:04:00 RuntimeError: CUDA error: unspecified launch failure"
    assert [event.value for event in list_job_events(f"{slow}\n{closed}", NOW) if event.attrs["first"]] == ["storage_throttled"]
    assert [event.value for event in list_job_events(f"{slow}\n{crash}\n{closed}", NOW) if event.attrs["first"]] == ["cuda_launch_failure"]


def test_a_warning_is_first_only_where_nothing_failed() -> None:
    warning = (
        "[W520 03:00:00.1 socket.cpp:697] "
        "[c10d] The client socket has failed "
        "to connect to [gpu-001]:29500 "
        "(errno: 111 - Connection refused)."
    )
    assert one(warning).attrs["first"] is True
    events = list_job_events(f"{warning}\n2026-05-20 04:00:00 RuntimeError: CUDA error: unspecified launch failure", NOW)
    assert [event.value for event in events if event.attrs["first"]] == ["cuda_launch_failure"]


def test_a_chain_of_exceptions_is_one_error_and_speaks_by_its_most_telling_link() -> None:
    text = """\
Traceback (most recent call last):
  File "load.py", line 1, in open
FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/7'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 2, in <module>
RuntimeError: could not resume
"""
    event = one(text)
    assert (event.value, event.attrs["type"], event.attrs["chain"]) == (
        "file_not_found",
        "RuntimeError",
        ("FileNotFoundError", "RuntimeError"),
    )


def test_interleaved_tracebacks_are_told_apart() -> None:
    text = """\
[rank1]: Traceback (most recent call last):
[rank2]: Traceback (most recent call last):
[rank1]:   File "a.py", line 1, in f
[rank2]:   File "a.py", line 1, in f
[rank2]: KeyError: 'b'
[rank1]: ZeroDivisionError: division by zero
"""
    assert {(event.attrs["rank"], event.attrs["type"]) for event in list_job_events(text)} == {
        ("1", "ZeroDivisionError"),
        ("2", "KeyError"),
    }


def test_a_vague_exception_is_explained_by_the_lines_of_its_message() -> None:
    text = "Traceback (most recent call last):\n  File 'x'\nRuntimeError: Rank failed:\n  size mismatch for emb.weight: copying a param\n"
    assert one(text).value == "checkpoint_mismatch"


def test_a_launchers_report_of_a_failed_child_is_no_failure_of_its_own() -> None:
    assert (
        list_job_events(
            "Traceback (most recent call last):\n  File 'x'\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        )
        == []
    )


def test_versions_are_kept_with_the_ranks_that_print_them() -> None:
    text = (
        "==> rank_0.log <==\nn:1:2 [0] NCCL INFO "
        "NCCL version 2.21.5+cuda12.4\n==> "
        "rank_7.log <==\nn:1:2 [7] NCCL INFO "
        "NCCL version 2.18.3+cuda12.1\n"
    )
    assert read_job_log(text).versions == {"2.21.5+cuda12.4": {"0"}, "2.18.3+cuda12.1": {"7"}}


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[rank13]: x", "13"),
        ("[13] x", "13"),
        ("[Rank 13] x", "13"),
        ("[default3]:x", "3"),
        ("[1,13]<stderr>:x", "13"),
        ("13: x", "13"),
        ("plain x", None),
        ("[notes] x", None),
    ],
)
def test_a_launchers_tag_names_the_rank(line: str, rank: str | None) -> None:
    assert split_rank_tag(line)[0] == rank


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("/logs/4711/rank_8.log", "8"),
        ("/l/rank8/stdout.txt", "8"),
        ("/t/attempt_0/5/stderr.log", "5"),
        ("slurm-4711-13.out", "13"),
        ("slurm-4711.out", None),
        ("train.log", None),
    ],
)
def test_a_files_name_names_the_rank(path: str, rank: str | None) -> None:
    assert get_rank_from_path(path) == rank


def test_secrets_do_not_travel_with_the_line() -> None:
    event = one("wandb.errors.CommError: token=abcdef0123456789 rejected")
    assert "abcdef0123456789" not in event.line + str(event.attrs)


def test_a_log_read_in_pieces_gives_what_it_gives_whole() -> None:
    lines = STORY.splitlines(keepends=True)
    reader = JobLogReader(NOW)
    for at in range(0, len(lines), 2):
        reader.feed("".join(lines[at : at + 2]))
    assert [(e.value, e.attrs["rank"], e.attrs["first"]) for e in reader.finish().events] == [
        (e.value, e.attrs["rank"], e.attrs["first"]) for e in list_job_events(STORY, NOW)
    ]


@given(
    st.lists(
        st.sampled_from(
            [
                "Traceback (most recent call last):",
                "==> a <==",
                "[rank1]: ",
                "\n",
                "KeyError: x",
                "  File",
                "CUDA out of memory",
                "Process 9 has . GiB memory in use",
                "1" * 40,
                "\r",
                "\x00",
                "with error 12",
                "é",
                "Killed",
            ]
        )
    )
)
def test_reading_never_fails(parts: list[str]) -> None:
    list_job_events("".join(parts), NOW)


def test_published_nccl_warnings_are_understood() -> None:
    table = Path(os.environ.get("RACKMEDIC_CAPTURES", Path(__file__).parents[3] / "shared/captures")) / "nccl-tests/nccl_warn_lines.tsv"
    if not table.exists():
        pytest.skip("no captures: set RACKMEDIC_CAPTURES to their folder")
    with table.open(newline="", encoding="utf-8") as file:
        rows = {row[0]: row[1] for row in csv.reader(file, delimiter="\t")}
    expected = {
        **dict.fromkeys(("ib_timeout", "ib_timeout_new", "ib_unreachable", "ib_remote_access", "ib_port_event"), "nccl_ib_error"),
        **dict.fromkeys(("bootstrap_refused", "bootstrap_poll", "bootstrap_abort"), "nccl_connection_refused"),
        **dict.fromkeys(("shm", "shm_new"), "nccl_shm_failed"),
        **dict.fromkeys(("nvls_fm", "nvls_401", "nvls_bind", "nvml_notfound", "plugin"), "nccl_init_failed"),
        "peer_gone": "nccl_remote_exited",
        "watchdog": "nccl_timeout",
        "test_nccl": "nccl_invalid_usage",
    }
    assert {name: list_job_events(rows[name])[0].value for name in expected} == expected


@pytest.mark.parametrize("row", ERROR_RULES, ids=lambda row: f"{row.cause} {row.needles[0]}")
def test_a_row_is_eligible_for_its_lines_with_any_digits(row: ErrorRule) -> None:
    for needle in row.needles:
        assert row in list_eligible_rules(zero_digits(f"[rank7]: {needle} 123"))


def test_an_error_that_comes_again_is_counted_with_all_that_its_lines_told() -> None:
    one = "[rank0]: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran"
    other = "[rank0]: WorkNCCL(OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=1800000) ran"
    (event,) = list_job_events("\n".join((other, *[one] * 3, *[other] * 4)))
    assert (event.attrs["count"], event.attrs["seq"], event.attrs["timeout_ms"]) == (8, 1, 1800000)


def test_lines_with_a_tag_of_many_bytes_are_still_their_ranks() -> None:
    log = "\n".join(
        (
            "\u00a0[rank4]: Traceback (most recent call last):",
            "[rank5]: going on",
            '\u00a0[rank4]:   File "x.py", line 1, in f',
            "\u00a0[rank4]: KeyError: 'é'",
            "plain",
        )
    )
    (event,) = list_job_events(log)
    assert (event.attrs["rank"], event.attrs["type"], event.attrs["detail"]) == ("4", "KeyError", "'é'")


def test_the_time_before_an_error_is_found_behind_lines_of_many_bytes_and_not_farther() -> None:
    near = "2026-05-01 10:00:00 begins\n" + "é" * 8000 + "\nRuntimeError: CUDA error: an illegal memory access was encountered\n"
    far = near.replace("é" * 8000, "é" * 8300)
    assert [list_job_events(text)[0].time is None for text in (near, far)] == [False, True]
