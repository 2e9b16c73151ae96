"""Published performance figures beside the predictions of `kb/performance`: the table of docs/performance.md.

Only shape, machine, figure and address are kept. `used` rows supplied a constant of kb.performance.efficiency; the
others are held out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kb.catalogues.accelerators import Precision, load_accelerators
from kb.performance.time_model import ExpectedTime, compute_expected_time
from kb.performance.workloads import AllReduce, Copy, Gemm, JobShape, Recompute, Workload, format_bytes

MEGATRON_2021 = "https://arxiv.org/abs/2104.04473"
LLAMA_3 = "https://arxiv.org/abs/2407.21783"
MLPERF = "https://github.com/mlcommons/training_results_v3.1/tree/main/NVIDIA/results/eos-dfw_n1344_ngc23.09_nemo/gpt3"
MPT = "https://github.com/mosaicml/llm-foundry/tree/main/scripts/train/benchmarking"
BRIDGE = "https://docs.nvidia.com/nemo/megatron-bridge/latest/performance-summary-archive.html"
MAMF = "https://github.com/stas00/ml-engineering/tree/master/compute/accelerator"
NCCL_212 = "https://github.com/NVIDIA/nccl-tests/issues/212"
SUPERBENCH = "https://github.com/microsoft/superbenchmark/tree/main/tests/data"
GCM = "https://github.com/facebookresearch/gcm/tree/main/gcm/tests/health_checks_tests"
OCI = "https://github.com/oracle-quickstart/oci-hpc/tree/master/documentation"
DSTACK = "https://github.com/dstackai/dstack/tree/master/mkdocs/docs/examples/clusters"
COREWEAVE = "https://github.com/coreweave/nccl-tests"
AZURE = "https://github.com/Azure/ai-infrastructure-on-azure/tree/main/skills/slurm"
NVBANDWIDTH = "https://github.com/NVIDIA/nccl/issues/1264"
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    what: str
    gpu: str
    shape: Workload
    value: float
    unit: str
    source: str
    used: bool = False

    @property
    def model(self) -> ExpectedTime:
        return compute_expected_time(self.shape, load_accelerators()[self.gpu])

    def as_published(self, seconds: float) -> float:
        """Convert the model's seconds to the figure's unit."""
        if self.unit == "tokens/s/GPU" and isinstance(self.shape, JobShape):
            return self.shape.tokens / self.shape.gpus / seconds
        return self.model.work / seconds

    @property
    def expects(self) -> float:
        return self.as_published(self.model.seconds)

    @property
    def ends(self) -> tuple[float, float]:
        return self.as_published(self.model.max_seconds), self.as_published(self.model.min_seconds)

    @property
    def error(self) -> float:
        """Return the prediction's relative error."""
        return self.expects / self.value - 1

    @property
    def inside(self) -> bool:
        least, most = self.ends
        return least <= self.value <= most


def _megatron(params: float, hidden: int, layers: int, tensor: int, pipeline: int, gpus: int, batch: int, tflops: float) -> PublishedFigure:
    """Return a row of its weak scaling table, converted from its own TFLOP/s (which count recomputation) to tokens."""
    sequence, vocabulary = 2048, 51_200
    shape = JobShape(params * 1e9, sequence, batch, gpus, tensor, pipeline, layers=layers, hidden=hidden, recompute="full", sharding="none")
    count = 96 * batch * sequence * layers * hidden**2 * (1 + sequence / (6 * hidden) + vocabulary / (16 * layers * hidden))
    tokens = batch * sequence / (count / (gpus * tflops * 1e12)) / gpus
    return PublishedFigure(f"GPT {params:g} B, Megatron-LM of 2021", "a100-sxm-80", shape, round(tokens), "tokens/s/GPU", MEGATRON_2021)


_MPT_MODELS = {"7": (6.6589e9, 32, 4096), "13": (12.854e9, 40, 5120), "30": (29.9752e9, 48, 7168), "70": (64.8624e9, 80, 8192)}


def _mpt(
    size: str, gpu: str, gpus: int, batch: int, micro: int, tokens: float, recompute: Recompute, *, used: bool = False
) -> PublishedFigure:
    params, layers, hidden = _MPT_MODELS[size]
    shape = JobShape(params, 2048, batch, gpus, micro=micro, layers=layers, hidden=hidden, recompute=recompute, sharding="full")
    return PublishedFigure(f"MPT {size} B, FSDP", gpu, shape, tokens, "tokens/s/GPU", MPT, used)


def _bridge(name: str, gpu: str, shape: JobShape, tokens: float, *, used: bool = False) -> PublishedFigure:
    return PublishedFigure(f"{name}, FP8", gpu, shape, tokens, "tokens/s/GPU", BRIDGE, used)


