"""Tables of job log lines: InfiniBand completions, crashes, Slurm's ends of a job, ranks that are behind."""

from typing import Any

import pytest

from kb.logs.job_log import read_job_log

AT = "n1:5:6 [0] transport/net_ib/p2p.cc:688 NCCL WARN NET/IB: "
OLD = "n1:5:6 [0] transport/net_ib.cc:95 NCCL WARN NET/IB : "

# wording of NCCL's sources, releases 2.8 to 2.30: transport/net_ib.cc, transport/net_ib/*.cc, misc/ibvwrap.cc
INFINIBAND: list[tuple[str, dict[str, Any]]] = [
    (
        AT + "Got completion from peer 10.1.0.7<41022> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) vendor_err=129 "
        "req_type=Send localGid fe80::1 remoteGids fe80::2 hca mlx5_2",
        {"status": 12, "vendor_err": 129, "device": "mlx5_2", "peer": "10.1.0.7<41022>"},
    ),
    (
        AT
        + "Got completion from peer 10.1.0.7<41022> with status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=81 hca rocep27s0f0",
        {"status": 4, "vendor_err": 81, "device": "rocep27s0f0"},
    ),
    (
        AT
        + "Got completion from peer 10.1.0.7<41022> with status=IBV_WC_REM_ACCESS_ERR(10) opcode=IBV_WC_RDMA_WRITE(1) vendor_err=136 hca ibp26s0",
        {"status": 10, "device": "ibp26s0"},
    ),
    (
        "n1:5:6 [3] NCCL WARN NET/IB/GIN: Got completion from peer 10.1.0.7<41022> with status=12 opcode=1 len=0 vendor err 129 (Send) hca mlx5_4",
        {"status": 12, "vendor_err": 129, "device": "mlx5_4"},
    ),
    (
        OLD + "Got completion from peer 10.1.0.7<41022> with status=5 opcode=0 len=0 vendor err 249 (Recv) localGid ::ffff:10.1.0.8 "
        "remoteGids::ffff:10.1.0.7 hca mlx5_0",
        {"status": 5, "vendor_err": 249, "device": "mlx5_0"},
    ),
    (
        OLD + "Got completion from peer 10.1.0.7<41022> with error 12, opcode 32610, len 0, vendor err 129",
        {"status": 12, "vendor_err": 129},
    ),
    (OLD + "Got completion with error 11, opcode 1, len 21823, vendor err 137", {"status": 11, "vendor_err": 137}),
    (
        "n1:5:6 [0] NCCL INFO NET/IB: ncclIbTest: Got completion with error (devIndex=0, wc->status=(IBV_WC_RETRY_EXC_ERR)12, wc->opcode=(x)1)",
        {"status": 12},
    ),
    (AT + "Unsupported completion status IBV_WC_RNR_RETRY_EXC_ERR (13)", {"status": 13}),
    (AT + "Got CQE with error (devIndex=1, req=0x7f, comm=0x7f (send), wr_id=7, qp_num=312)", {"event": "CQE with error"}),
    (OLD + "mlx5_3:1 async fatal event: device fatal", {"event": "device fatal", "device": "mlx5_3"}),
    (
        OLD + "mlx5_3:1 async fatal event on QP (0x7f) qpn=812 handle=1 send_cq=3 recv_cq=3 state=3 sq_psn=0 rq_psn=0: QP fatal",
        {"device": "mlx5_3"},
    ),
    (OLD + "mlx5_1:1 Got non-fatal async event: port error(10)", {"event": "port error", "device": "mlx5_1"}),
    (OLD + "mlx5_1:1 Got async event : port error", {"event": "port error", "device": "mlx5_1"}),
    (OLD + "Got async event : local access violation work queue error", {"event": "local access violation work queue error"}),
    (
        "n1:5:6 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110",
        {"call": "ibv_modify_qp"},
    ),
    (
        "n1:5:6 [0] misc/ibvwrap.cc:160 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_5:1, curr state INIT",
        {"call": "ibv_modify_qp", "device": "mlx5_5"},
    ),
    ("n1:5:6 [0] NCCL WARN Call to ibv_reg_mr failed with error Bad address", {"call": "ibv_reg_mr", "reason": "Bad address"}),
    (
        "n1:5:6 [0] NCCL WARN ibv_post_send() failed with error Cannot assign requested address, Bad WR 0x7f, First WR 0x7f",
        {"call": "ibv_post_send"},
    ),
    (AT + "Fatal error. Detected 2 failed devices out of 2 devices on the send communicator (comm=0x7f). No more devices", {}),
    (AT + "Device 1 marked as failed. Initiating recovery? yes (send comm=0x7f, outstandingRecovery=1)", {"event": "marked as failed"}),
]

