"""Evidence store: outputs and fact snapshots by digest, redacted, capped per incident, and kept up to an age and a size."""

import asyncio
import contextlib
import hashlib
import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kb.redact import RedactedText, redact_once
from tools.fact import Fact
from tools.process_pool import MIN_SEPARATE_PROCESS_CHARS, ProcessPool, WorkTimeout

# Evidence store: outputs and fact snapshots by digest; redacted, then hashed and compressed, capped per incident.
#
# A full or missing disk does not block a diagnosis: outputs wait in memory until the disk accepts them.

MAX_BYTES_PER_INCIDENT = 256 << 20  # compressed; above it an output is replaced by its digest and a note
MAX_BUFFERED_BYTES = 64 << 20  # compressed bytes waiting in memory for the disk; above it the oldest are dropped
MAX_TALLIES = 1000
INCIDENTS_FOLDER = "incidents"


class EvidenceStore(Protocol):
    """Content-addressed store."""

    async def put_text(self, incident: str, text: str) -> str:
        """Redact and store `text`; return the stored text's SHA-256."""
        ...

    async def get_text(self, sha256: str) -> str | None:
        """Return the stored text, None if never stored or expired."""
        ...

    async def put_facts(self, incident: str, facts: Sequence[Fact]) -> str:
        """Store a snapshot; return its digest."""
        ...

    async def get_facts(self, sha256: str) -> list[Fact]:
        """Return a snapshot, empty for the empty digest. Raise KeyError if it is gone."""
        ...

    def get_trouble(self) -> str:
        """Return in a few words why evidence is not being written; empty if it is."""
        ...


def _compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _touch_if_exists(file: Path) -> bool:
    """Return whether the file exists; renew its age for retention."""
    try:
        os.utime(file)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


# made once: `json.dumps` with options makes one for every fact
_ENCODER = json.JSONEncoder(sort_keys=True, default=str)


def _encode_facts(facts: Sequence[Fact]) -> bytes:
    return "\n".join(_ENCODER.encode(fact.to_json()) for fact in facts).encode()


def _compress(data: bytes) -> bytes:
    """Level 1 for large texts: a third of the time, a tenth more space; a user waits."""
    return zlib.compress(data, 1 if len(data) >= MIN_SEPARATE_PROCESS_CHARS else 6)


def _decode_facts(data: bytes) -> list[Fact]:
    return [Fact.from_json(json.loads(line)) for line in data.decode().splitlines() if line]


@dataclass(frozen=True, slots=True)
class Citations:
    """An incident's file as far as read: one line `DIGEST BYTES` per output stored or cited."""

    at: int = 0
    used: int = 0
    cites: frozenset[str] = frozenset()

    def read_more(self, file: Path) -> "Citations":
        """Return these citations plus lines added since."""
        try:
            with file.open("rb") as lines:
                lines.seek(self.at)
                new = lines.read()
        except (FileNotFoundError, NotADirectoryError):
            return Citations()
        complete_lines = new[: new.rfind(b"\n") + 1]
        rows = [
            row for row in map(bytes.split, complete_lines.splitlines()) if len(row) == 2 and row[1].isdigit()
        ]  # a full disk truncates lines
        cites = self.cites | {sha.decode() for sha, _ in rows}
        return Citations(self.at + len(complete_lines), self.used + sum(int(size) for _, size in rows), cites)


