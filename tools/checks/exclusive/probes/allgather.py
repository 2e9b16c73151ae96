"""An all-gather over all ranks of a torchrun, timed, told as nccl-tests would. Run by every rank; the first one prints."""

import importlib
import os
import time
from typing import Any

MIB, TIMES = 1024, 20


def main() -> None:
    try:
        torch: Any = importlib.import_module("torch")
        dist: Any = importlib.import_module("torch.distributed")
    except ImportError:
        print("all_gather_perf: No such file or directory: there is no PyTorch for python3", flush=True)
        return
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # noqa: TID251  # torchrun tells a rank its place so
    dist.init_process_group("nccl")
    ranks, size = dist.get_world_size(), MIB * (1 << 20)
    mine = torch.ones(size // 4 // ranks, device="cuda")
    everyone = torch.empty(mine.numel() * ranks, device="cuda")
    for times in (5, TIMES):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(times):
            dist.all_gather_into_tensor(everyone, mine)
        torch.cuda.synchronize()
        took = (time.perf_counter() - began) / times
    wrong = int((everyone != 1).sum().item())
    if dist.get_rank() == 0:
        size = 4 * everyone.numel()
        algbw = size / took / 1e9
        busbw = algbw * (ranks - 1) / ranks
        cells = f"{took * 1e6:.1f} {algbw:.2f} {busbw:.2f} {wrong}"
        print("# size count type redop root time algbw busbw #wrong time algbw busbw #wrong")
        print(f"{size} {mine.numel()} float none -1 {cells} {cells}")
        print(f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}")
        print(f"# Avg bus bandwidth    : {busbw:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
