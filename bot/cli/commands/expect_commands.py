"""`rackmedic expect …`: expected against observed durations."""

from typing import Annotated

import typer

from bot.cli.command_runtime import ConfigOption, JsonOption, call_or_exit, load_settings_or_exit

expect = typer.Typer(
    name="expect",
    help="Estimate how long a training step, all-reduce, GEMM or copy should take, and what to suspect if it is slower.",
    epilog="Example: rackmedic expect allreduce --sku h100-sxm --gpus 16 --size 8G",
    no_args_is_help=True,
)
SkuOption = Annotated[
    str, typer.Option("--sku", metavar="SKU", help="A GPU of `rackmedic expect gpus`, or a profile of a machine: dgx-h100-8.")
]
GpuCountOption = Annotated[int, typer.Option("--gpus", metavar="N", help="Number of GPUs that take part.")]
SeenTimeOption = Annotated[str, typer.Option("--seen", metavar="TIME", help="Observed time: 12.3s, 350ms.")]
SeenBandwidthOption = Annotated[
    float | None, typer.Option("--seen-gbs", metavar="GB/S", help="Observed bandwidth, as the test prints it, instead of --seen.")
]
PeerTimesOption = Annotated[
    list[str] | None,
    typer.Option("--peer", metavar="TIME", help="Observed time elsewhere; give three or more, and they replace the model."),
]
ClockOption = Annotated[float | None, typer.Option("--clock", metavar="MHZ", min=1, help="Observed SM clock of the slowest GPU.")]
PrecisionOption = Annotated[str, typer.Option("--precision", metavar="bf16|fp16|fp8|tf32", help="Precision of the matrix products.")]


