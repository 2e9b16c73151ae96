"""Copies between host and GPUs and between GPUs: `nvbandwidth`, as JSON and as its tables.

    {"nvbandwidth": {"testcases": [{"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["55.1", "54.9"]]}]}}

    memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
               0         1
     0     55.10     54.90

Peer matrices are (this GPU, its peer); a GPU has no value for itself.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.exclusive.cuda import find_cuda_error
from tools.checks.output_values import parse_number
from tools.fact import Fact, Status, build_unobserved_fact

H2D = "host_to_device_memcpy_ce"
D2H = "device_to_host_memcpy_ce"
PEER = "device_to_device_memcpy_read_ce"
INSTALL_HINT = "nvbandwidth on the PATH: https://github.com/NVIDIA/nvbandwidth (cmake . && make), also in the DCGM 4 packages"
Matrix = list[list[float | None]]
MatrixReader = Callable[[str], Mapping[str, Matrix]]
MatrixFactBuilder = Callable[[Mapping[str, Matrix]], Sequence[Fact]]
_RUNNING_PATTERN = re.compile(r"Running ([a-z_0-9]{3,80})\.")
_WAIVED_PATTERN = re.compile(r"^(?:Waived|ERROR|\[.{0,80}ERROR|CUDA[_ ].{0,200}rror).{0,200}$", re.MULTILINE)
_FAILED_PATTERN = re.compile(r"(CUDA_ERROR_[A-Z_]{3,60}|cudaError[A-Za-z]{3,60})")


class NothingMeasured(Unreadable):
    """The tool measured nothing. The text is its own complaint."""


def is_json(text: str) -> bool:
    return '"nvbandwidth"' in text[:4000] and "{" in text


def is_table(text: str) -> bool:
    return "nvbandwidth Version" in text[:4000] or bool(_RUNNING_PATTERN.search(text))


def parse_json_matrices(text: str) -> Mapping[str, Matrix]:
    """Return matrices by test case. Raise NothingMeasured with the tool's error if there are none."""
    start = text.find("{")
    try:
        root = json.JSONDecoder().raw_decode(text[start:])[0]["nvbandwidth"]
        cases = root.get("testcases") or []
        matrices = {}
        for case in cases:
            if case.get("status", "Passed") == "Passed":
                matrices[str(case["name"])] = _parse_matrix(case.get("bandwidth_matrix"))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise Unreadable(f"JSON of nvbandwidth breaks off or is none: {type(error).__name__}") from error
    matrices = {name: matrix for name, matrix in matrices.items() if matrix}
    if not matrices:
        raise NothingMeasured(_format_complaint(root, cases))
    return matrices


def _format_complaint(root: Mapping[str, Any], cases: Iterable[Any]) -> str:
    complaints = [root.get("error"), *(case.get("error") or case.get("status") for case in cases if isinstance(case, dict))]
    first_complaint = next((str(complaint)[:160] for complaint in complaints if complaint), "it says nothing")
    return f"no test case was measured: {first_complaint}"


def _parse_matrix(matrix: Any) -> Matrix:
    if not isinstance(matrix, list):
        return []
    return [[_parse_matrix_cell(cell) for cell in cells[:64]] for cells in matrix[:64] if isinstance(cells, list)]


def _parse_matrix_cell(cell: object) -> float | None:
    value = parse_number(str(cell))
    return value if value is not None and 0 <= value < 1e6 else None


def parse_table_matrices(text: str) -> Mapping[str, Matrix]:
    matrices: dict[str, Matrix] = {}
    name, column_count = "", 0
    for line in split_lines(text):
        if match := _RUNNING_PATTERN.search(line[:200]):
            name, column_count = match[1], 0
            continue
        words = line[:2000].split()
        if name and not column_count and words and all(word.isdecimal() for word in words):
            column_count = len(words)
        elif name and column_count and len(words) == column_count + 1 and words[0].isdecimal():
            matrices.setdefault(name, []).append([_parse_matrix_cell(word) for word in words[1:]])
    if not matrices:
        failure = _FAILED_PATTERN.search(text) or _WAIVED_PATTERN.search(text)
        raise NothingMeasured(f"no table was printed{f': {failure[0][:160]}' if failure else ''}")
    return matrices


