"""`rackmedic expect …`: how long a job or a test should take, beside what was seen."""

from typing import Annotated

import typer

from bot.terminal.edge import answer
from bot.terminal.edge import settings as settings_of
from bot.terminal.options import Config, Json

expect = typer.Typer(
    name="expect",
    help="How long a step of training, an all-reduce, a matrix product or a copy should take on which GPUs, and whom to suspect where it takes longer.",
    epilog="Example: rackmedic expect job --sku h100-sxm --gpus 64 --params 70B --seq 8192 --batch 1024 --tp 8 --pp 4 --seen 240s --clock 345",
    no_args_is_help=True,
)
Sku = Annotated[str, typer.Option("--sku", metavar="SKU", help="A GPU of `rackmedic expect gpus`, or a profile of a machine: dgx-h100-8.")]
Gpus = Annotated[int, typer.Option("--gpus", metavar="N", help="GPUs that take part.")]
Seen = Annotated[str, typer.Option("--seen", metavar="TIME", help="What it took: 12.3s, 350ms.")]
SeenRate = Annotated[float | None, typer.Option("--seen-gbs", metavar="GB/S", help="The same as the bandwidth that the test prints.")]
Peers = Annotated[
    list[str] | None,
    typer.Option("--peer", metavar="TIME", help="What it took elsewhere, three or more times: it stands in for the model."),
]
Clock = Annotated[float | None, typer.Option("--clock", metavar="MHZ", min=1, help="The SM clock that was seen, of the slowest GPU.")]
Precision = Annotated[str, typer.Option("--precision", metavar="bf16|fp16|fp8|tf32", help="Of the matrix products.")]


