"""CUDA on every GPU: parsing the probe and deviceQuery, and the probe run against a fake driver library."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.samples_exclusive import CUDA, CUDA_802, QUERY, QUERY_803
from tools.checks import CHECKS
from tools.checks.exclusive.cuda import PROBE
from tools.fact import Fact, Status

RUN = CHECKS["cuda"]

DRIVER = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int gpu;
int cuInit(unsigned flags) { return %(init)d; }
int cuDeviceGetCount(int *count) { *count = 3; return 0; }
int cuDeviceGetPCIBusId(char *text, int size, int index) { snprintf(text, size, "0000:%%02X:00.0", 0x19 + index); return 0; }
int cuDeviceGetName(char *text, int size, int index) { snprintf(text, size, "NVIDIA Made Up"); return 0; }
int cuDeviceGetAttribute(int *value, int which, int index) { *value = which == 20 && index == 1 ? 3 : 0; return which != 20; }
int cuDevicePrimaryCtxRetain(void **context, int index) { gpu = index; *context = (void *)1; return 0; }
int cuDevicePrimaryCtxRelease_v2(int index) { return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxSynchronize(void) { return gpu == 1 ? %(sync)d : 0; }
int cuMemAlloc_v2(uint64_t *at, size_t size) { *at = (uint64_t)malloc(size); return 0; }
int cuMemFree_v2(uint64_t at) { free((void *)at); return 0; }
int cuMemsetD32_v2(uint64_t at, unsigned word, size_t count) {
  for (size_t i = 0; i < count; i++) ((uint32_t *)at)[i] = word;
  if (%(flip)d && gpu == 2) ((uint32_t *)at)[5] ^= 1;
  return 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t at, size_t size) { memcpy(to, (void *)at, size); return 0; }
"""


def found(text: str, key: str) -> dict[str | None, object]:
    return {fact.device: fact.value for fact in RUN.parse_output(text) if fact.key == key}


def test_every_gpu_is_told_to_work_or_not() -> None:
    assert found(CUDA, "cuda.ok") == {"0000:19:00.0": True, "0000:3b:00.0": False, "0000:4c:00.0": True}
    assert found(CUDA, "cuda.error") == {"0000:3b:00.0": "launch_failed"}
    assert found(CUDA, "cuda.mig") == {"0000:19:00.0": False, "0000:3b:00.0": False, "0000:4c:00.0": True}
    assert found(CUDA, "cuda.devices") == {None: 3}


def test_a_gpu_that_admits_one_process_only_is_told_although_the_probe_that_is_alone_works_there() -> None:
    assert found(CUDA, "cuda.compute_mode") == {"0000:19:00.0": "Default", "0000:4c:00.0": "Exclusive_Process"}
    assert found(CUDA, "cuda.ok")["0000:4c:00.0"] is True
    for odd in ('"mode": 7', '"mode": true', '"mode": "3"'):
        assert found(CUDA.replace('"mode": 3', odd), "cuda.compute_mode") == {"0000:19:00.0": "Default"}


@pytest.mark.parametrize(
    ("code", "name"), [(46, "unavailable"), (100, "no_device"), (101, "invalid_device"), (802, "not_ready"), (803, "mismatch"), (999, "unknown"), (2, "other")]
)  # fmt: skip
def test_an_error_before_any_gpu_is_the_hosts(code: int, name: str) -> None:
    (fact,) = RUN.parse_output(CUDA_802.replace("802", str(code)))
    assert (fact.key, fact.value, fact.device, fact.attrs["code"]) == ("cuda.error", name, None, code)


def test_a_probe_that_was_cut_off_does_not_call_the_other_gpus_well() -> None:
    facts = RUN.parse_output("".join(CUDA.splitlines(keepends=True)[:2]))
    assert [fact.status for fact in facts if not fact.key] == [Status.UNREADABLE]
    assert [fact.device for fact in facts if fact.key == "cuda.ok"] == ["0000:19:00.0"]


def test_device_query_counts_gpus_and_calls_none_healthy() -> None:
    assert found(QUERY, "cuda.devices") == {None: 2}
    assert found(QUERY, "cuda.ok") == {}
    assert found(QUERY, "cuda.mig") == {"gpu0": False, "gpu1": True}
    (fact,) = RUN.parse_output(QUERY_803)
    assert (fact.key, fact.value) == ("cuda.error", "mismatch")


def test_the_probe_is_one_word_that_no_shell_reads() -> None:
    assert not set(PROBE) & set("\n|;&$`<>{}")
    compile(PROBE, "probe", "exec")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler to make a driver library with")
@pytest.mark.parametrize(
    ("init", "sync", "flip", "working", "error"),
    [
        (0, 0, 0, [True, True, True], []), (0, 719, 0, [True, False, True], ["launch_failed"]),
        (0, 0, 1, [True, True, False], []), (802, 0, 0, [], ["not_ready"]),
    ],
)  # fmt: skip
def test_the_probe_finds_what_the_driver_does(
    init: int, sync: int, flip: int, working: list[bool], error: list[str], tmp_path: Path
) -> None:
    (tmp_path / "driver.c").write_text(DRIVER % {"init": init, "sync": sync, "flip": flip})
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", tmp_path / "libcuda.so.1", tmp_path / "driver.c"], check=True)
    facts = probed(tmp_path)
    assert [fact.value for fact in facts if fact.key == "cuda.ok"] == working
    assert [fact.value for fact in facts if fact.key == "cuda.error"] == error
    modes = [fact.value for fact in facts if fact.key == "cuda.compute_mode"]
    assert modes == ([] if init else ["Default", "Exclusive_Process", "Default"])


def test_a_host_without_a_driver_says_so(tmp_path: Path) -> None:
    facts = probed(tmp_path)
    if any(fact.key == "cuda.devices" for fact in facts):
        pytest.skip("this machine has a driver of its own")
    assert [(fact.key, fact.value) for fact in facts] == [("cuda.error", "no_library")]


def probed(libraries: Path) -> tuple[Fact, ...]:
    ran = subprocess.run(
        [sys.executable, "-c", PROBE], env={**os.environ, "LD_LIBRARY_PATH": str(libraries)}, capture_output=True, text=True, check=True
    )
    assert all(json.loads(line) for line in ran.stdout.splitlines())
    return RUN.parse_output(ran.stdout)