NO_ERROR = [
    OLD + "mlx5_1:1 Got non-fatal async event: port active(9)",
    OLD + "mlx5_1:1 Got non-fatal async event: client reregistration(17)",
    OLD + "mlx5_1:1 GID table changed",
    "n1:5:6 [0] NCCL INFO NET/IB: ncclIbTest: Got completion for a send request (req=0x7f, comm=0x7f, id=3, devIndex=0, qp_num=8)",
    "exit code: 0",
    "the processes exited with code 0",
    "Process finished with exit code 1",
    "installing signal handlers",
    "step 139: loss 1.39, exit criteria 11",
    "CrashSignal=11 is only the name of a setting",
    "using graceful termination",
    "terminated run 15 of the sweep, next is 16",
    "rank 3: 11 signals of the sensor read",
    "job 4711 was not cancelled",
]

CRASHES: list[tuple[str, int]] = [
    ("Fatal Python error: Segmentation fault", 11),
    ("[rank11]: Fatal Python error: Bus error", 7),
    ("Fatal Python error: Illegal instruction", 4),
    ("Fatal Python error: Floating point exception", 8),
    ("Fatal Python error: Floating-point exception", 8),
    ("E0830 21:14:07.000 700 api.py:882] failed (exitcode: -11) local_rank: 3 (pid: 781) of binary: /usr/bin/python3", 11),
    ("  exitcode  : -11 (pid: 781)", 11),
    ("  exitcode   : -7 (pid: 781)", 7),
    ("  traceback : Signal 11 (SIGSEGV) received by PID 781", 11),
    ("train.sh: line 12:   781 Segmentation fault      (core dumped) python3 train.py", 11),
    ("Segmentation fault (core dumped)", 11),
    ("Bus error (core dumped)", 7),
    ("srun: error: gpu-003: task 11: Segmentation fault (core dumped)", 11),
    ("srun: error: gpu-003: task 11: Illegal instruction (core dumped)", 4),
    ("[gpu-003:00781] Signal: Segmentation fault (11)", 11),
    ("[gpu-003:00781] Signal: Bus error (7)", 7),
    ("[gpu-003:781  :0:781] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)", 11),
    ("mpirun noticed that process rank 3 with PID 781 on node gpu-003 exited on signal 11 (Segmentation fault).", 11),
    ("launcher: rank 9 died from signal 11", 11),
    ("=   KILLED BY PID 781 EXIT CODE: 139", 11),
    ("YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)", 11),
    ("container exited with code 139", 11),
    ("exited with exit code 135", 7),
    ("worker 3: exit status 139", 11),
    ("*** SIGSEGV received at time=1725000000 on cpu 3 ***", 11),
    ("double free or corruption (!prev)", 6),
    ("free(): invalid pointer", 6),
    ("corrupted size vs. prev_size", 6),
    ("malloc(): unaligned tcache chunk detected", 6),
    ("munmap_chunk(): invalid pointer", 6),
    ("*** stack smashing detected ***: terminated", 6),
]