def build_parser(check: str, read_matrices: MatrixReader, build_facts: MatrixFactBuilder) -> Callable[[str], Sequence[Fact]]:
    """Return a parser of one layout. It reports a CUDA error instead of figures as a fact."""

    def parse(text: str) -> Sequence[Fact]:
        try:
            return build_facts(read_matrices(text))
        except NothingMeasured as error:
            if cuda_error := find_cuda_error(check, str(error)):
                return [cuda_error]
            raise

    return parse


def build_host_facts(matrices: Mapping[str, Matrix]) -> Sequence[Fact]:
    """Return each GPU's bandwidth from and to the host."""
    directions = [(key, matrices[name][0]) for key, name in (("bw.h2d", H2D), ("bw.d2h", D2H)) if matrices.get(name)]
    facts = [
        Fact("bw", key, value, f"gpu{gpu}", unit="GB/s", line=f"{key[3:]} gpu{gpu} {value:g} GB/s")
        for key, bandwidths in directions
        for gpu, value in enumerate(bandwidths)
        if value is not None
    ]
    if not facts:
        raise Unreadable(f"neither {H2D} nor {D2H} was measured")
    if len(directions) < 2:
        facts.append(build_unobserved_fact("bw", Status.UNREADABLE, "one direction only was measured"))
    return facts


def build_peer_facts(matrices: Mapping[str, Matrix]) -> Sequence[Fact]:
    """Return the bandwidth of each GPU's best and worst link to another GPU."""
    matrix = matrices.get(PEER)
    if not matrix:
        raise Unreadable(f"{PEER} was not measured")
    facts = []
    for gpu, bandwidths in enumerate(matrix):
        links = [(value, peer) for peer, value in enumerate(bandwidths) if value is not None and peer != gpu]
        if not links:
            continue
        best, _ = max(links)
        worst, worst_peer = min(links)
        device, peer_device = f"gpu{gpu}", f"gpu{worst_peer}"
        line = f"{device}: {' '.join(f'{value:g}' for value, _ in links)}"[:300]
        best_attrs = {"worst": worst, "worst_peer": peer_device}
        facts.append(Fact("p2p", "p2p.bw", best, device, unit="GB/s", line=line, attrs=best_attrs))
        facts.append(Fact("p2p", "p2p.worst", worst, device, unit="GB/s", line=line, attrs={"peer": peer_device}))
    if not facts:
        raise Unreadable("no GPU can copy from another: one GPU, or peer access is off")
    return facts


CHECKS = (
    Check(
        id="bw",
        asks="How fast do copies between host and each GPU run?",
        commands=(Command("run", ("nvbandwidth", "-t", H2D, D2H, "-j")),),
        formats=(
            Format("nvbandwidth JSON", is_json, build_parser("bw", parse_json_matrices, build_host_facts)),
            Format("nvbandwidth", is_table, build_parser("bw", parse_table_matrices, build_host_facts)),
        ),
        establishes=("bw.h2d", "bw.d2h", "cuda.error"),
        seconds=25.0,
        exclusive=True,
        timeout=120.0,
        cap=256 * 1024,
        tool=INSTALL_HINT,
    ),
    Check(
        id="p2p",
        asks="How fast do copies between the GPUs of this host run?",
        commands=(Command("run", ("nvbandwidth", "-t", PEER, "-j")),),
        formats=(
            Format("nvbandwidth JSON", is_json, build_parser("p2p", parse_json_matrices, build_peer_facts)),
            Format("nvbandwidth", is_table, build_parser("p2p", parse_table_matrices, build_peer_facts)),
        ),
        establishes=("p2p.bw", "p2p.worst", "cuda.error"),
        seconds=30.0,
        exclusive=True,
        timeout=150.0,
        cap=256 * 1024,
        tool=INSTALL_HINT,
    ),
)