class MemoryEvidence:
    """In memory, for tests, the terminal and the bench."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put_text(self, incident: str, text: str) -> str:
        return self._store(redact_once(text).encode())

    async def get_text(self, sha256: str) -> str | None:
        data = self._kept.get(sha256)
        return None if data is None else zlib.decompress(data).decode()

    async def put_facts(self, incident: str, facts: Sequence[Fact]) -> str:
        return self._store(_encode_facts(facts))

    async def get_facts(self, sha256: str) -> list[Fact]:
        return _decode_facts(zlib.decompress(self._kept[sha256])) if sha256 else []

    def get_trouble(self) -> str:
        return ""

    def _store(self, data: bytes) -> str:
        sha = _compute_digest(data)
        self._kept.setdefault(sha, zlib.compress(data, 1))
        return sha


@dataclass(slots=True)
class EvidenceBuffer:
    """Evidence waiting for the disk, oldest first. Use under one lock."""

    most: int = MAX_BUFFERED_BYTES
    rows: dict[str, tuple[str, bytes]] = field(default_factory=dict)  # digest → incident and compressed bytes
    used: int = 0

    def add(self, incident: str, sha: str, packed: bytes) -> None:
        self.drop(sha)
        self.rows[sha] = (incident, packed)
        self.used += len(packed)
        while self.used > self.most and len(self.rows) > 1:
            self.drop(next(iter(self.rows)))

    def drop(self, sha: str) -> None:
        _, packed = self.rows.pop(sha, ("", b""))
        self.used -= len(packed)


class DirectoryEvidence:
    """Files `ab/cdef….z` by digest; an incident's share is in `incidents/ID`. Writes are atomic.

    Removed folders are created again. What the disk refuses is buffered, readable, and written on the next successful
    `put` or `retry_buffered`.
    """

    def __init__(
        self,
        root: Path,
        most: int = MAX_BYTES_PER_INCIDENT,
        *,
        write: Callable[[Path, bytes], object] = Path.write_bytes,
        apart: ProcessPool | None = None,
    ) -> None:
        self._root, self._most, self._write, self._apart = root, most, write, apart
        self._tallies: dict[str, Citations] = {}
        self._held, self._lock, self._trouble = EvidenceBuffer(), threading.Lock(), ""
        with contextlib.suppress(OSError):  # the first put reports it
            (root / INCIDENTS_FOLDER).mkdir(parents=True, exist_ok=True, mode=0o700)

    def get_trouble(self) -> str:
        return self._trouble

    async def retry_buffered(self) -> int:
        """Write buffered outputs; return how many remain."""
        return await asyncio.to_thread(self._flush_buffer)

    async def put_text(self, incident: str, text: str) -> str:
        return await asyncio.to_thread(self._store_text, incident, await self._redact_text(text))

    async def get_text(self, sha256: str) -> str | None:
        data = await asyncio.to_thread(self._read_bytes, sha256)
        return None if data is None else data.decode()

    async def put_facts(self, incident: str, facts: Sequence[Fact]) -> str:
        return await asyncio.to_thread(lambda: self._store_or_buffer(incident, _encode_facts(facts)))

    async def get_facts(self, sha256: str) -> list[Fact]:
        return await asyncio.to_thread(self._read_facts, sha256) if sha256 else []

    async def _redact_text(self, text: str) -> bytes:
        """Redact large texts in their own process; a text not redacted in time is not stored."""
        if isinstance(text, RedactedText):
            return text.encode()
        if self._apart is None or len(text) < MIN_SEPARATE_PROCESS_CHARS:
            return (await asyncio.to_thread(redact_once, text)).encode()
        try:
            return (await self._apart.run(redact_once, text)).encode()
        except WorkTimeout:
            return b"[not kept: it could not be searched for secrets in time]"

    def _store_text(self, incident: str, clean: bytes) -> str:
        if self._get_used_bytes(incident) + len(clean) // 4 > self._most:
            clean = (
                b"[not kept: the incident has used its share of the evidence store] sha256 of the output: "
                + _compute_digest(clean).encode()
            )
        return self._store_or_buffer(incident, clean)

    def _store_or_buffer(self, incident: str, data: bytes) -> str:
        sha = _compute_digest(data)
        try:
            self._record_citation(incident, sha, self._write_file(sha, lambda: _compress(data)))
        except OSError as error:
            with self._lock:
                self._held.add(incident, sha, zlib.compress(data, 1))
                self._trouble = os.strerror(error.errno).lower() if error.errno else "it cannot be written"
        else:
            if self._trouble:
                self._flush_buffer()
        return sha

    def _write_file(self, sha: str, pack: Callable[[], bytes]) -> int:
        """Return the bytes written, 0 if the file exists. A failed write leaves no partial file and raises OSError."""
        file = self._get_file_path(sha)
        if _touch_if_exists(file):
            return 0
        packed = pack()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = file.with_suffix(f".{os.getpid()}-{time.monotonic_ns()}")
        try:
            self._write(draft, packed)
            draft.replace(file)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        return len(packed)

    def _flush_buffer(self) -> int:
        """Write oldest first until the disk fails; return how many remain."""
        with self._lock:
            for sha, (incident, packed) in list(self._held.rows.items()):
                try:
                    self._record_citation(incident, sha, self._write_file(sha, lambda packed=packed: packed))  # type: ignore[misc]  # a default binds the loop's value
                except OSError:
                    return len(self._held.rows)
                self._held.drop(sha)
            self._trouble = ""
            return 0

    def _record_citation(self, incident: str, sha: str, size: int) -> None:
        """Another incident's output is cited with 0 bytes and does not count against the share."""
        self._read_used_bytes(incident)
        if size == 0 and sha in self._tallies.get(incident, Citations()).cites:
            return
        tally = self._root / INCIDENTS_FOLDER / incident
        tally.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tally.open("a") as lines:
            lines.write("\n" * bool(self._trouble) + f"{sha} {size}\n")  # starts a new line after one that the full disk truncated

    def _get_used_bytes(self, incident: str) -> int:
        try:
            return self._read_used_bytes(incident)
        except OSError:
            return 0

    def _read_used_bytes(self, incident: str) -> int:
        """Read only lines added since the last call, also by other processes."""
        tally = self._tallies.pop(incident, Citations())
        tally = self._tallies[incident] = tally.read_more(self._root / INCIDENTS_FOLDER / incident)
        while len(self._tallies) > MAX_TALLIES:
            self._tallies.pop(next(iter(self._tallies)), None)
        return tally.used

    def _read_facts(self, sha256: str) -> list[Fact]:
        data = self._read_bytes(sha256)
        if data is None:
            raise KeyError(sha256)
        return _decode_facts(data)

    def _read_bytes(self, sha256: str) -> bytes | None:
        with self._lock:
            _, content = self._held.rows.get(sha256, ("", b""))
        try:
            return zlib.decompress(content or self._get_file_path(sha256).read_bytes())
        except (OSError, zlib.error):
            return None

    def _get_file_path(self, sha256: str) -> Path:
        return self._root / sha256[:2] / f"{sha256[2:]}.z"


