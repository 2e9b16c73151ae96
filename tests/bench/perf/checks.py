"""Parser times, and whether doubled input takes more than double time, with friendly and hostile inputs.

`python -m tests.bench.perf.checks`: prints one JSON document; exit status 1 if a ratio is above 2.6. `large`: every
sample once at 5 MB and 50 MB, CPU time; caches and page faults make ten times the input up to twenty times the work,
quadratic would be a hundred.
"""

import json
import sys
import time
from typing import Any

from tests.support.samples_checks import SAMPLES
from tools.checks import CHECKS

MOST = 2.6
HOSTILE: dict[str, tuple[str, ...]] = {
    "smi": ("<nvidia_smi_log>" + "<gpu " * 30_000, "<nvidia_smi_log>" + "<a>" * 15_000, "GPU 0: " + "x" * 200_000),
    "topo": ("GPU0 GPU1 CPU Affinity\n" + "GPU0 X NV18 0\n" * 9_000,),
    "nvlink": ("GPU 0: x\n" + " Link 0: 25 GB/s\n" * 20_000,),
    "dmesg": ("[ 1.0] NVRM: Xid (PCI:0000:9b:00): 79, " + ("x" * 50 + "\n[ 1.0] NVRM: Xid (PCI:0000:9b:00): 13, ") * 4_000,),
    "lspci": ("0000:9b:00.0 3D controller: NVIDIA [10de:1] (rev a1)\n" + "\tLnkSta: Speed 8GT/s, Width x8\n" * 20_000,),
    "ibstat": ("CA 'mlx5_0'\n" + "Port 1:\n State: Active\n Link layer: InfiniBand\n" * 5_000, ("/" + "a/" * 90 + "\n") * 5_000),
    "sysd": ('{"MESSAGE":"' + "upgrade nvidia " * 30 + '","_SYSTEMD_UNIT":"apt.service"}\n',),
    "mem": ("".join(f"/sys/fs/cgroup/a/{n}/memory.events:oom_kill 1\n" for n in range(8_000)),),
    "env": ("".join(f"{n} RANK={n}\n" for n in range(4_000)),),
    "procs": ("00000000:9B:00.0, 41233, " + "a, " * 200 + "\n" + "00000000:9B:00.0, 41233, py, 1\n" * 8_000,),
    "nccl1": (" 8589934592 2147483648 float sum -1 33605 255.62 479.28 0 33628 255.44 478.95 0\n" * 6_000,),
}


def seconds(check: str, text: str) -> float:
    """Return the best of three runs."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        CHECKS[check].parse_output(text)
        best = min(best, time.perf_counter() - start)
    return best


LARGE, TIMES, MOST_LARGE = 5_000_000, 10, 30.0


def once(check: str, text: str) -> float:
    """Return CPU seconds, independent of other load."""
    start = time.process_time()
    CHECKS[check].parse_output(text)
    return time.process_time() - start


def large() -> int:
    """Measure every sample repeated to 5 MB and 50 MB."""
    rows: list[dict[str, Any]] = []
    for check, samples in SAMPLES.items():
        for number, sample in enumerate(samples):
            text = sample * (1 + LARGE // len(sample))
            small, big = once(check, text), once(check, text * TIMES)
            rows.append(
                {"check": check, "sample": number, "s_5mb": round(small, 2), "s_50mb": round(big, 2), "ratio": round(big / small, 1)}
            )
            print(rows[-1], file=sys.stderr)
    worst = max(rows, key=lambda row: row["ratio"])
    print(json.dumps({"schema": 1, "items": rows, "worst": worst, "slowest": max(rows, key=lambda row: row["s_50mb"])}, indent=1))
    return int(any(row["ratio"] > MOST_LARGE and row["s_5mb"] > 0.05 for row in rows))


def main() -> int:
    rows: list[dict[str, Any]] = []
    for check, samples in SAMPLES.items():
        texts = [("sample", "".join(samples[:1])), *(("hostile", text) for text in HOSTILE.get(check, ()))]
        for kind, text in texts:
            big = text * (1 + 400_000 // len(text)) if kind == "sample" else text
            once, twice = seconds(check, big), seconds(check, big * 2)
            ratio = round(twice / max(once, 1e-4), 2)
            rows.append({"check": check, "input": kind, "bytes": len(big), "ms": round(once * 1e3, 1), "ratio": ratio})
    print(json.dumps({"schema": 1, "items": rows, "worst_ratio": max(row["ratio"] for row in rows)}, indent=1))
    return int(any(row["ratio"] > MOST and row["ms"] > 5 for row in rows))


if __name__ == "__main__":
    sys.exit(large() if sys.argv[1:] == ["large"] else main())
