"""Evidence retention: a maximum age and size, oldest first; what an open incident cites stays.

Safe beside writers and other pruning processes: an output touched during its removal stays.
"""

import contextlib
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.evidence import INCIDENTS_FOLDER, Citations

DAY_SECONDS = 86_400.0
REMOVAL_SUFFIX = ".going"
# Younger outputs stay: they may belong to an incident opened after the list of open incidents was read.
MIN_AGE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class StoredEvidence:
    """How much evidence is stored. `oldest` is in seconds since 1970."""

    outputs: int = 0
    bytes: int = 0
    oldest: float | None = None


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What was removed, what remains, and the cited bytes among the rest."""

    outputs: int
    bytes: int
    left: StoredEvidence
    cited: int


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """One stored output; `at` is its modification time in seconds since 1970."""

    file: Path
    sha: str
    bytes: int
    at: float


def measure_evidence(root: Path) -> StoredEvidence:
    """Return how much evidence is stored; nothing without a directory."""
    return _sum_outputs(iter_outputs(root))


def prune_evidence(root: Path, days: float, max_bytes: int, open_incidents: Collection[str], now: float | None = None) -> PruneResult:
    """Remove uncited outputs older than `days`, then the oldest until `max_bytes` remain. Recent ones stay."""
    now = now or time.time()
    horizon = now - days * DAY_SECONDS
    cited_outputs = frozenset().union(*(Citations().read_more(root / INCIDENTS_FOLDER / incident).cites for incident in open_incidents))
    outputs = sorted(iter_outputs(root), key=lambda output: output.at)
    old_outputs = [output for output in outputs if output.at < now - MIN_AGE_SECONDS]
    excess_bytes = sum(output.bytes for output in outputs) - max_bytes
    removed = [output for output in _select_removable(old_outputs, horizon, excess_bytes, cited_outputs) if remove_output(output)]
    _remove_leftovers(root, horizon, open_incidents)
    removed_files = {output.file for output in removed}
    remaining = [output for output in outputs if output.file not in removed_files]
    return PruneResult(
        len(removed),
        sum(output.bytes for output in removed),
        _sum_outputs(remaining),
        sum(output.bytes for output in remaining if output.sha in cited_outputs),
    )


def iter_outputs(root: Path) -> Iterator[StoredOutput]:
    for file in root.glob("??/*.z"):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue  # another process prunes as well
        yield StoredOutput(file, file.parent.name + file.stem, status.st_size, status.st_mtime)


def _select_removable(outputs: list[StoredOutput], horizon: float, excess_bytes: int, cited: frozenset[str]) -> Iterator[StoredOutput]:
    """Yield uncited outputs that are too old, or that exceed the size limit, oldest first."""
    for output in outputs:
        if output.sha not in cited and (output.at < horizon or excess_bytes > 0):
            excess_bytes -= output.bytes
            yield output


def remove_output(output: StoredOutput) -> bool:
    """Return whether it was removed. It is renamed first, and restored if a writer stored it again meanwhile."""
    renamed_file = output.file.with_suffix(REMOVAL_SUFFIX)
    try:
        output.file.rename(renamed_file)
        if renamed_file.stat().st_mtime != output.at:
            renamed_file.rename(output.file)
            return False
        renamed_file.unlink()
    except FileNotFoundError:
        return False
    return True


def _remove_leftovers(root: Path, horizon: float, open_incidents: Collection[str]) -> None:
    """Remove tallies of old closed incidents and drafts of dead writers."""
    for file in list((root / INCIDENTS_FOLDER).glob("*")):
        if file.name not in open_incidents:
            _remove_if_older(file, horizon)
    for file in list(root.glob("??/*")):
        if file.suffix != ".z":
            _remove_if_older(file, time.time() - DAY_SECONDS)


def _remove_if_older(file: Path, horizon: float) -> None:
    with contextlib.suppress(FileNotFoundError):  # another process prunes as well
        if file.stat().st_mtime < horizon:
            file.unlink()


def _sum_outputs(outputs: Iterator[StoredOutput] | list[StoredOutput]) -> StoredEvidence:
    stored = list(outputs)
    return StoredEvidence(len(stored), sum(output.bytes for output in stored), min((output.at for output in stored), default=None))
