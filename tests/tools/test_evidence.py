"""Evidence is redacted before storing and read by its digest."""

import errno
import hashlib
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tools.evidence import DirectoryEvidence, EvidenceBuffer, EvidenceStore, MemoryEvidence
from tools.fact import Fact, Status


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> EvidenceStore:
    return MemoryEvidence() if request.param == "memory" else DirectoryEvidence(tmp_path)


async def test_what_is_kept_is_what_was_hashed(store: EvidenceStore) -> None:
    sha = await store.put_text("inc-1", "NVRM: Xid (PCI:0000:9b:00): 79\n")
    kept = await store.get_text(sha)
    assert kept is not None
    assert hashlib.sha256(kept.encode()).hexdigest() == sha


async def test_a_token_never_reaches_the_store(store: EvidenceStore) -> None:
    kept = await store.get_text(await store.put_text("inc-1", "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789"))
    assert kept is not None
    assert "hf_abcdef" not in kept


async def test_facts_come_back_as_they_were(store: EvidenceStore) -> None:
    facts = [
        Fact("dmesg", "kernel.xid", 79, "gpu5", attrs={"pid": 7}, host="n1", time=datetime(2026, 5, 20, tzinfo=UTC), stale=True),
        Fact("smi", "gpu.temp.memory", None, "gpu0", Status.ABSENT),
        Fact("smi", "gpu.lost", False, "gpu0"),
    ]
    assert await store.get_facts(await store.put_facts("inc-1", facts)) == facts


async def test_unknown_digests_are_none(store: EvidenceStore) -> None:
    assert await store.get_text("0" * 64) is None


async def test_an_incident_past_its_share_keeps_the_digest_only(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path, max_incident_bytes=200)
    first = await store.put_text("inc-1", "x" * 100)
    second = await store.put_text("inc-1", "".join(chr(33 + i % 90) for i in range(5000)))
    assert await store.get_text(first) == "x" * 100
    assert "has used its share" in (await store.get_text(second) or "")


async def test_two_processes_share_one_incidents_allowance(tmp_path: Path) -> None:
    here, there = DirectoryEvidence(tmp_path, max_incident_bytes=400), DirectoryEvidence(tmp_path, max_incident_bytes=400)
    for n in range(8):
        await (here, there)[n % 2].put_text("inc-1", "".join(chr(33 + (i * (n + 3)) % 90) for i in range(90)))
    last = await here.put_text("inc-1", "".join(chr(33 + i % 90) for i in range(500)))
    assert "has used its share" in (await here.get_text(last) or "")
    assert "has used its share" not in (await here.get_text(await here.put_text("inc-2", "x" * 100)) or "")


class Disk:
    """A disk that may be full."""

    def __init__(self) -> None:
        self.full = False

    def write(self, file: Path, data: bytes) -> int:
        if self.full:
            file.write_bytes(data[:3])  # the bytes that fit
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return file.write_bytes(data)


async def test_a_full_disk_keeps_nothing_back_and_is_made_good_once_there_is_room(tmp_path: Path) -> None:
    disk = Disk()
    store = DirectoryEvidence(tmp_path / "e", write=disk.write)
    disk.full = True
    text, facts = await store.put_text("inc-1", "an output"), await store.put_facts("inc-1", [Fact("smi", "gpu.lost", True, "gpu0")])
    assert store.get_trouble() == "no space left on device"
    assert await store.get_text(text) == "an output"
    assert [fact.key for fact in await store.get_facts(facts)] == ["gpu.lost"]
    assert [file for file in (tmp_path / "e").rglob("*") if file.is_file()] == []
    assert await store.retry_buffered() == 2
    disk.full = False
    assert await store.retry_buffered() == 0
    assert store.get_trouble() == ""
    another = DirectoryEvidence(tmp_path / "e")
    assert await another.get_text(text) == "an output"
    assert len(await another.get_facts(facts)) == 1


async def test_what_is_put_after_the_trouble_takes_along_what_was_held(tmp_path: Path) -> None:
    disk = Disk()
    store = DirectoryEvidence(tmp_path, write=disk.write)
    disk.full = True
    early = await store.put_text("inc-1", "early")
    disk.full = False
    await store.put_text("inc-1", "late")
    assert store.get_trouble() == ""
    assert await DirectoryEvidence(tmp_path).get_text(early) == "early"


async def test_folders_that_are_removed_while_it_runs_are_made_anew(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path / "data" / "evidence")
    gone = await store.put_text("inc-1", "before")
    shutil.rmtree(tmp_path / "data")
    there = await store.put_text("inc-1", "after")
    assert store.get_trouble() == ""
    assert (await store.get_text(gone), await store.get_text(there)) == (None, "after")
    with pytest.raises(KeyError):
        await store.get_facts(gone)


async def test_a_file_in_the_place_of_the_folder_is_trouble_and_no_more(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path / "evidence")
    shutil.rmtree(tmp_path / "evidence")
    (tmp_path / "evidence").write_text("")
    sha = await store.put_text("inc-1", "an output")
    assert store.get_trouble()
    assert await store.get_text(sha) == "an output"
    (tmp_path / "evidence").unlink()
    assert await store.retry_buffered() == 0


async def test_what_is_held_is_bounded(tmp_path: Path) -> None:
    held = EvidenceBuffer(max_bytes=100)
    for n in range(50):
        held.add("inc-1", str(n), bytes(30))
    assert (list(held.outputs), held.used) == (["47", "48", "49"], 90)


async def test_a_tally_that_was_cut_off_by_a_full_disk_is_read_past(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path)
    await store.put_text("inc-1", "one")
    with (tmp_path / "incidents" / "inc-1").open("a") as tally:
        tally.write("\n0123abc 1\n9999\n")
    await store.put_text("inc-1", "two")
    assert await DirectoryEvidence(tmp_path).put_text("inc-1", "three")


async def test_a_file_that_cannot_be_unpacked_is_gone(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path)
    sha = await store.put_text("inc-1", "one")
    (tmp_path / sha[:2] / f"{sha[2:]}.z").write_bytes(b"half")
    assert await store.get_text(sha) is None
