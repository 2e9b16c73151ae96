"""Megabytes of log that one core turns into templates and events per second, for three seeded mixes.

`python -m tests.bench.perf.logs [--mb 50] [--mix realistic]`: prints one JSON document. `repetitive`: steps and NCCL
start-up; `realistic`: a 64-rank job and its nodes' kernel log (a flapping port, a few Xids, tracebacks at the end);
`events`: only lines kept whole.
"""

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kb.logs.compress import BLOCK_BYTES, CompressedLog, LogCompressor

NOW = datetime(2026, 5, 2, tzinfo=UTC)
MIB = 1 << 20
_START = datetime(2026, 5, 1, tzinfo=UTC)
_NETS = ("0000:1b:00.0 mlx5_0", "0000:4d:00.0 mlx5_3", "0000:9c:00.0 mlx5_6", "0000:dd:00.0 mlx5_9")
_GPUS = ("0000:19:00", "0000:3b:00", "0000:5d:00", "0000:9b:00")
_FRAMES = (("/opt/train/loop.py", "run", "loss = step(batch)"), ("/opt/train/model.py", "forward", "return self.head(x)"),
           ("/opt/train/comm.py", "all_reduce", "work.wait()"))  # fmt: skip

Say = Callable[[random.Random, int], str]


def _clock(number: int) -> datetime:
    return _START + timedelta(milliseconds=17 * number)


def _kernel(number: int, message: str) -> str:
    return f"{_clock(number):%Y-%m-%dT%H:%M:%S},{number * 7919 % 1_000_000:06}+00:00 {message}"


def step(dice: random.Random, number: int) -> str:
    return (
        f"[{_clock(number):%Y-%m-%d %H:%M:%S}] iteration {number:8}/ 900000 | consumed samples: {number * 512:12} | elapsed time per iteration "
        f"(ms): {dice.uniform(900, 1100):.1f} | learning rate: {dice.uniform(1e-5, 3e-4):.3E} | lm loss: {dice.uniform(1.8, 2.6):.6E} | "
        f"grad norm: {dice.uniform(0.1, 0.9):.3f} | tokens/s: {dice.uniform(4e4, 5e4):.0f}"
    )


def nccl(dice: random.Random, number: int) -> str:
    rank, host = dice.randrange(64), f"gpu-{dice.randrange(1, 9):03}"
    said = dice.choice(
        (
            f"Channel {dice.randrange(32):02}/0 : {rank}[{rank % 8}] -> {(rank + 1) % 64}[{(rank + 1) % 8}] via P2P/CUMEM/read",
            f"Channel {dice.randrange(32):02}/0 : {rank}[{rank % 8}] -> {(rank + 8) % 64}[{rank % 8}] [send] via NET/IB/{dice.randrange(10)}/GDRDMA",
            f"Connected all rings, use ring PXN {dice.randrange(2)} GDR 1",
            "512 coll channels, 512 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer",
            f"comm 0x{dice.getrandbits(48):012x} rank {rank} nranks 64 cudaDev {rank % 8} commId 0x{dice.getrandbits(64):016x}",
        )
    )
    return f"{host}:{41000 + rank}:{42000 + dice.randrange(900)} [{rank % 8}] NCCL INFO {said}"


def progress(dice: random.Random, number: int) -> str:
    done = number % 100
    return f"Epoch 3: {done:3}%|{'█' * (done // 5):20}| {done * 12}/1200 [{done:02}:14<{100 - done:02}:40,  {dice.uniform(3, 4):.2f}it/s]"


def chatter(dice: random.Random, number: int) -> str:
    """Return an application line without a rule."""
    rank = dice.randrange(64)
    return dice.choice(
        (
            f"[rank{rank}]: dataloader: shard s3://corpus/v7/part-{dice.randrange(90000):05}.tar opened after {dice.uniform(0.1, 4):.2f}s",
            f"INFO {_clock(number):%Y-%m-%d %H:%M:%S} tokenizer cache hit {dice.getrandbits(64):016x} for bucket {dice.randrange(64)}",
            f"[rank{rank}]: gc: collected {dice.randrange(9000)} objects in {dice.uniform(0.1, 0.6):.3f}s, pool {dice.getrandbits(32):08x}",
            f"WARNING:root:slow batch {number} on gpu-{rank // 8 + 1:03}: {dice.uniform(2, 9):.1f}s spent in collate",
            f"[rank{rank}]: worker {dice.randrange(16)} prefetch queue {dice.randrange(64)}/64",
        )
    )


def flood(dice: random.Random, number: int) -> str:
    net = dice.choice(_NETS)
    state = dice.choice(("Link down", "Link up", f"Port module event: module {net[-1]}, Cable unplugged"))
    return _kernel(number, f"mlx5_core {net if 'Link' in state else net.split()[0]}: {state}")


def quiet_kernel(dice: random.Random, number: int) -> str:
    """Return a harmless kernel line."""
    return _kernel(
        number,
        dice.choice(
            (
                f'audit: type=1400 audit({1777593600 + number}.{number % 1000:03}:{number}): apparmor="ALLOWED" pid={dice.randrange(99999)} comm="runc"',
                f"veth{dice.getrandbits(28):07x}: entered promiscuous mode",
                f"docker0: port {dice.randrange(1, 9)}(veth{dice.getrandbits(28):07x}) entered forwarding state",
                f"perf: interrupt took too long ({dice.randrange(2500, 9000)} > 2500), lowering kernel.perf_event_max_sample_rate to 50000",
            )
        ),
    )


