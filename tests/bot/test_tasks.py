"""Periodic sweeps: no error but a cancellation ends the loop, and the log tells an outage from a bug."""

import asyncio

import pytest
from redis.exceptions import ConnectionError as RedisGone
from redis.exceptions import RedisError
from structlog.testing import capture_logs

from bot.tasks import run_periodically


async def logged_sweeps(*errors: Exception | None, expected: tuple[type[Exception], ...] = (RedisError,)) -> list[tuple[str, str, bool]]:
    """Run one sweep per error, None for a sweep that succeeds; return (level, event, with traceback) of each log line."""
    left, pauses = list(errors), list[float]()

    async def sweep() -> None:
        if (error := left.pop(0)) is not None:
            raise error

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if not left:
            raise asyncio.CancelledError

    with capture_logs() as lines, pytest.raises(asyncio.CancelledError):
        await run_periodically("test", sweep, 7.0, expected=expected, pause=pause)
    assert pauses == [7.0] * len(errors)
    assert {line["sweep"] for line in lines} <= {"test"}
    return [(line["log_level"], line["event"], bool(line.get("exc_info"))) for line in lines]


async def test_the_first_sweep_runs_at_once_and_every_sweep_is_followed_by_a_pause() -> None:
    assert await logged_sweeps(None, None, None) == []


async def test_redis_away_is_a_warning_and_the_loop_goes_on() -> None:
    assert await logged_sweeps(RedisGone("refused"), None) == [("warning", "sweep.put_off", False)]


async def test_a_bug_is_logged_with_its_traceback_and_the_loop_goes_on() -> None:
    assert await logged_sweeps(ZeroDivisionError("a bug"), None) == [("error", "sweep.failed", True)]


async def test_the_caller_names_other_expected_errors() -> None:
    lines = await logged_sweeps(OSError("disk full"), RedisGone("refused"), expected=(OSError,))
    assert lines == [("warning", "sweep.put_off", False), ("error", "sweep.failed", True)]


async def test_a_cancellation_inside_a_sweep_ends_the_loop() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run_periodically("test", cancelled, 7.0)
