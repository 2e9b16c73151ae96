"""Read `nvidia-smi topo -m`: the path between each pair of devices.

GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity
GPU0 X NV18 PIX 0-55 0
GPU1 NV18 X SYS 0-55 0
"""

import re
from collections.abc import Sequence

from kb.needle_search import split_lines
from tools.checks.check_types import Unreadable
from tools.fact import Fact

TOPO_CHECK = "topo"
_ANSI_PATTERN = re.compile(r"\x1b\[[0-9;]*m|\[[04]m")
_NAME_PATTERN = re.compile(r"(?:GPU|NIC)\d{1,3}|(?:mlx5|mlx4|bnxt_re|efa|irdma)_\w{1,20}")
_CELL_PATTERN = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|PSB|SOC|NV(\d{1,2})|N/A")


def is_matrix(text: str) -> bool:
    return len(_find_header_lines(_ANSI_PATTERN.sub("", text))) == 1


def _find_header_lines(text: str) -> list[list[str]]:
    return [line.split() for line in split_lines(text) if re.match(r"\s*GPU\d{1,3}\s(?:.*\s)?CPU Affinity", line)]


def parse_matrix(text: str) -> Sequence[Fact]:
    """Return the paths between the GPUs. Raise Unreadable if a GPU has no complete row."""
    plain_text = _ANSI_PATTERN.sub("", text)
    header = _find_header_lines(plain_text)[0]
    columns = [word for word in header[: header.index("CPU")] if _NAME_PATTERN.fullmatch(word)]
    gpus = [name for name in columns if name.startswith("GPU")]
    paths_by_gpu = _parse_paths(plain_text, gpus, columns)
    missing_gpus = [name for name in gpus if name not in paths_by_gpu]
    if missing_gpus:
        raise Unreadable(f"the matrix names {len(gpus)} GPUs, no whole row for {', '.join(missing_gpus[:4])}")
    widths_by_gpu = {name: _list_nvlink_widths(name, paths, gpus) for name, paths in paths_by_gpu.items()}
    has_nvlink = any(widths_by_gpu.values())
    facts: list[Fact] = []
    for name, paths in paths_by_gpu.items():
        line = f"{name}: {' '.join(paths[peer] for peer in gpus)}"
        facts += _build_topo_facts(name.lower(), widths_by_gpu[name], line, len(gpus) - 1, has_nvlink)
    return [*facts, Fact(TOPO_CHECK, "topo.nics", len(columns) - len(gpus))]


def _parse_paths(text: str, gpus: Sequence[str], columns: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return each GPU's path to every other device, by the device's name. The last line of a GPU counts, if complete."""
    cells_by_gpu: dict[str, list[str]] = {}
    for line in split_lines(text):
        name, *cells = line.split() or [""]
        if name in gpus and len(cells) >= len(columns):
            cells_by_gpu[name] = cells[: len(columns)]
    return {
        name: dict(zip(columns, cells, strict=True))
        for name, cells in cells_by_gpu.items()
        if all(_CELL_PATTERN.fullmatch(cell) for cell in cells)
    }


def _list_nvlink_widths(name: str, paths: dict[str, str], gpus: Sequence[str]) -> list[int]:
    """Return how many links each NVLink bond of the GPU has."""
    matches = [_CELL_PATTERN.fullmatch(paths[peer]) for peer in gpus if peer != name]
    return [int(match[1]) for match in matches if match and match[1]]


def _build_topo_facts(device: str, widths: Sequence[int], line: str, peer_count: int, has_nvlink: bool) -> list[Fact]:
    facts = [
        Fact(TOPO_CHECK, "topo.peers", peer_count, device, line=line),
        Fact(TOPO_CHECK, "topo.nvlinked", len(widths), device, line=line),
        Fact(TOPO_CHECK, "topo.missing", has_nvlink and not widths, device, line=line),
    ]
    if widths:
        facts.append(Fact(TOPO_CHECK, "topo.nvlink_width", min(widths), device, line=line))
    return facts
