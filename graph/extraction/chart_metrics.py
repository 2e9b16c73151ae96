"""Map a text to the GPU metric that it wants to see as a chart. Pure."""

import re
from typing import Final

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
