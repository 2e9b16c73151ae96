"""Evidence that waits for its disk: taken up again by itself, and the doctor says what keeps it from being kept."""

from pathlib import Path

from bot.run.keeping import Keeping
from bot.terminal.doctor import not_keeping
from tools.evidence import DirectoryEvidence


async def test_what_was_held_is_kept_once_the_folder_is_back(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("in the way")
    store = DirectoryEvidence(tmp_path / "evidence")
    sha = await store.put("inc-1", "an output")
    keeping = Keeping(store)
    await keeping.look()
    assert store.trouble()
    (tmp_path / "evidence").unlink()
    await keeping.look()
    assert store.trouble() == ""
    assert await DirectoryEvidence(tmp_path / "evidence").get(sha) == "an output"


def test_the_doctor_says_why_nothing_is_kept(tmp_path: Path) -> None:
    assert not_keeping(tmp_path / "not" / "yet") == ""
    (tmp_path / "file").write_text("")
    assert "is no folder" in not_keeping(tmp_path / "file" / "evidence")
