"""CPU seconds and bytes of incident pictures at their extremes.

`python -m tests.bench.perf.pictures`: prints one JSON document. Limits: one second and 200 kB each; the first row
includes the library import.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from bot.reports.charts.drawing import Drawing, build_bandwidth_drawing, build_heatmap_drawing, build_timeline_drawing, build_trace_drawing
from tests.bot.reports.charts.test_drawings import CURVES, LINES, WALKS
from tests.bot.reports.charts.test_heat import heat_of

T = TypeVar("T")
MOST_SECONDS, MOST_BYTES = 1.0, 200_000


def drawings() -> Iterator[tuple[str, Drawing]]:
    """Yield every kind at its extremes."""
    for hosts in (1, 40, 128):
        yield f"heat map, {hosts} hosts", build_heatmap_drawing(heat_of([f"gpu-{n:03}" for n in range(hosts)]))
    yield from ((f"bandwidth, {name}", build_bandwidth_drawing(row)) for name, row in CURVES.items())
    yield from ((f"walk, {name}", build_trace_drawing(row)) for name, row in WALKS.items())
    yield from ((f"timeline, {name}", build_timeline_drawing(row)) for name, row in LINES.items())


def spent(work: Callable[[], T]) -> tuple[float, T]:
    """Return CPU seconds and the result."""
    start = time.thread_time()
    made = work()
    return time.thread_time() - start, made


def row(name: str, drawing: Drawing) -> dict[str, object]:
    seconds, png = spent(lambda: drawing.draw("png"))
    told, text = spent(lambda: drawing.text)
    well = seconds <= MOST_SECONDS and len(png) <= MOST_BYTES
    return {
        "picture": name, "cpu_seconds": round(seconds, 3), "bytes": len(png),
        "text_cpu_seconds": round(told, 4), "text_bytes": len(text.encode()), "met": well,
    }  # fmt: skip


def main() -> int:
    """Print the rows; return 1 if a picture is too slow or too large."""
    first = next(drawings())
    rows = [row("the first of a process", first[1])]
    rows += [row(name, drawing) for name, drawing in drawings()]
    sys.stdout.write(json.dumps({"schema": 1, "items": rows}, indent=1) + "\n")
    return 0 if all(one["met"] for one in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