ENDS: list[tuple[str, str, dict[str, Any]]] = [
    ("aborted", "terminate called after throwing an instance of 'c10::DistBackendError'", {}),
    ("aborted", "Fatal Python error: Aborted", {}),
    ("aborted", "  exitcode  : -6 (pid: 781)", {}),
    ("aborted", "srun: error: gpu-003: task 11: Aborted (core dumped)", {}),
    ("aborted", "Signal 6 (SIGABRT) received by PID 781", {}),
    ("host_killed", "  exitcode  : -9 (pid: 781)", {}),
    ("host_killed", "container exited with code 137", {}),
    ("host_killed", "Signal 9 (SIGKILL) received by PID 781", {}),
    ("host_killed", "exited on signal 9 (Killed).", {}),
    ("host_killed", "srun: error: gpu-003: task 11: Killed", {}),
    ("sigterm", "W0830 21:14:08.000 700 api.py:900] Sending process 779 closing signal SIGTERM", {}),
    ("sigterm", "launcher: rank 9 died from signal 15", {}),
    ("sigterm", "srun: error: gpu-003: task 11: Terminated", {}),
    ("sigterm", "container exited with exit code 143", {}),
    ("time_limit", "slurmstepd: error: *** JOB 4711 ON gpu-001 CANCELLED AT 2026-05-20T03:09:00 DUE TO TIME LIMIT ***", {}),
    ("cancelled", "slurmstepd: error: *** STEP 4711.0 ON gpu-001 CANCELLED AT 2026-05-20T03:09:00 ***", {"what": "STEP"}),
    ("cancelled", "slurmstepd: error: *** JOB 4711 ON gpu-001 CANCELLED AT 2026-05-20T03:09:00 ***", {"what": "JOB"}),
    ("cancelled", "State: CANCELLED by 1000", {"uid": "1000"}),
    (
        "node_failed",
        "slurmstepd: error: *** JOB 4711 ON gpu-003 CANCELLED AT 2026-05-20T03:09:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***",
        {"node": "gpu-003"},
    ),
    ("node_failed", "srun: error: Node failure on gpu-003", {"node": "gpu-003"}),
    ("node_failed", "salloc: error: Node failure on gpu-[003,007]", {"node": "gpu-[003,007]"}),
    ("node_failed", "JobState=NODE_FAIL Reason=NodeDown", {}),
    (
        "step_unkillable",
        "slurmstepd: error: *** STEP 4711.0 STEPD TERMINATED ON gpu-003 AT 2026-05-20T03:09:00 DUE TO JOB NOT ENDING WITH SIGNALS ***",
        {"node": "gpu-003"},
    ),
    ("step_unkillable", "update_node: node gpu-003 reason set to: Kill task failed", {}),
    ("step_unkillable", "slurmd: error: processes of an unkillable step are left", {}),
    ("collective_desync", "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 30000 ms", {"rank": "1", "op": "monitoredBarrier"}),
    ("collective_desync", "[Rank 0]: Ranks 1, 2, 5 failed to pass monitoredBarrier in 30000 ms", {"rank": "1"}),
    ("collective_desync", "Not all ranks joining collective, sequence number: 5", {}),
]

RAS = """\
#1-0 (0b44d1e0c2a98f10) MISMATCH
  Communicator ranks have different {op} operation counts
  15 ranks have launched up to operation 8812
{odd}
"""
BEHIND = [
    (
        "  1 ranks have launched up to operation 8811\n  Rank 6 -- GPU 6 managed by process 2201 on node 172.20.8.14",
        [("6", 8811, "172.20.8.14")],
    ),
    (
        (
            "  2 ranks have launched up to operation 8700\n"
            "  Rank 6 has launched up to operation 8700 -- GPU 6 managed by process 2201 on node gpu-003\n"
            "  Rank 7 has launched up to operation 8700 -- GPU 7 managed by process 2202 on node gpu-003"
        ),
        [("6", 8700, "gpu-003"), ("7", 8700, "gpu-003")],
    ),
    (
        "  1 ranks have not launched any operations\n  Rank 0 has not launched any operations -- GPU 0 managed by process 9 on node n1",
        [("0", 0, "n1")],
    ),
    ("  1 ranks have launched up to operation 3\n  Rank 12 -- [process information not found]", [("12", 3, None)]),
]