@expect.command(epilog="Example:\n\nrackmedic expect job --sku h100-sxm --gpus 8 --params 7B --seq 4096 --batch 64")
def job(
    sku: SkuOption,
    gpus: GpuCountOption,
    params: Annotated[str, typer.Option("--params", metavar="N", help="Parameters of the model: 70B.")],
    seq: Annotated[int, typer.Option("--seq", metavar="TOKENS", help="Tokens of a sequence.")],
    batch: Annotated[int, typer.Option("--batch", metavar="N", help="Sequences of a step, over all GPUs.")],
    tp: Annotated[int, typer.Option("--tp", metavar="N", help="Tensor parallelism.")] = 1,
    pp: Annotated[int, typer.Option("--pp", metavar="N", help="Pipeline parallelism.")] = 1,
    cp: Annotated[int, typer.Option("--cp", metavar="N", help="Context parallelism.")] = 1,
    micro: Annotated[int, typer.Option("--micro", metavar="N", help="Sequences of a micro batch.")] = 1,
    interleave: Annotated[int, typer.Option("--interleave", metavar="N", help="Pieces of the model in a stage of the pipeline.")] = 1,
    layers: Annotated[int, typer.Option("--layers", metavar="N", help="Layers; default: estimated from the parameters.")] = 0,
    hidden: Annotated[int, typer.Option("--hidden", metavar="N", help="Hidden size; default: estimated from the parameters.")] = 0,
    precision: PrecisionOption = "bf16",
    recompute: Annotated[
        str, typer.Option("--recompute", metavar="none|selective|full", help="Which activations are computed twice.")
    ] = "none",
    shard: Annotated[
        str, typer.Option("--shard", metavar="none|optimizer|full", help="What data parallelism splits; FSDP and ZeRO-3: full.")
    ] = "optimizer",
    seen: SeenTimeOption = "",
    peer: PeerTimesOption = None,
    clock: ClockOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Estimate one training step of a dense transformer, with an interval.

    Shows what the step computes, reads and moves.

    With --seen, says what is slow; with --clock, whether a GPU at that SM clock explains it: a job is as fast as its slowest GPU.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.expect import build_workload, find_gpu, parse_amount, parse_choice, print_expected
    from kb.catalogues.accelerators import PRECISIONS
    from kb.performance.workloads import RECOMPUTE_KINDS, SHARDING_KINDS, JobShape, parse_count, parse_seconds

    def ask() -> int:
        size = parse_amount("--params", parse_count, params)
        kinds = (
            parse_choice("--precision", precision, PRECISIONS),
            parse_choice("--recompute", recompute, RECOMPUTE_KINDS),
            parse_choice("--shard", shard, SHARDING_KINDS),
        )
        shape = build_workload(lambda: JobShape(size, seq, batch, gpus, tp, pp, cp, micro, interleave, layers, hidden, *kinds))
        took = parse_amount("--seen", parse_seconds, seen) if seen else None
        return print_expected(find_gpu(settings, sku), shape, took, peer or (), clock, as_json=json)

    raise typer.Exit(call_or_exit(ask))


@expect.command(epilog="Example: rackmedic expect allreduce --sku h100-sxm --gpus 16 --size 8G")
def allreduce(
    sku: SkuOption,
    gpus: GpuCountOption,
    size: Annotated[str, typer.Option("--size", metavar="BYTES", help="Bytes of the message, as nccl-tests count them: 8G.")],
    network: Annotated[
        float | None,
        typer.Option("--network", metavar="GBIT/S", min=1, help="All adapters of a server together; default: the usual server."),
    ] = None,
    seen: SeenTimeOption = "",
    seen_gbs: SeenBandwidthOption = None,
    peer: PeerTimesOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Estimate the time and the bus bandwidth of an all-reduce.

    It runs over NVLink within a server and over the adapters between servers.
    """
    settings = load_settings_or_exit(config)
    from bot.cli.expect import build_workload, compute_seen_seconds, find_gpu, parse_amount, print_expected
    from kb.performance.workloads import AllReduce, parse_bytes

    def ask() -> int:
        amount = parse_amount("--size", parse_bytes, size)
        shape = build_workload(lambda: AllReduce(amount, gpus, network * 1e9 / 8 if network else None))
        return print_expected(find_gpu(settings, sku), shape, compute_seen_seconds(shape, seen, seen_gbs), peer or (), None, as_json=json)

    raise typer.Exit(call_or_exit(ask))


@expect.command(epilog="Example: rackmedic expect gemm --sku h100-sxm --m 8192 --n 8192 --k 8192")
def gemm(
    sku: SkuOption,
    m: Annotated[int, typer.Option("--m", metavar="N", help="Rows of the first matrix.")],
    n: Annotated[int, typer.Option("--n", metavar="N", help="Columns of the second.")],
    k: Annotated[int, typer.Option("--k", metavar="N", help="The dimension that both share.")],
    precision: PrecisionOption = "bf16",
    seen: SeenTimeOption = "",
    peer: PeerTimesOption = None,
    clock: ClockOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Estimate one matrix product on one GPU."""
    settings = load_settings_or_exit(config)
    from bot.cli.expect import build_workload, find_gpu, parse_amount, parse_choice, print_expected
    from kb.catalogues.accelerators import PRECISIONS
    from kb.performance.workloads import Gemm, parse_seconds

    def ask() -> int:
        kind = parse_choice("--precision", precision, PRECISIONS)
        shape = build_workload(lambda: Gemm(m, n, k, kind))
        took = parse_amount("--seen", parse_seconds, seen) if seen else None
        return print_expected(find_gpu(settings, sku), shape, took, peer or (), clock, as_json=json)

    raise typer.Exit(call_or_exit(ask))


@expect.command(epilog="Example: rackmedic expect copy --sku h100-sxm --size 1G --seen-gbs 12.4")
def copy(
    sku: SkuOption,
    size: Annotated[str, typer.Option("--size", metavar="BYTES", help="Bytes that are copied: 1G.")],
    kind: Annotated[
        str, typer.Option("--kind", metavar="host|peer|memory", help="Between host and GPU, between two GPUs, or within one.")
    ] = "host",
    seen: SeenTimeOption = "",
    seen_gbs: SeenBandwidthOption = None,
    peer: PeerTimesOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Estimate a copy in one direction."""
    settings = load_settings_or_exit(config)
    from bot.cli.expect import build_workload, compute_seen_seconds, find_gpu, parse_amount, parse_choice, print_expected
    from kb.performance.workloads import COPY_KINDS, Copy, parse_bytes

    def ask() -> int:
        way, amount = parse_choice("--kind", kind, COPY_KINDS), parse_amount("--size", parse_bytes, size)
        shape = build_workload(lambda: Copy(amount, way))
        return print_expected(find_gpu(settings, sku), shape, compute_seen_seconds(shape, seen, seen_gbs), peer or (), None, as_json=json)

    raise typer.Exit(call_or_exit(ask))


@expect.command(epilog="Example: rackmedic expect gpus")
def gpus(json: JsonOption = False) -> None:
    """List the known GPUs with their peak rates.

    With --json, each has the sources of its figures.
    """
    from bot.cli.expect import print_gpus

    raise typer.Exit(print_gpus(as_json=json))