def _llama(params: float, batch: int, gpus: int, tp: int, pp: int, cp: int, vp: int, *, micro: int = 1, full: bool = False) -> JobShape:
    layers, hidden = {8.03: (32, 4096), 70.6: (80, 8192), 405: (126, 16384)}[params]
    return JobShape(params * 1e9, 8192, batch, gpus, tp, pp, cp, micro, vp, layers, hidden, "fp8", sharding="full" if full else "optimizer")


def _sum(gpu: str, gpus: int, gib: float, value: float, source: str) -> PublishedFigure:
    return PublishedFigure(
        f"all-reduce of {format_bytes(gib * GIB)}", gpu, AllReduce(gib * GIB, gpus), value, "GB/s", source, source == NCCL_212
    )


def _matmul(gpu: str, precision: Precision, m: int, n: int, k: int, value: float, source: str = MAMF) -> PublishedFigure:
    return PublishedFigure(f"product {m} x {k} x {n}, {precision}", gpu, Gemm(m, n, k, precision), value, "TFLOP/s", source, source == MAMF)


_GPT_3 = JobShape(175e9, 2048, 2688, 10752, 4, 8, interleave=6, layers=96, hidden=12288, precision="fp8")

FIGURES: Sequence[PublishedFigure] = (
    _mpt("7", "a100-sxm-80", 8, 96, 6, 4641, "none", used=True),
    _mpt("13", "a100-sxm-80", 8, 48, 2, 2262, "none", used=True),
    _mpt("30", "a100-sxm-80", 8, 504, 3, 916, "full", used=True),
    _mpt("7", "h100-sxm", 8, 48, 6, 10643, "none", used=True),
    _mpt("13", "h100-sxm", 8, 16, 2, 4792, "none", used=True),
    _mpt("30", "h100-sxm", 8, 504, 3, 2002, "full", used=True),
    _bridge("Llama 3 8B", "h100-sxm", _llama(8.03, 128, 8, 1, 1, 1, 1, full=True), 14451, used=True),
    _bridge("Llama 3 8B", "b200-sxm", _llama(8.03, 128, 8, 1, 1, 1, 1, micro=2), 30624, used=True),
    _mpt("70", "a100-sxm-80", 64, 2048, 8, 410, "full"),
    _mpt("70", "a100-sxm-40", 128, 512, 4, 376, "full"),
    _mpt("30", "a100-sxm-40", 128, 768, 6, 865, "full"),
    _mpt("13", "a100-sxm-40", 64, 1024, 16, 1976, "full"),
    _mpt("70", "h100-sxm", 64, 2048, 8, 1039, "full"),
    _mpt("30", "h100-sxm", 32, 1344, 14, 2308, "full"),
    _mpt("13", "h100-sxm", 64, 128, 2, 4800, "none"),
    _megatron(1.7, 2304, 24, 1, 1, 32, 512, 137),
    _megatron(18.4, 6144, 40, 8, 1, 256, 1024, 135),
    _megatron(39.1, 8192, 48, 8, 2, 512, 1536, 138),
    _megatron(145.6, 12288, 80, 8, 8, 1536, 2304, 148),
    _megatron(529.6, 20480, 105, 8, 35, 2520, 2520, 163),
    _megatron(1008, 25600, 128, 8, 64, 3072, 3072, 163),
    PublishedFigure("Llama 3 405B, pieces of one layer", "h100-sxm", JobShape(405e9, 8192, 2048, 8192, 8, 16, interleave=7, layers=126,
                    hidden=16384), 430, "TFLOP/s", LLAMA_3),
    PublishedFigure("Llama 3 405B, pieces of one layer", "h100-sxm", JobShape(405e9, 8192, 2048, 16384, 8, 16, interleave=7, layers=126,
                    hidden=16384), 400, "TFLOP/s", LLAMA_3),
    PublishedFigure("GPT-3 175B, FP8, MLPerf Training 3.1", "h100-sxm", _GPT_3, round(5_154_997 / 10_752, 1), "tokens/s/GPU", MLPERF),
    _bridge("Llama 3 70B", "h100-sxm", _llama(70.6, 256, 64, 4, 8, 1, 5), 1664),
    _bridge("Llama 3.1 405B", "h100-sxm", _llama(405, 1536, 1024, 8, 8, 2, 8), 328),
    _bridge("Llama 3.1 405B", "b200-sxm", _llama(405, 64, 128, 4, 8, 2, 8), 661),
    _bridge("Llama 3 8B", "gb200", _llama(8.03, 128, 8, 1, 1, 1, 1, micro=2), 31508),
    _bridge("Llama 3.1 405B", "gb200", _llama(405, 1536, 256, 4, 16, 1, 4), 864),
    _sum("a100-sxm-40", 8, 8, 235.3, SUPERBENCH),
    _sum("a100-sxm-80", 8, 1, 231.7, GCM),
    _sum("a100-sxm-80", 16, 1, 182.8, GCM),
    _sum("h100-sxm", 8, 8, 480, NCCL_212),
    _sum("h100-sxm", 16, 16, 471.2, OCI),
    _sum("h100-sxm", 16, 8, 467.5, DSTACK),
    _sum("h100-sxm", 16, 0.0625, 266.4, DSTACK),
    _sum("b200-sxm", 16, 8, 683.5, DSTACK),
    _sum("b200-sxm", 16, 2, 696.1, DSTACK),
    _sum("h100-sxm", 64, 8, 386.6, COREWEAVE),
    _sum("gb200", 72, 4, 839.2, COREWEAVE),
    _sum("gb300", 72, 16, 936.9, AZURE),
    _matmul("a100-sxm-80", "bf16", 1024, 10240, 5120, 271.2),
    _matmul("a100-pcie-80", "bf16", 2048, 5120, 6144, 252.9),
    _matmul("h100-sxm", "bf16", 2048, 2048, 13312, 794.5),
    _matmul("b200-sxm", "bf16", 1792, 16128, 3072, 1745),
    _matmul("gb200", "bf16", 4096, 9728, 2048, 1822),
    _matmul("h100-sxm", "fp8", 1024, 9216, 14336, 1402.6),
    _matmul("h200-sxm", "fp8", 1280, 4096, 12032, 1453.4),
    _matmul("b200-sxm", "fp8", 15360, 4096, 3072, 3432.5),
    _matmul("gb200", "fp8", 19456, 5120, 1536, 3615.6),
    _matmul("h100-sxm", "bf16", 8192, 8192, 8192, 769, AZURE),
    PublishedFigure("copy between GPUs", "h100-sxm", Copy(GIB, "peer"), 380, "GB/s", NVBANDWIDTH),
)  # fmt: skip


