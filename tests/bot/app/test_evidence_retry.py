"""Evidence held while its folder is unavailable is stored later, and `doctor` says why it is not stored."""

from pathlib import Path

from bot.app.retention import EvidenceRetrier
from bot.cli.doctor.command import find_evidence_problem
from tools.evidence import DirectoryEvidence


async def test_what_was_held_is_kept_once_the_folder_is_back(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("in the way")
    store = DirectoryEvidence(tmp_path / "evidence")
    sha = await store.put_text("inc-1", "an output")
    keeping = EvidenceRetrier(store)
    await keeping.retry_once()
    assert store.get_trouble()
    (tmp_path / "evidence").unlink()
    await keeping.retry_once()
    assert store.get_trouble() == ""
    assert await DirectoryEvidence(tmp_path / "evidence").get_text(sha) == "an output"


def test_the_doctor_says_why_nothing_is_kept(tmp_path: Path) -> None:
    assert find_evidence_problem(tmp_path / "not" / "yet") == ""
    (tmp_path / "file").write_text("")
    assert "is no folder" in find_evidence_problem(tmp_path / "file" / "evidence")
