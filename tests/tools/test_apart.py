"""Work in a separate process: result, errors, cancellation."""

import asyncio
import os
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.app.diagnosis_runtime import IsolatedTextReader
from kb.redact import redact
from tests.tools.test_site_rules import LOST
from tools.evidence import DirectoryEvidence
from tools.process_pool import MIN_SEPARATE_PROCESS_CHARS, ProcessPool, WorkTimeout, run_in_parallel

pytestmark = pytest.mark.slow


async def test_it_answers_from_another_process() -> None:
    assert await ProcessPool().run(os.getpid) != os.getpid()
    assert await ProcessPool().run(redact, "password=hunter2hunter2") == "password=[redacted]"


async def test_what_it_raises_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        await ProcessPool().run(divmod, 1, 0)


async def test_a_process_that_dies_has_read_nothing() -> None:
    with pytest.raises(WorkTimeout, match="ended with 3"):
        await ProcessPool().run(os._exit, 3)


async def test_who_waits_no_more_ends_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    waiting = asyncio.create_task(ProcessPool().run(Path.write_text, pipe, "x" * (1 << 20), None, None, None))
    with await asyncio.to_thread(pipe.open, "rb", 0) as end:  # opens once the process writes
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        while await asyncio.to_thread(end.read, 1 << 16):
            pass  # ends when the writer is gone


async def test_a_large_text_is_redacted_apart_and_kept_as_any_other(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path, apart=ProcessPool())
    text = "step 1 loss 2.0\n" * (MIN_SEPARATE_PROCESS_CHARS // 8) + "export DB_PASSWORD=hunter2hunter2\n"
    kept = await store.get_text(await store.put_text("i1", text))
    assert kept == redact(text)
    assert "hunter2" not in kept


async def test_a_large_text_that_cannot_be_searched_for_secrets_is_not_kept(tmp_path: Path) -> None:
    store = DirectoryEvidence(tmp_path, apart=ProcessPool(seconds=0.0))
    kept = await store.get_text(await store.put_text("i1", "x" * MIN_SEPARATE_PROCESS_CHARS))
    assert kept == "[not kept: it could not be searched for secrets in time]"


async def test_a_large_log_is_read_apart_with_the_sites_own_checks() -> None:
    now = datetime(2026, 5, 20, tzinfo=UTC)
    text = (
        "step 1 loss 2.0\n" * (MIN_SEPARATE_PROCESS_CHARS // 8)
        + "[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    read = await IsolatedTextReader(ProcessPool(), None)("job.log", "ab", text, now)
    assert read is not None
    assert [fact.value for fact in read.pasted.facts if fact.key == "job.error"] == ["cuda_illegal_access"]
    assert read.digest is not None
    assert read.digest.lines == MIN_SEPARATE_PROCESS_CHARS // 8 + 1


async def test_the_sites_own_rules_are_known_there_too(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "ours.yaml").write_text(LOST)
    text = "step 1 loss 2.0\n" * (MIN_SEPARATE_PROCESS_CHARS // 8) + "[rank3]: fabd: lease 4711 lost on n5\n"
    read = await IsolatedTextReader(ProcessPool(), tmp_path)("job.log", "ab", text, datetime(2026, 5, 20, tzinfo=UTC))
    assert read is not None
    assert [(fact.value, fact.host) for fact in read.pasted.facts if fact.key == "site.log.fabric_lease_lost"] == [("4711", "")]


async def test_what_takes_too_long_is_not_read() -> None:
    assert (
        await IsolatedTextReader(ProcessPool(seconds=0.0), None)(
            "job.log", "ab", "x" * MIN_SEPARATE_PROCESS_CHARS, datetime(2026, 5, 20, tzinfo=UTC)
        )
        is None
    )


def two_answers() -> tuple[tuple[int, int], tuple[int, int]]:
    return run_in_parallel(lambda: (os.getpid(), os.getppid()), lambda: (os.getpid(), 2))


def fails_beside(*, own: bool) -> object:
    return run_in_parallel(lambda: 1 // int(own), lambda: 1 // int(not own))


def dies_beside() -> object:
    return run_in_parallel(lambda: os._exit(3), lambda: 1)


def counted_beside() -> tuple[int, int]:
    """Return two results while a second thread runs."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        return run_in_parallel(os.getpid, os.getpid)
    finally:
        done.set()
        other.join()


def writes_beside(pipe: Path) -> object:
    return run_in_parallel(lambda: pipe.write_text("x" * (1 << 20)), lambda: signal.pause())


async def test_two_works_beside_each_other_answer_from_two_processes() -> None:
    (copy, parent), (own, _) = await ProcessPool().run(two_answers)
    assert parent == own != copy


@pytest.mark.parametrize("own", [True, False])
async def test_what_either_of_two_works_raises_is_raised(own: bool) -> None:
    with pytest.raises(ZeroDivisionError):
        await ProcessPool().run(fails_beside, own=own)


async def test_a_copy_that_dies_has_read_nothing() -> None:
    with pytest.raises(WorkTimeout):
        await ProcessPool().run(dies_beside)


async def test_a_process_of_several_threads_is_not_copied() -> None:
    one, other = await ProcessPool().run(counted_beside)
    assert one == other


async def test_who_waits_no_more_ends_the_copy_as_well(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    waiting = asyncio.create_task(ProcessPool().run(writes_beside, pipe))
    with await asyncio.to_thread(pipe.open, "rb", 0) as end:
        waiting.cancel()
        await asyncio.wait({waiting})
        while await asyncio.to_thread(end.read, 1 << 16):
            pass