def table() -> str:
    """Return every figure with prediction, interval and error."""
    rows = ["| what | on | published | expected | interval | error | |", "|---|---|---|---|---|---|---|"]
    return "\n".join([*rows, *map(_row, FIGURES), "", summary()])


def _row(figure: PublishedFigure) -> str:
    least, most = figure.ends
    gpus = getattr(figure.shape, "gpus", 1)
    notes = ", ".join(filter(None, ("used" if figure.used else "", "" if figure.inside else "outside")))
    where = f"{gpus:,} x {figure.gpu}" if gpus > 1 else figure.gpu
    cells = (figure.what, where, f"[{figure.value:,g} {figure.unit}]({figure.source})", _figures(figure.expects))
    return f"| {' | '.join(cells)} | {_figures(least)} to {_figures(most)} | {figure.error:+.0%} | {notes} |"


def _figures(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def summary() -> str:
    """Return the errors of held-out figures by kind."""
    kinds = {"jobs": JobShape, "all-reduces": AllReduce, "products": Gemm, "copies": Copy}
    held_out = [one for one in FIGURES if not one.used]
    rows = ["| of what was not used | rows | median error | greatest | inside the interval |", "|---|---|---|---|---|"]
    for name, kind in (("all", object), *kinds.items()):
        own = [one for one in held_out if isinstance(one.shape, kind)]
        errors = [abs(one.error) for one in own]
        rows.append(f"| {name} | {len(own)} | {median(errors):.0%} | {max(errors):.0%} | {sum(one.inside for one in own)} |")
    return "\n".join(rows)


def gpus() -> str:
    """Return the table of known GPUs."""
    rows = [
        "| sku | bf16 TFLOP/s | fp8 | memory GB/s | NVLink GB/s | network Gb/s | SM MHz | stated by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for gpu in load_accelerators().values():
        peaks = [f"{peak / 1e12:,.4g}" if (peak := gpu.get_peak_flops(precision)) else "" for precision in ("bf16", "fp8")]
        cells = (
            *peaks,
            f"{gpu.memory / 1e9:,.0f}",
            f"{gpu.nvlink / 1e9:,.0f}" if gpu.nvlink else "",
            f"{gpu.network * 8 / 1e9:,.0f}" if gpu.network else "",
        )
        rows.append(f"| `{gpu.name}` | {' | '.join(cells)} | {gpu.max_mhz:,} | [{gpu.title}]({gpu.source}) |")
    return "\n".join(rows)
