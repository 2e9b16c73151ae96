"""`all_reduce_perf` on one node: bandwidth and errors derived from the node's state."""

from collections.abc import Iterator

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines import speeds
from deploy.sandbox.cluster.render.query import Query
from deploy.sandbox.cluster.seeded_random import make_random

SIZES = tuple(512 * 1024**2 << i for i in range(5))
NCCL_TESTS_FOLDER = "/usr/local/nccl-tests/build"

COLUMNS = """#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def render_all_reduce(query: Query) -> ShellAnswer:
    """Return the table of sizes, or the error that precedes it."""
    node = query.node
    folder = query.slots.get("nccl_tests", NCCL_TESTS_FOLDER)
    ranks = int(query.slots.get("gpus", "8"))
    if folder.rstrip("/") != NCCL_TESTS_FOLDER:
        return text_answer("", 127, f"{folder}/all_reduce_perf: No such file or directory\n")
    head = (
        f"# nThread 1 nGpus {ranks} minBytes 536870912 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: "
        "20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
    )
    if cuda_error := speeds.find_cuda_error(node, ranks):
        error_text = f"{node.name}: Test CUDA failure common.cu:941 '{cuda_error}'\n .. {node.name} pid 48811: Test failure common.cu:891\n"
        return text_answer(head + error_text, 3)
    gpus = [gpu for gpu in node.gpus if gpu.answers][:ranks]
    devices = "".join(
        f"#  Rank {i:2} Group  0 Pid  48811 on {node.name:>10} device {i:2} [0x{gpu.bdf[5:7]}] {node.profile.product}\n"
        for i, gpu in enumerate(gpus)
    )
    wrong_values = 2 if any(gpu.corrupts for gpu in gpus) else 0
    lines, busbws = [], []
    for line, busbw in _iter_lines(query, ranks, wrong_values):
        lines.append(line)
        busbws.append(busbw)
    tail = f"# Out of bounds values : {2 * wrong_values if wrong_values else 0} {'FAILED' if wrong_values else 'OK'}\n# Avg bus bandwidth    : {sum(busbws) / len(busbws):.3f}\n#\n"
    return text_answer(head + devices + COLUMNS + "".join(lines) + tail, 1 if wrong_values else 0)


def _iter_lines(query: Query, ranks: int, wrong_values: int) -> Iterator[tuple[str, float]]:
    """Yield the table's line of each message size, and its mean bus bandwidth."""
    random = make_random(query.seed, query.node.name, "nccl")
    plateau = speeds.get_all_reduce_rate(query.node)
    for size in SIZES:
        busbws = [plateau * (0.94 + 0.012 * SIZES.index(size)) * (1 + random.uniform(-0.004, 0.004)) for _ in range(2)]
        cells = []
        for busbw in busbws:
            algbw = busbw * ranks / (2 * max(ranks - 1, 1))
            cells.append(f"{size / algbw / 1000:8.0f} {algbw:7.2f} {busbw:7.2f} {wrong_values:6}")
        yield f"{size:12} {size // 4:13}     float     sum      -1 {cells[0]} {cells[1]}\n", sum(busbws) / 2
