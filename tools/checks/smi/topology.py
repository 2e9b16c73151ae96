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
    """Raise Unreadable if a GPU has no complete row."""
    clean = _ANSI_PATTERN.sub("", text)
    head = _find_header_lines(clean)[0]
    columns = [word for word in head[: head.index("CPU")] if _NAME_PATTERN.fullmatch(word)]
    gpus = [name for name in columns if name.startswith("GPU")]
    rows = {row[0]: row for row in (line.split() for line in split_lines(clean)) if row and row[0] in gpus and len(row) > len(columns)}
    complete_rows = {name: row for name, row in rows.items() if all(_CELL_PATTERN.fullmatch(cell) for cell in row[1 : len(columns) + 1])}
    missing = [name for name in gpus if name not in complete_rows]
    if missing:
        raise Unreadable(f"the matrix names {len(gpus)} GPUs, no whole row for {', '.join(missing[:4])}")
    links = {name: _parse_links(dict(zip(columns, row[1:], strict=False)), gpus, name) for name, row in complete_rows.items()}
    some = any(widths for widths, _ in links.values())
    facts = [fact for name, (widths, lines) in links.items() for fact in _build_topo_facts(name, widths, lines, len(gpus) - 1, some)]
    return [*facts, Fact(TOPO_CHECK, "topo.nics", len(columns) - len(gpus))]


def _parse_links(cells: dict[str, str], gpus: Sequence[str], name: str) -> tuple[list[int], str]:
    """Return each NVLink bond's width, and the row as text."""
    matches = [_CELL_PATTERN.fullmatch(cells[peer]) for peer in gpus if peer != name]
    widths = [int(match[1]) for match in matches if match and match[1]]
    return widths, f"{name}: " + " ".join(cells[peer] for peer in gpus)


def _build_topo_facts(name: str, widths: Sequence[int], line: str, peers: int, some: bool) -> list[Fact]:
    device = name.lower()
    facts = [
        Fact(TOPO_CHECK, "topo.peers", peers, device, line=line),
        Fact(TOPO_CHECK, "topo.nvlinked", len(widths), device, line=line),
        Fact(TOPO_CHECK, "topo.missing", some and not widths, device, line=line),
    ]
    return [*facts, Fact(TOPO_CHECK, "topo.nvlink_width", min(widths), device, line=line)] if widths else facts
