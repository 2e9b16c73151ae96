"""GPU metrics as charts: those that a text asks for, and those behind a diagnosis that are worth an unrequested chart. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from graph.report import AttachedChart
from graph.state import Hypothesis
from kb.fact_keys import find_key
from tools.fact import Fact
from tools.heatmap import Heatmap

# Select the GPU numbers behind a diagnosis that are worth an unrequested chart.

MAX_UNREQUESTED_CHARTS = 1  # Charts per report without a request
MIN_CHART_VALUES = 4  # values below which words say it as fast
MAX_CHART_HOSTS = 400


def iter_deciding_gpu_keys(causes: Sequence[Hypothesis]) -> Iterator[str]:
    """Yield GPU quantity keys that causes cite."""
    for name in dict.fromkeys(row.key for cause in causes for row in cause.evidence):
        if (key := find_key(name)) and key.is_quantity and key.scope == "gpu":
            yield key.name


def iter_deciding_heatmaps(causes: Sequence[Hypothesis], facts: Sequence[Fact]) -> Iterator[Heatmap]:
    """Yield one heatmap per deciding key."""
    for key in iter_deciding_gpu_keys(causes):
        heat = Heatmap(key, sorted({fact.host for fact in facts if fact.key == key and fact.host}))
        heat.add_facts(facts)
        yield heat


def count_known_values(heatmap: Heatmap) -> int:
    return sum(value is not None for host in heatmap.list_known_hosts() for value in heatmap.get_row(host))


def _is_accused_device(cause: Hypothesis, key: str, host: str, column: str) -> bool:
    if host not in cause.hosts or key not in {row.key for row in cause.evidence}:
        return False
    on_host = [device for device in cause.devices if device.startswith(f"{host}/")]
    return not on_host or not column or f"{host}/{column}" in on_host


def select_report_charts(causes: Sequence[Hypothesis], facts: Sequence[Fact]) -> tuple[AttachedChart, ...]:
    """Return charts in which an accused host is the outlier; any other chart would say nothing or mislead."""
    telling = (
        row
        for row in iter_deciding_heatmaps(causes, facts)
        if count_known_values(row) >= MIN_CHART_VALUES
        and (far := row.find_outlier())
        and any(_is_accused_device(cause, row.key, far[0], far[1]) for cause in causes)
    )
    charts = [AttachedChart(key=row.key, hosts=tuple(row.list_outlier_hosts(MAX_CHART_HOSTS)), asked=False) for row in telling]
    return tuple(charts[:MAX_UNREQUESTED_CHARTS])


# Map a text to the GPU metric that it wants to see as a chart.

# Key and its words and phrases; the first matching row counts.
METRIC_PHRASES: Final[tuple[tuple[str, str], ...]] = (
    ("gpu.temp.memory", "memory temperature, memory temperatures, memory temps, hbm temperature, hbm temperatures, hbm temps"),
    ("gpu.ecc.dram_uncorrectable_total", "uncorrectable, uncorrected, double bit"),
    ("gpu.ecc.dram_correctable_total", "ecc, correctable, corrected, single bit"),
    ("nvlink.crc_errors", "nvlink errors, nvlink crc, crc"),
    ("nvlink.speed", "nvlink, nvlinks"),
    ("pcie.width", "pcie width, pcie lanes, lanes"),
    ("pcie.speed", "pcie, pcie speed"),
    ("nccl.pair_busbw", "nccl, busbw, bus bandwidth, bandwidth, bandwidths, matrix, pairs"),
    ("gpu.temp.core", "temperature, temperatures, temp, temps, thermals, heat, hot, hottest, temperatur, temperaturen, temperatura, hitze"),
    ("gpu.clock.sm", "clock, clocks, frequency, frequencies, mhz"),
    ("gpu.power.draw", "power, watt, watts"),
    ("gpu.util", "utilisation, utilization, util, load, busy"),
    ("gpu.memory.used", "memory, vram, memory use, memory usage"),
)
# Metric per check where no metric is named. Other checks print words, which a chart cannot show better.
CHECK_METRICS: Final = {
    "smi": "gpu.temp.core",
    "nvlink": "nvlink.speed",
    "lspci": "pcie.width",
    "bw": "nccl.pair_busbw",
    "nccl2": "nccl.pair_busbw",
}
DEFAULT_METRIC = "gpu.temp.core"  # For a plain "heat map", where no GPU metric decided the diagnosis.
MAX_CHARS = 2000


def find_metric(text: str, check: str, usual: str = DEFAULT_METRIC) -> str:
    """Return the key, or an empty string where no GPU metric is meant. `usual` applies to a plain "heat map"."""
    words = f" {' '.join(re.findall(r'[a-z0-9]+', text[:MAX_CHARS].casefold())).replace('heat map', 'heatmap')} "
    if check and check not in CHECK_METRICS:
        return ""
    metric = next((key for key, phrases in METRIC_PHRASES if any(f" {phrase} " in words for phrase in phrases.split(", "))), "")
    return metric or CHECK_METRICS.get(check, usual if " heatmap " in words else "")
