"""Made-up outputs of the exclusive checks in the real formats, for success and failure."""

import json
from typing import Any

CUDA = """\
{"devices": 3, "probe": "cuda"}
{"bdf": "0000:19:00.0", "gpu": 0, "mode": 0, "name": "NVIDIA H100 80GB HBM3", "ok": true, "probe": "cuda"}
{"bdf": "0000:3B:00.0", "code": 719, "gpu": 1, "name": "NVIDIA H100 80GB HBM3", "ok": false, "probe": "cuda", "step": "cuCtxSynchronize"}
{"bdf": "0000:4C:00.0", "gpu": 2, "mode": 3, "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "ok": true, "probe": "cuda"}
"""
CUDA_802 = '{"code": 802, "probe": "cuda", "step": "cuInit"}\n'
QUERY = """\
./deviceQuery Starting...

 CUDA Device Query (Runtime API) version (CUDART static linking)

Detected 2 CUDA Capable device(s)

Device 0: "NVIDIA A100-SXM4-80GB"
  CUDA Driver Version / Runtime Version          12.4 / 12.2
Device 1: "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
Result = PASS
"""
QUERY_803 = """\
./deviceQuery Starting...

cudaGetDeviceCount returned 803
-> system has unsupported display driver / cuda driver combination
Result = FAIL
"""


def nvbandwidth(**cases: list[list[str]]) -> str:
    rows = [{"name": name, "status": "Passed", "bandwidth_matrix": matrix, "sum": 1.0} for name, matrix in cases.items()]
    return json.dumps({"nvbandwidth": {"CUDA Runtime Version": 12040, "git_version": "v0.8", "testcases": rows}}, indent=3)


HOST_COPIES = nvbandwidth(host_to_device_memcpy_ce=[["54.81", "12.30"]], device_to_host_memcpy_ce=[["53.90", "12.10"]])
PEER_COPIES = nvbandwidth(device_to_device_memcpy_read_ce=[["N/A", "341.2", "240.9"], ["341.0", "N/A", "341.9"], ["240.1", "340.7", "N/A"]])
HOST_TABLE = """\
nvbandwidth Version: v0.4
Built from Git version:

CUDA Runtime Version: 12040
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.63     55.64

SUM host_to_device_memcpy_ce 111.27

Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     54.10     54.02
"""
PEER_TABLE = """\
Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    276.07
 1    276.36       N/A
"""
NVBANDWIDTH_802 = json.dumps(
    {"nvbandwidth": {"error": "ERROR: [CUDA_ERROR_SYSTEM_NOT_READY] system not yet initialized in expression cuInit(0)"}}
)
BURN = (
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nGPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n"
    "\r10.0%  proc'd: 90 (350000 Gflop/s) - 88 (340000 Gflop/s) - 80 (160000 Gflop/s)   errors: 0 - 3  (WARNING!)- 0   temps: 51 C - 52 C - 91 C "
    "\n\tSummary at:   Mon May 18 09:00:00 UTC 2026\n\n"
    "\r60.0%  proc'd: 562 (401000 Gflop/s) - 560 (399000 Gflop/s) - 226 (161000 Gflop/s)   errors: 0 - 2  (WARNING!)- 0   temps: 63 C - 64 C - 92 C "
    "\r100.0%  proc'd: 936 (402000 Gflop/s) - 931 (400000 Gflop/s) - 372 (160500 Gflop/s)   errors: 0 - 2  (WARNING!)- 0   temps: 63 C - 64 C - 92 C "
    "\nKilling processes with SIGTERM (soft kill)\ndone\n\nTested 3 GPUs:\n\tGPU 0: OK\n\tGPU 1: FAULTY\n\tGPU 2: OK\n"
)
BURN_DIED = (
    "\r40.0%  proc'd: 281 (400000 Gflop/s) - -1 (0 Gflop/s)   errors: 0 - 0  (DIED!)  temps: 60 C - -- \n"
    "done\n\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n"
)
NCCL_WRONG = """\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
  1073741824     268435456     float     sum      -1   4300.1  249.70  436.98      2   4301.2  249.64  436.87      0
# Out of bounds values : 2 FAILED
# Avg bus bandwidth    : 436.925
"""


def dcgm3(*tests: tuple[str, dict[str, Any]]) -> str:
    rows = [{"name": name, "results": [result]} for name, result in tests]
    return json.dumps({"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": rows}], "version": "3.3.5"}})


