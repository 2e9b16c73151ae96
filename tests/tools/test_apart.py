"""Work in a process of its own: its answer, its trouble, and its end."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.run.reader import ReaderApart
from kb.redact import redact
from tools.apart import LONG, Apart, TookTooLong
from tools.evidence import DirectoryEvidence


async def test_it_answers_from_another_process() -> None:
    assert await Apart().run(os.getpid) != os.getpid()
    assert await Apart().run(redact, "password=hunter2hunter2") == "password=[redacted]"


async def test_what_it_raises_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        await Apart().run(divmod, 1, 0)


async def test_a_process_that_dies_has_read_nothing() -> None:
    with pytest.raises(TookTooLong, match="ended with 3"):
        await Apart().run(os._exit, 3)


async def test_who_waits_no_more_ends_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    waiting = asyncio.create_task(Apart().run(Path.write_text, pipe, "x" * (1 << 20), None, None, None))
    with await asyncio.to_thread(pipe.open, "rb", 0) as end:  # opens once the other side writes: it runs
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        while await asyncio.to_thread(end.read, 1 << 16):
            pass  # ends where nobody writes any more


async def test_a_large_text_is_redacted_apart_and_kept_as_any_other(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path, apart=Apart())
    text = "step 1 loss 2.0\n" * (LONG // 8) + "export DB_PASSWORD=hunter2hunter2\n"
    kept = await store.get(await store.put("i1", text))
    assert kept == redact(text)
    assert "hunter2" not in kept


async def test_a_large_text_that_cannot_be_searched_for_secrets_is_not_kept(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path, apart=Apart(seconds=0.0))
    kept = await store.get(await store.put("i1", "x" * LONG))
    assert kept == "[not kept: it could not be searched for secrets in time]"


async def test_a_large_log_is_read_apart_with_the_sites_own_checks() -> None:
    now = datetime(2026, 5, 20, tzinfo=UTC)
    text = "step 1 loss 2.0\n" * (LONG // 8) + "[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    read = await ReaderApart(Apart(), None)("job.log", "ab", text, now)
    assert read is not None
    assert [fact.value for fact in read.pasted.facts if fact.key == "job.error"] == ["cuda_illegal_access"]
    assert read.digest is not None
    assert read.digest.lines == LONG // 8 + 1


async def test_what_takes_too_long_is_not_read() -> None:
    assert await ReaderApart(Apart(seconds=0.0), None)("job.log", "ab", "x" * LONG, datetime(2026, 5, 20, tzinfo=UTC)) is None
