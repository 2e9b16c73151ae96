"""A small training loop on every GPU with PyTorch: the same data, the same first weights, so the loss must come out the same. One JSON line each."""

import importlib
import json
import time
from typing import Any

STEPS, WARM, WIDTH, BATCH = 40, 8, 4096, 1024


def say(row: Any) -> None:
    row["probe"] = "step"
    print(json.dumps(row, sort_keys=True), flush=True)


def loop(torch: Any, index: int) -> Any:
    device = torch.device("cuda", index)
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH))
    model = model.to(device, dtype=torch.bfloat16)
    rule = torch.optim.SGD(model.parameters(), lr=1e-3)
    source = torch.Generator().manual_seed(11)
    data = busy = 0.0
    for step in range(STEPS + WARM):
        began = time.perf_counter()
        batch = torch.randn(BATCH, WIDTH, generator=source)
        ready = time.perf_counter()
        loss = (model(batch.to(device, dtype=torch.bfloat16)) - 1).float().pow(2).mean()
        rule.zero_grad()
        loss.backward()
        rule.step()
        torch.cuda.synchronize(device)
        if step >= WARM:
            data, busy = data + ready - began, busy + time.perf_counter() - ready
    return {"gpu": index, "ms": round(1000 * busy / STEPS, 3), "data_ms": round(1000 * data / STEPS, 3), "loss": repr(loss.item())}


def main() -> None:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        say({"error": "no_torch"})
        return
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    say({"devices": count})
    for index in range(count):
        try:
            say(loop(torch, index))
        except RuntimeError as why:
            say({"gpu": index, "error": str(why).splitlines()[0][:200]})


if __name__ == "__main__":
    main()
