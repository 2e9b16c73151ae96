"""Raw outputs and fact snapshots by digest. Redacted before they are stored, hashed as stored, compressed, capped per incident."""

import asyncio
import hashlib
import json
import os
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kb.redact import redact
from tools.fact import Fact

MOST_PER_INCIDENT = 256 << 20
"""Compressed bytes that one incident may keep; past it outputs are cut to their digest and a note."""

MOST_TALLIES = 1000
INCIDENTS = "incidents"


class EvidenceStore(Protocol):
    """Content-addressed: the same text has the same digest wherever it came from."""

    async def put(self, incident: str, text: str) -> str:
        """Redact and keep `text`; returns the SHA-256 of what is stored."""
        ...

    async def get(self, sha256: str) -> str | None:
        """The stored text, or None when it was never kept or has expired."""
        ...

    async def put_facts(self, incident: str, facts: Sequence[Fact]) -> str:
        """Keep a snapshot of facts; returns its digest."""
        ...

    async def facts(self, sha256: str) -> list[Fact]:
        """The facts of a snapshot; empty for the empty digest. KeyError when a snapshot is gone."""
        ...


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _touched(file: Path) -> bool:
    """Whether the file is there; from now on it counts as new."""
    try:
        os.utime(file)
    except FileNotFoundError:
        return False
    return True


_ENCODER = json.JSONEncoder(sort_keys=True, default=str)
"""Made once: `json.dumps` would make one for every fact."""


def _dump(facts: Sequence[Fact]) -> bytes:
    return "\n".join(_ENCODER.encode(fact.to_json()) for fact in facts).encode()


def _load(data: bytes) -> list[Fact]:
    return [Fact.from_json(json.loads(line)) for line in data.decode().splitlines() if line]


@dataclass(frozen=True, slots=True)
class Citations:
    """What an incident's file says as far as it was read: a line `DIGEST BYTES` for each thing it stored or found stored."""

    at: int = 0
    used: int = 0
    cites: frozenset[str] = frozenset()

    def read(self, file: Path) -> "Citations":
        """The same after whatever others have added."""
        try:
            with file.open("rb") as lines:
                lines.seek(self.at)
                new = lines.read()
        except FileNotFoundError:
            return Citations()
        whole = new[: new.rfind(b"\n") + 1]
        rows = [line.split() for line in whole.splitlines()]
        cites = self.cites | {sha.decode() for sha, _ in rows}
        return Citations(self.at + len(whole), self.used + sum(int(size) for _, size in rows), cites)


class MemoryEvidence:
    """In memory: tests, the terminal, the bench."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put(self, incident: str, text: str) -> str:
        return self._keep(redact(text).encode())

    async def get(self, sha256: str) -> str | None:
        data = self._kept.get(sha256)
        return None if data is None else zlib.decompress(data).decode()

    async def put_facts(self, incident: str, facts: Sequence[Fact]) -> str:
        return self._keep(_dump(facts))

    async def facts(self, sha256: str) -> list[Fact]:
        return _load(zlib.decompress(self._kept[sha256])) if sha256 else []

    def _keep(self, data: bytes) -> str:
        sha = _digest(data)
        self._kept.setdefault(sha, zlib.compress(data, 1))
        return sha


class DirectoryEvidence:
    """A directory, `ab/cdef….z` a digest; an incident's share is counted in `incidents/ID`. Writes are whole or not at all."""

    def __init__(self, root: Path, most: int = MOST_PER_INCIDENT) -> None:
        self._root, self._most = root, most
        self._tallies: dict[str, Citations] = {}
        (root / INCIDENTS).mkdir(parents=True, exist_ok=True, mode=0o700)

    async def put(self, incident: str, text: str) -> str:
        return await asyncio.to_thread(self._keep_text, incident, text)

    async def get(self, sha256: str) -> str | None:
        data = await asyncio.to_thread(self._read, sha256)
        return None if data is None else data.decode()

    async def put_facts(self, incident: str, facts: Sequence[Fact]) -> str:
        return await asyncio.to_thread(lambda: self._keep(incident, _dump(facts)))

    async def facts(self, sha256: str) -> list[Fact]:
        return await asyncio.to_thread(self._facts, sha256) if sha256 else []

    def _keep_text(self, incident: str, text: str) -> str:
        clean = redact(text).encode()
        if self._used(incident) + len(clean) // 4 > self._most:
            clean = b"[not kept: the incident has used its share of the evidence store] sha256 of the output: " + _digest(clean).encode()
        return self._keep(incident, clean)

    def _keep(self, incident: str, data: bytes) -> str:
        sha = _digest(data)
        file = self._file(sha)
        packed = b"" if _touched(file) else zlib.compress(data, 6)
        if packed:
            file.parent.mkdir(exist_ok=True, mode=0o700)
            draft = file.with_suffix(f".{os.getpid()}-{time.monotonic_ns()}")
            draft.write_bytes(packed)
            draft.replace(file)
        self._note(incident, sha, len(packed))
        return sha

    def _note(self, incident: str, sha: str, size: int) -> None:
        """What another incident stored is cited by this one too, and takes nothing of its share."""
        self._used(incident)
        if size == 0 and sha in self._tallies.get(incident, Citations()).cites:
            return
        with (self._root / INCIDENTS / incident).open("a") as tally:
            tally.write(f"{sha} {size}\n")

    def _used(self, incident: str) -> int:
        """What the tally adds up to; of a tally that has grown only the new lines are read, whoever wrote them."""
        tally = self._tallies.pop(incident, Citations())
        tally = self._tallies[incident] = tally.read(self._root / INCIDENTS / incident)
        while len(self._tallies) > MOST_TALLIES:
            self._tallies.pop(next(iter(self._tallies)), None)
        return tally.used

    def _facts(self, sha256: str) -> list[Fact]:
        data = self._read(sha256)
        if data is None:
            raise KeyError(sha256)
        return _load(data)

    def _read(self, sha256: str) -> bytes | None:
        file = self._file(sha256)
        return zlib.decompress(file.read_bytes()) if file.exists() else None

    def _file(self, sha256: str) -> Path:
        return self._root / sha256[:2] / f"{sha256[2:]}.z"