PENDING = "GPU 3 has uncorrectable memory errors and row remappings are pending"
DCGM3 = dcgm3(
    ("Denylist", {"gpu_ids": "0,1,2,3", "status": "PASS"}),
    ("Page Retirement/Row Remap", {"gpu_id": "3", "status": "Fail", "warnings": [{"error_id": 5, "warning": PENDING}]}),
    ("Inforom", {"gpu_ids": "0,1,2,3", "status": "Skip"}),
)  # fmt: skip
DCGM4 = json.dumps(
    {
        "DCGM Diagnostic": {
            "metadata": {"DCGM Version": "4.2.3"},
            "test_categories": [
                {
                    "category": "Deployment",
                    "tests": [
                        {
                            "name": "software",
                            "results": [
                                {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
                                {
                                    "entity_group": "GPU",
                                    "entity_group_id": 1,
                                    "entity_id": 1,
                                    "status": "Fail",
                                    "warnings": [{"error_id": 20, "warning": "A corrupt InfoROM has been detected in GPU 1."}],
                                },
                            ],
                            "test_summary": {"status": "Fail"},
                        }
                    ],
                },
                {
                    "category": "Hardware",
                    "tests": [{"name": "memory", "results": [{"entity_group": "CPU", "entity_id": 0, "status": "Skip"}]}],
                },
            ],
        }
    }
)


def row(name: str, text: str) -> str:
    return f"| {name:<26}| {text:<45}  |\n"


DCGM_TABLE = (
    "Successfully ran diagnostic for group.\n+" + "-" * 27 + "+" + "-" * 48 + "+\n"
    + row("Diagnostic", "Result") + row("Denylist", "Pass") + row("PCIe", "Skip - All") + row("GPU Memory", "Pass - GPUs: 1, 2, 3")
    + row("", "Fail - GPU: 0") + row("Warning", "GPU 0 Thermal violations totaling 13.3 second") + row("", "s. Verify that the cooling is functional")
    + "+" + "-" * 27 + "+" + "-" * 48 + "+\n"
)  # fmt: skip
DCGM_NO_ENGINE = "Error: Unable to run diagnostic: unable to establish a connection to the specified host: localhost\n"
PERFTEST = """\
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_3
 Number of qps   : 1\t\tTransport type : IB
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 1500.000000 != 3300.000000. CPU Frequency is not max.
 65536      1492371          0.00               391.18             0.746119
---------------------------------------------------------------------------------------
"""
PERFTEST_JSON = (
    '{"test_info": {"test": "RDMA_Write_BW"}, "results": {"MsgSize": 65536, "n_iterations": 5000, "BW_peak": 0.0, "BW_average": 97.80}}'
)
PERFTEST_NO_PEER = (
    "Couldn't connect to 10.0.0.9:18515\n Unable to open file descriptor for socket connection\n Unable to init the socket connection\n"
)
STEP = """\
{"devices": 4, "probe": "step"}
{"data_ms": 1.9, "gpu": 0, "loss": "0.98828125", "ms": 6.21, "probe": "step"}
{"data_ms": 1.9, "gpu": 1, "loss": "0.98828125", "ms": 6.19, "probe": "step"}
{"data_ms": 2.1, "gpu": 2, "loss": "0.98828125", "ms": 15.4, "probe": "step"}
{"data_ms": 1.8, "gpu": 3, "loss": "1.0078125", "ms": 6.23, "probe": "step"}
"""
STEP_NO_TORCH = '{"error": "no_torch", "probe": "step"}\n'

EXCLUSIVE: dict[str, tuple[str, ...]] = {
    "cuda": (CUDA, CUDA_802, QUERY, QUERY_803),
    "bw": (HOST_COPIES, HOST_TABLE),
    "p2p": (PEER_COPIES, PEER_TABLE),
    "gemm": (BURN, BURN_DIED),
    "sdc": (BURN, NCCL_WRONG),
    "dcgm1": (DCGM3, DCGM4, DCGM_TABLE, DCGM_NO_ENGINE),
    "dcgm2": (DCGM_TABLE, DCGM4),
    "ibbw": (PERFTEST, PERFTEST_JSON, PERFTEST_NO_PEER),
    "nccl2": (NCCL_WRONG,),
    "e2e": (STEP, STEP_NO_TORCH),
}
