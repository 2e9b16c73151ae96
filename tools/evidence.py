"""Evidence store: outputs and fact snapshots by digest; redacted, then hashed and compressed, capped per incident.

A full or missing disk does not block a diagnosis: outputs wait in memory until the disk accepts them.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kb.redact import RedactedText, redact_once
from tools.fact import Fact
from tools.process_pool import MIN_SEPARATE_PROCESS_CHARS, ProcessPool, WorkTimeout

MAX_BYTES_PER_INCIDENT = 256 << 20  # compressed; above it an output is replaced by its digest and a note
MAX_BUFFERED_BYTES = 64 << 20  # compressed bytes waiting in memory for the disk; above it the oldest are dropped
MAX_TALLIES = 1000
INCIDENTS_FOLDER = "incidents"


class EvidenceStore(Protocol):
    """A store of outputs and facts, addressed by the SHA-256 of their content."""

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
    """Compress; large texts at level 1, which takes a third of the time and a tenth more space, because a user waits."""
    return zlib.compress(data, 1 if len(data) >= MIN_SEPARATE_PROCESS_CHARS else 6)


def _decode_facts(data: bytes) -> list[Fact]:
    return [Fact.from_json(json.loads(line)) for line in data.decode().splitlines() if line]


@dataclass(frozen=True, slots=True)
class Citations:
    """What was read so far of an incident's file, which has one line `DIGEST BYTES` per output stored or cited."""

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
        columns_of_lines = [line.split() for line in complete_lines.splitlines()]
        # a full disk truncates lines
        citations = [columns for columns in columns_of_lines if len(columns) == 2 and columns[1].isdigit()]
        cites = self.cites | {sha.decode() for sha, _ in citations}
        return Citations(self.at + len(complete_lines), self.used + sum(int(size) for _, size in citations), cites)


class MemoryEvidence:
    """Evidence in memory, for tests, the terminal and the benchmark."""

    def __init__(self) -> None:
        self._packed_by_digest: dict[str, bytes] = {}

    async def put_text(self, incident: str, text: str) -> str:
        return self._store(redact_once(text).encode())

    async def get_text(self, sha256: str) -> str | None:
        data = self._packed_by_digest.get(sha256)
        return None if data is None else zlib.decompress(data).decode()

    async def put_facts(self, incident: str, facts: Sequence[Fact]) -> str:
        return self._store(_encode_facts(facts))

    async def get_facts(self, sha256: str) -> list[Fact]:
        return _decode_facts(zlib.decompress(self._packed_by_digest[sha256])) if sha256 else []

    def get_trouble(self) -> str:
        return ""

    def _store(self, data: bytes) -> str:
        sha = _compute_digest(data)
        self._packed_by_digest.setdefault(sha, zlib.compress(data, 1))
        return sha


@dataclass(slots=True)
class EvidenceBuffer:
    """Evidence waiting for the disk, oldest first. Use under one lock."""

    max_bytes: int = MAX_BUFFERED_BYTES
    outputs: dict[str, tuple[str, bytes]] = field(default_factory=dict)  # digest → incident and compressed bytes
    used: int = 0

    def add(self, incident: str, sha: str, packed: bytes) -> None:
        self.drop(sha)
        self.outputs[sha] = (incident, packed)
        self.used += len(packed)
        while self.used > self.max_bytes and len(self.outputs) > 1:
            self.drop(next(iter(self.outputs)))

    def drop(self, sha: str) -> None:
        _, packed = self.outputs.pop(sha, ("", b""))
        self.used -= len(packed)


class DirectoryEvidence:
    """Files `ab/cdef….z` by digest; an incident's share is in `incidents/ID`. Writes are atomic.

    Removed folders are created again. What the disk refuses is buffered, readable, and written on the next successful
    `put` or `retry_buffered`.
    """

    def __init__(
        self,
        root: Path,
        max_incident_bytes: int = MAX_BYTES_PER_INCIDENT,
        *,
        write: Callable[[Path, bytes], object] = Path.write_bytes,
        apart: ProcessPool | None = None,
    ) -> None:
        self._root = root
        self._max_incident_bytes = max_incident_bytes
        self._write = write
        self._process_pool = apart
        self._tallies: dict[str, Citations] = {}
        self._buffer = EvidenceBuffer()
        self._lock = threading.Lock()
        self._trouble = ""
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
        if self._process_pool is None or len(text) < MIN_SEPARATE_PROCESS_CHARS:
            return (await asyncio.to_thread(redact_once, text)).encode()
        try:
            return (await self._process_pool.run(redact_once, text)).encode()
        except WorkTimeout:
            return b"[not kept: it could not be searched for secrets in time]"

    def _store_text(self, incident: str, clean: bytes) -> str:
        if self._get_used_bytes(incident) + len(clean) // 4 > self._max_incident_bytes:
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
                self._buffer.add(incident, sha, zlib.compress(data, 1))
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
            for sha, (incident, packed) in list(self._buffer.outputs.items()):
                try:
                    self._record_citation(incident, sha, self._write_file(sha, lambda packed=packed: packed))  # type: ignore[misc]  # a default binds the loop's value
                except OSError:
                    return len(self._buffer.outputs)
                self._buffer.drop(sha)
            self._trouble = ""
            return 0

    def _record_citation(self, incident: str, sha: str, size: int) -> None:
        """Add an output to the incident's file. One that another incident stored counts 0 bytes against this one's share."""
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
        """Return the incident's bytes. Reads only lines added since the last call, also by other processes."""
        tally = self._tallies.pop(incident, Citations())
        tally = tally.read_more(self._root / INCIDENTS_FOLDER / incident)
        self._tallies[incident] = tally  # at the end, because the first are dropped
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
            _, content = self._buffer.outputs.get(sha256, ("", b""))
        try:
            return zlib.decompress(content or self._get_file_path(sha256).read_bytes())
        except (OSError, zlib.error):
            return None

    def _get_file_path(self, sha256: str) -> Path:
        return self._root / sha256[:2] / f"{sha256[2:]}.z"
