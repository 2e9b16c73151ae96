"""Evidence is redacted before it is kept and found again by its digest."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tools.evidence import DirectoryEvidence, EvidenceStore, MemoryEvidence
from tools.fact import Fact, Status


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> EvidenceStore:
    return MemoryEvidence() if request.param == "memory" else DirectoryEvidence(tmp_path)


async def test_what_is_kept_is_what_was_hashed(store: EvidenceStore) -> None:
    sha = await store.put("inc-1", "NVRM: Xid (PCI:0000:9b:00): 79\n")
    kept = await store.get(sha)
    assert kept is not None
    assert hashlib.sha256(kept.encode()).hexdigest() == sha


async def test_a_token_never_reaches_the_store(store: EvidenceStore) -> None:
    kept = await store.get(await store.put("inc-1", "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789"))
    assert kept is not None
    assert "hf_abcdef" not in kept


async def test_facts_come_back_as_they_were(store: EvidenceStore) -> None:
    facts = [
        Fact("dmesg", "kernel.xid", 79, "gpu5", attrs={"pid": 7}, host="n1", time=datetime(2026, 5, 20, tzinfo=UTC), stale=True),
        Fact("smi", "gpu.temp.memory", None, "gpu0", Status.ABSENT),
        Fact("smi", "gpu.lost", False, "gpu0"),
    ]
    assert await store.facts(await store.put_facts("inc-1", facts)) == facts


async def test_unknown_digests_are_none(store: EvidenceStore) -> None:
    assert await store.get("0" * 64) is None


async def test_an_incident_past_its_share_keeps_the_digest_only(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path, most=200)
    first = await store.put("inc-1", "x" * 100)
    second = await store.put("inc-1", "".join(chr(33 + i % 90) for i in range(5000)))
    assert await store.get(first) == "x" * 100
    assert "has used its share" in (await store.get(second) or "")


async def test_two_processes_share_one_incidents_allowance(tmp_path: Path) -> None:
    here, there = DirectoryEvidence(tmp_path, most=400), DirectoryEvidence(tmp_path, most=400)
    for n in range(8):
        await (here, there)[n % 2].put("inc-1", "".join(chr(33 + (i * (n + 3)) % 90) for i in range(90)))
    last = await here.put("inc-1", "".join(chr(33 + i % 90) for i in range(500)))
    assert "has used its share" in (await here.get(last) or "")
    assert "has used its share" not in (await here.get(await here.put("inc-2", "x" * 100)) or "")