@expect.command(
    epilog="Example: rackmedic expect job --sku a100-sxm-80 --gpus 288 --params 39B --seq 2048 --batch 1152 --tp 8 --pp 2 --seen 30s --clock 200"
)
def job(
    sku: Sku,
    gpus: Gpus,
    params: Annotated[str, typer.Option("--params", metavar="N", help="Parameters of the model: 70B.")],
    seq: Annotated[int, typer.Option("--seq", metavar="TOKENS", help="Tokens of a sequence.")],
    batch: Annotated[int, typer.Option("--batch", metavar="N", help="Sequences of a step, over all GPUs.")],
    tp: Annotated[int, typer.Option("--tp", metavar="N", help="Tensor parallelism.")] = 1,
    pp: Annotated[int, typer.Option("--pp", metavar="N", help="Pipeline parallelism.")] = 1,
    cp: Annotated[int, typer.Option("--cp", metavar="N", help="Context parallelism.")] = 1,
    micro: Annotated[int, typer.Option("--micro", metavar="N", help="Sequences of a micro batch.")] = 1,
    interleave: Annotated[int, typer.Option("--interleave", metavar="N", help="Pieces of the model in a stage of the pipeline.")] = 1,
    layers: Annotated[int, typer.Option("--layers", metavar="N", help="Layers; estimated from the parameters without.")] = 0,
    hidden: Annotated[int, typer.Option("--hidden", metavar="N", help="Hidden size; estimated likewise.")] = 0,
    precision: Precision = "bf16",
    recompute: Annotated[
        str, typer.Option("--recompute", metavar="none|selective|full", help="Which activations are computed twice.")
    ] = "none",
    shard: Annotated[
        str, typer.Option("--shard", metavar="none|optimizer|full", help="What data parallelism splits; FSDP and ZeRO-3: full.")
    ] = "optimizer",
    seen: Seen = "",
    peer: Peers = None,
    clock: Clock = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """One step of training a dense transformer: what it computes, reads and moves, and the time of it with an interval.

    What is slow is told by --seen; with --clock, whether a GPU at that SM clock explains it: a job is as fast as its slowest GPU."""
    settings = settings_of(config)
    from bot.terminal.measures.expect import amount, gpu_of, one_of, shaped, show_expected
    from kb.catalogues.accelerators import PRECISIONS
    from kb.performance.quantities import read_count, read_seconds
    from kb.performance.shapes import RECOMPUTE, SHARDING, JobShape

    def ask() -> int:
        size = amount("--params", read_count, params)
        kinds = (
            one_of("--precision", precision, PRECISIONS),
            one_of("--recompute", recompute, RECOMPUTE),
            one_of("--shard", shard, SHARDING),
        )
        shape = shaped(lambda: JobShape(size, seq, batch, gpus, tp, pp, cp, micro, interleave, layers, hidden, *kinds))
        took = amount("--seen", read_seconds, seen) if seen else None
        return show_expected(gpu_of(settings, sku), shape, took, peer or (), clock, as_json=json)

    raise typer.Exit(answer(ask))


@expect.command(epilog="Example: rackmedic expect allreduce --sku h100-sxm --gpus 16 --size 8G --seen-gbs 190")
def allreduce(
    sku: Sku,
    gpus: Gpus,
    size: Annotated[str, typer.Option("--size", metavar="BYTES", help="Bytes of the message, as nccl-tests count them: 8G.")],
    network: Annotated[
        float | None,
        typer.Option("--network", metavar="GBIT/S", min=1, help="All adapters of a server together; default: the usual server."),
    ] = None,
    seen: Seen = "",
    seen_gbs: SeenRate = None,
    peer: Peers = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """An all-reduce: its time and its bus bandwidth, over NVLink within a server and over the adapters between them."""
    settings = settings_of(config)
    from bot.terminal.measures.expect import amount, gpu_of, seconds_seen, shaped, show_expected
    from kb.performance.quantities import read_bytes
    from kb.performance.shapes import AllReduce

    def ask() -> int:
        given = amount("--size", read_bytes, size)
        shape = shaped(lambda: AllReduce(given, gpus, network * 1e9 / 8 if network else None))
        return show_expected(gpu_of(settings, sku), shape, seconds_seen(shape, seen, seen_gbs), peer or (), None, as_json=json)

    raise typer.Exit(answer(ask))


@expect.command(epilog="Example: rackmedic expect gemm --sku h100-sxm --m 8192 --n 8192 --k 8192 --seen 9.6ms --clock 345")
def gemm(
    sku: Sku,
    m: Annotated[int, typer.Option("--m", metavar="N", help="Rows of the first matrix.")],
    n: Annotated[int, typer.Option("--n", metavar="N", help="Columns of the second.")],
    k: Annotated[int, typer.Option("--k", metavar="N", help="What both share.")],
    precision: Precision = "bf16",
    seen: Seen = "",
    peer: Peers = None,
    clock: Clock = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """One matrix product on one GPU."""
    settings = settings_of(config)
    from bot.terminal.measures.expect import amount, gpu_of, one_of, shaped, show_expected
    from kb.catalogues.accelerators import PRECISIONS
    from kb.performance.quantities import read_seconds
    from kb.performance.shapes import Gemm

    def ask() -> int:
        kind = one_of("--precision", precision, PRECISIONS)
        shape = shaped(lambda: Gemm(m, n, k, kind))
        took = amount("--seen", read_seconds, seen) if seen else None
        return show_expected(gpu_of(settings, sku), shape, took, peer or (), clock, as_json=json)

    raise typer.Exit(answer(ask))


@expect.command(epilog="Example: rackmedic expect copy --sku h100-sxm --size 1G --seen-gbs 12.4")
def copy(
    sku: Sku,
    size: Annotated[str, typer.Option("--size", metavar="BYTES", help="Bytes that are copied: 1G.")],
    kind: Annotated[
        str, typer.Option("--kind", metavar="host|peer|memory", help="Between host and GPU, between two GPUs, or within one.")
    ] = "host",
    seen: Seen = "",
    seen_gbs: SeenRate = None,
    peer: Peers = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """A copy in one direction."""
    settings = settings_of(config)
    from bot.terminal.measures.expect import amount, gpu_of, one_of, seconds_seen, shaped, show_expected
    from kb.performance.quantities import read_bytes
    from kb.performance.shapes import COPIES, Copy

    def ask() -> int:
        way, given = one_of("--kind", kind, COPIES), amount("--size", read_bytes, size)
        shape = shaped(lambda: Copy(given, way))
        return show_expected(gpu_of(settings, sku), shape, seconds_seen(shape, seen, seen_gbs), peer or (), None, as_json=json)

    raise typer.Exit(answer(ask))


@expect.command()
def gpus(json: Json = False) -> None:
    """The GPUs that are known, with their peaks and where those are stated."""
    from bot.terminal.measures.expect import show_gpus

    raise typer.Exit(show_gpus(as_json=json))