def xid(dice: random.Random, number: int) -> str:
    user, where = f"pid={dice.randrange(99999)}, name=python", f"GPC {dice.randrange(8)}, TPC {dice.randrange(9)}, SM 0"
    fault = f"Ch {dice.getrandbits(8):08x}, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted @ 0x7f{dice.getrandbits(32):08x}_00000000"
    said = dice.choice(
        (
            f"13, {user}, Graphics SM Warp Exception on ({where}): Out Of Range Address",
            f"31, {user}, {fault}. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
            f"94, {user}, Contained: SM (0x{dice.getrandbits(8):02x}). RST: No, D-RST: No",
        )
    )
    return _kernel(number, f"NVRM: Xid (PCI:{dice.choice(_GPUS)}): {said}")


def watchdog(dice: random.Random, number: int) -> str:
    """Return a rank's collective timeout."""
    rank = dice.randrange(64)
    work = f"SeqNum={dice.randrange(99999)}, OpType=ALLREDUCE, NumelIn={dice.randrange(9**9)}, NumelOut=1, Timeout(ms)=600000"
    return (
        f"[rank{rank}]:[E{_clock(number):%m%d %H:%M:%S}.{number % 10**9:09} ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL({work}) ran for 600{dice.randrange(999):03} milliseconds before timing out."
    )


def traceback(dice: random.Random, number: int) -> str:
    """Return a rank's exception."""
    tag = f"[rank{dice.randrange(64)}]: "
    frames = [f'{tag}  File "{path}", line {dice.randrange(900)}, in {name}\n{tag}    {code}' for path, name, code in _FRAMES]
    memory = (
        f"GPU {dice.randrange(8)} has a total capacity of 79.11 GiB of which {dice.uniform(0.1, 9):.2f} GiB is free. "
        f"Including non-PyTorch memory, this process has {dice.uniform(60, 79):.2f} GiB memory in use."
    )
    raised = dice.choice(
        (
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {dice.randrange(1, 90)}.00 GiB. {memory}",
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            f"KeyError: 'sample_{dice.randrange(999)}'",
        )
    )
    return "\n".join((f"{tag}Traceback (most recent call last):", *frames, f"{tag}{raised}"))


def aer(dice: random.Random, number: int) -> str:
    return _kernel(number, f"pcieport 0000:{dice.choice(('17', '48', '97', 'd7'))}:01.0: AER: Corrected error received: 0000:00:00.0")


# relative frequencies; a traceback counts as one
MIXES: Mapping[str, tuple[tuple[Say, float], ...]] = {
    "repetitive": ((step, 60), (nccl, 30), (progress, 10)),
    "realistic": ((step, 45), (nccl, 24), (progress, 8), (chatter, 12), (quiet_kernel, 6), (flood, 4.8), (watchdog, 0.05), (aer, 0.1),
                  (traceback, 0.03), (xid, 0.002)),
    "events": ((flood, 45), (xid, 10), (watchdog, 20), (traceback, 5), (aer, 20)),
}  # fmt: skip


def blocks(mix: str, megabytes: int, seed: int = 1) -> Iterator[bytes]:
    """Yield a log of about that size in the product's read blocks; deterministic by seed."""
    dice = random.Random(f"{mix} {seed}")
    says, weights = zip(*MIXES[mix], strict=True)
    size, number, rest = 0, 0, b""
    while size < megabytes * MIB:
        chosen = dice.choices(says, weights, k=8192)
        rest += "".join(f"{say(dice, number + at)}\n" for at, say in enumerate(chosen)).encode()
        number += len(chosen)
        while len(rest) >= BLOCK_BYTES:
            size, block, rest = size + BLOCK_BYTES, rest[:BLOCK_BYTES], rest[BLOCK_BYTES:]
            yield block


def read(mix: str, megabytes: int) -> tuple[CompressedLog, float]:
    """Return the digest and CPU seconds without the generator's."""
    compressor, spent = LogCompressor(now=NOW), 0.0
    for block in blocks(mix, megabytes):
        start = time.process_time()
        compressor.feed(block)
        spent += time.process_time() - start
    start = time.process_time()
    digest = compressor.finish()
    return digest, spent + time.process_time() - start


def said(digest: CompressedLog) -> str:
    """Return a fingerprint of the digest, to compare before and after a refactoring."""
    return hashlib.sha256(
        repr((digest.templates, digest.events, sorted(digest.job.ranks), sorted(digest.dropped.items()))).encode()
    ).hexdigest()[:16]


def row(mix: str, megabytes: int) -> dict[str, Any]:
    digest, spent = read(mix, megabytes)
    rate = digest.size / MIB / spent
    return {"mix": mix, "mib": round(digest.size / MIB), "lines": digest.lines, "cpu_s": round(spent, 2), "mib_per_cpu_s": round(rate, 1),
            "templates": len(digest.templates), "events": len(digest.events), "fingerprint": said(digest)}  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mb", type=int, default=50)
    parser.add_argument("--mix", choices=sorted(MIXES), action="append")
    given = parser.parse_args()
    sys.stdout.write(json.dumps({"schema": 1, "items": [row(mix, given.mb) for mix in given.mix or MIXES]}, indent=1) + "\n")