# Evidence retention: a maximum age and size, oldest first; what an open incident cites stays.
#
# Safe beside writers and other pruning processes: an output touched during its removal stays.

DAY_SECONDS = 86_400.0
REMOVAL_SUFFIX = ".going"
# Younger outputs stay: they may belong to an incident opened after the list of open incidents was read.
MIN_AGE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class StoredEvidence:
    """What the directory holds. `oldest` is in seconds since 1970."""

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


def prune_evidence(root: Path, days: float, most_bytes: int, open_incidents: Collection[str], now: float | None = None) -> PruneResult:
    """Remove uncited outputs older than `days`, then the oldest until `most_bytes` remain. Recent ones stay."""
    now = now or time.time()
    horizon = now - days * DAY_SECONDS
    cited_outputs = frozenset().union(*(Citations().read_more(root / INCIDENTS_FOLDER / incident).cites for incident in open_incidents))
    outputs = sorted(iter_outputs(root), key=lambda one: one.at)
    old_outputs = [one for one in outputs if one.at < now - MIN_AGE_SECONDS]
    over = sum(one.bytes for one in outputs) - most_bytes
    removed = [one for one in _select_removable(old_outputs, horizon, over, cited_outputs) if remove_output(one)]
    _remove_leftovers(root, horizon, open_incidents)
    names = {one.file for one in removed}
    remaining = [one for one in outputs if one.file not in names]
    return PruneResult(
        len(removed),
        sum(one.bytes for one in removed),
        _sum_outputs(remaining),
        sum(one.bytes for one in remaining if one.sha in cited_outputs),
    )


def iter_outputs(root: Path) -> Iterator[StoredOutput]:
    for file in root.glob("??/*.z"):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue  # another process prunes as well
        yield StoredOutput(file, file.parent.name + file.stem, status.st_size, status.st_mtime)


def _select_removable(settled: list[StoredOutput], horizon: float, over: int, cited: frozenset[str]) -> Iterator[StoredOutput]:
    for output in settled:
        if output.sha not in cited and (output.at < horizon or over > 0):
            over -= output.bytes
            yield output


def remove_output(one: StoredOutput) -> bool:
    """Return whether it was removed. It is renamed first, and restored if a writer stored it again meanwhile."""
    aside = one.file.with_suffix(REMOVAL_SUFFIX)
    try:
        one.file.rename(aside)
        if aside.stat().st_mtime != one.at:
            aside.rename(one.file)
            return False
        aside.unlink()
    except FileNotFoundError:
        return False
    return True


def _remove_leftovers(root: Path, horizon: float, open_incidents: Collection[str]) -> None:
    """Remove tallies of old closed incidents and drafts of dead writers."""
    stale = [file for file in (root / INCIDENTS_FOLDER).glob("*") if file.name not in open_incidents]
    drafts = [file for file in root.glob("??/*") if file.suffix != ".z"]
    for file, before in [*((file, horizon) for file in stale), *((file, time.time() - DAY_SECONDS) for file in drafts)]:
        try:
            if file.stat().st_mtime < before:
                file.unlink()
        except FileNotFoundError:
            continue


def _sum_outputs(found: Iterator[StoredOutput] | list[StoredOutput]) -> StoredEvidence:
    rows = list(found)
    return StoredEvidence(len(rows), sum(one.bytes for one in rows), min((one.at for one in rows), default=None))
