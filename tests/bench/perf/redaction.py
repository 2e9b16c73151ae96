"""Cost of redaction per megabyte: check outputs, and three log mixes, whole and by line.

`python -m tests.bench.perf.redaction [--mb 4]`: prints one JSON document. `ratio` is relative to zlib level 6 (used for
evidence) on the same text, so that machines can be compared.
"""

import argparse
import json
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence

from kb.redact import redact
from tests.bench.perf.logs import MIXES, blocks
from tests.support.samples_checks import SAMPLES

LINES = 4000


def texts(megabytes: int) -> Mapping[str, Sequence[str]]:
    logs = {mix: b"".join(blocks(mix, megabytes)).decode() for mix in MIXES}
    outputs = [sample for samples in SAMPLES.values() for sample in samples] * 8
    return {"outputs of checks": outputs} | {f"log, {mix}": [text] for mix, text in logs.items()} | {
        f"log, {mix}, line by line": text.split("\n")[:LINES] for mix, text in logs.items()
    }  # fmt: skip


def spent(work: Callable[[str], object], said: Sequence[str], times: int = 3) -> float:
    """Return the least CPU seconds of several runs."""
    least = float("inf")
    for _ in range(times):
        start = time.thread_time()
        for text in said:
            work(text)
        least = min(least, time.thread_time() - start)
    return least


def row(name: str, said: Sequence[str]) -> dict[str, object]:
    size = sum(map(len, said)) / 1e6
    cost, beside = spent(redact, said), spent(lambda text: zlib.compress(text.encode(), 6), said)
    return {"text": name, "mb": round(size, 2), "ms_per_mb": round(cost / size * 1000, 1), "ratio": round(cost / beside, 2)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mb", type=int, default=4)
    rows = [row(name, said) for name, said in texts(parser.parse_args().mb).items()]
    sys.stdout.write(json.dumps({"schema": 1, "items": rows}, indent=1) + "\n")