@pytest.mark.parametrize(("line", "attrs"), INFINIBAND, ids=range(len(INFINIBAND)))
def test_each_form_of_an_infiniband_failure_is_read(line: str, attrs: dict[str, Any]) -> None:
    (event,) = read_job_log(line).events
    assert event.value == "nccl_ib_error"
    assert attrs.items() <= dict(event.attrs).items()


@pytest.mark.parametrize("line", NO_ERROR)
def test_what_only_looks_like_an_error_is_none(line: str) -> None:
    assert read_job_log(line).events == ()


@pytest.mark.parametrize(("line", "signal"), CRASHES)
def test_each_form_of_a_crash_gives_its_signal(line: str, signal: int) -> None:
    (event,) = read_job_log(line).events
    assert (event.value, event.attrs["signal"], event.attrs["first"]) == ("crash_signal", signal, True)


@pytest.mark.parametrize(("cause", "line", "attrs"), ENDS)
def test_each_way_in_which_a_job_ends_is_its_class(cause: str, line: str, attrs: dict[str, Any]) -> None:
    (event,) = read_job_log(line).events
    assert event.value == cause
    assert attrs.items() <= dict(event.attrs).items()


def test_a_crash_is_the_cause_and_the_launchers_signals_follow_from_it() -> None:
    log = read_job_log(
        "[rank11]: Fatal Python error: Segmentation fault\n"
        "E0830 21:14:07.000000 700 api.py:882] failed (exitcode: -11) local_rank: 3 (pid: 781) of binary: /usr/bin/python3\n"
        "W0830 21:14:08.000000 700 api.py:900] Sending process 779 closing signal SIGTERM\n"
        "terminate called after throwing an instance of 'std::runtime_error'\n"
    )
    assert log.first_rank == "11"
    told = {event.value: event for event in log.events if event.attrs["rank"] in {"11", None}}
    assert (told["crash_signal"].attrs["signal"], told["sigterm"].attrs["consequence"], told["aborted"].attrs["consequence"]) == (
        11,
        True,
        True,
    )


@pytest.mark.parametrize(
    "first", ["OSError: [Errno 122] Disk quota exceeded", "RuntimeError: CUDA error: an illegal memory access was encountered"]
)
def test_a_launchers_signal_is_a_consequence_of_what_failed_before(first: str) -> None:
    events = read_job_log(f"[rank2]: {first}\nlauncher: rank 9 died from signal 15\n").events
    assert [(event.value == "sigterm", event.attrs["first"], event.attrs["consequence"]) for event in events] == [
        (False, True, False),
        (True, False, True),
    ]


@pytest.mark.parametrize("op", ["AllReduce", "ReduceScatter"])
@pytest.mark.parametrize(("odd", "ranks"), BEHIND, ids=["one", "two", "none", "unknown"])
def test_ranks_that_nccl_ras_reports_as_behind_are_named(op: str, odd: str, ranks: list[tuple[str, int, str | None]]) -> None:
    events = read_job_log(RAS.format(op=op, odd=odd)).events
    assert [(event.attrs["rank"], event.attrs["launched"], event.attrs.get("node")) for event in events] == ranks
    assert {(event.value, event.attrs["op"], event.attrs["others"]) for event in events} == {("collective_desync", op, 8812)}


def test_ranks_listed_by_ras_for_another_reason_are_not_behind() -> None:
    listed = "  Communicator ranks have different status\n  Rank 6 -- GPU 6 managed by process 2201 on node 172.20.8.14\n"
    assert read_job_log(listed).events == ()
