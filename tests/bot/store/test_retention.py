"""Retention of evidence, closed incidents and the private Redis' log, and what `doctor` says about it."""

import asyncio
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisGone

from bot.app.retention import CLEAR_INTERVAL_SECONDS, Retention, load_last_run
from bot.cli.doctor.command import check_retention
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.settings import Settings, load_settings
from bot.store.closed_incidents import ClosedIncidentStore
from bot.store.keys import RedisKeys
from bot.store.private_redis import MAX_LOG_BYTES, rotate_log
from tests.support.clock import SetClock
from tests.support.fakes_desk import TinyTurns, item, origin
from tools.evidence import DAY_SECONDS, DirectoryEvidence, iter_outputs, measure_evidence

pytest_plugins = ("tests.support.fixtures_redis",)


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[structlog.typing.EventDict]]:
    with structlog.testing.capture_logs() as rows:
        yield rows


def settings(folder: Path, **more: str) -> Settings:
    return load_settings(None, {"RACKMEDIC_DATA_DIR": str(folder), **more})


class Place:
    """A data folder and a Redis at one time."""

    def __init__(self, redis: Redis, folder: Path, **more: str) -> None:
        self.redis, self.clock, self.settings = redis, SetClock(), settings(folder, **more)
        self.inbox, self.evidence = Inbox(redis, self.clock), DirectoryEvidence(self.settings.evidence_dir)
        self.closed = ClosedIncidentStore(redis)
        self.retention = Retention(self.settings, self.inbox.list_open_incidents, self.closed, self.clock)

    async def incident(self, name: str, *, closed: bool = False, holds: bool = False) -> str:
        """Return an incident with a turn, state and evidence; a closed one expires unless it holds nodes."""
        id_ = (await self.inbox.open_or_join(origin(name), name, lambda incident: item(incident, name))).incident
        turns = TinyTurns(self.redis)
        await turns.run_turn(item(id_, name, "close" if closed else "mention"), None)
        lease = await Leases(self.redis, self.clock).acquire(id_)
        assert lease
        keep = None if holds else timedelta(days=self.settings.closed_retention_days)
        await self.inbox.finish_item(id_, lease.token, name, "closed" if closed else "open", {}, keep=keep)
        await lease.release()
        return id_

    async def stored(self, incident: str, days: float) -> str:
        """Store an output of the incident, dated `days` ago, and return its digest."""
        sha = await self.evidence.put_text(incident, f"{incident} {days} " + os.urandom(64).hex())
        (file,) = [one.file for one in iter_outputs(self.settings.evidence_dir) if one.sha == sha]
        at = self.clock.now().timestamp() - days * DAY_SECONDS
        os.utime(file, (at, at))
        return sha


async def test_evidence_of_closed_incidents_goes_after_its_days_and_that_of_open_ones_stays(tmp_path: Path) -> None:
    async with FakeAsyncRedis() as redis:
        place = Place(redis, tmp_path)
        over, running = await place.incident("1.0", closed=True), await place.incident("2.0")
        gone, stays, recent = await place.stored(over, 91), await place.stored(running, 400), await place.stored(over, 89)
        await place.retention.clear_expired()
        assert [await place.evidence.get_text(sha) is not None for sha in (gone, stays, recent)] == [False, True, True]
        done = load_last_run(tmp_path)
        assert done is not None
        assert (done.outputs, done.cited > 0) == (1, True)


async def test_too_much_evidence_goes_before_its_days(tmp_path: Path) -> None:
    async with FakeAsyncRedis() as redis:
        place = Place(redis, tmp_path, RACKMEDIC_EVIDENCE_GB="0.00000001")
        incident = await place.incident("1.0", closed=True)
        await place.stored(incident, 2)
        await place.retention.clear_expired()
        assert measure_evidence(place.settings.evidence_dir).outputs == 0


async def test_without_the_list_of_open_incidents_nothing_is_removed(tmp_path: Path) -> None:
    async with FakeAsyncRedis() as redis:
        place = Place(redis, tmp_path)
        await place.stored("inc-1", 400)

        async def nobody() -> list[str]:
            raise RedisGone("connection refused")

        retention = Retention(place.settings, nobody, place.closed, place.clock)
        with pytest.raises(RedisGone):
            await retention.clear_expired()
        assert measure_evidence(place.settings.evidence_dir).outputs == 1


async def test_one_process_runs_it_once_an_hour(tmp_path: Path) -> None:
    async with FakeAsyncRedis() as redis:
        one, other = Place(redis, tmp_path), Place(redis, tmp_path)
        assert await one.retention.clear_expired()
        assert await other.retention.clear_expired() is None
        rounds = 0

        async def hours(seconds: float) -> None:
            nonlocal rounds
            other.clock.go(seconds=seconds)
            rounds += 1
            if rounds == 3:
                raise asyncio.CancelledError

        await other.stored("inc-1", 400)
        with pytest.raises(asyncio.CancelledError):
            await Retention(other.settings, other.inbox.list_open_incidents, other.closed, other.clock, pause=hours).run()
        done = load_last_run(tmp_path)
        assert done is not None
        assert done.at == other.clock.now().timestamp() - CLEAR_INTERVAL_SECONDS
        assert measure_evidence(other.settings.evidence_dir).outputs == 0


async def test_closed_incidents_past_their_megabytes_go_longest_closed_first_and_open_ones_never(real_redis: Redis, tmp_path: Path) -> None:
    place = Place(real_redis, tmp_path)
    running = await place.incident("0.0")
    closed = [await place.incident(f"{n}.0", closed=True) for n in range(1, 5)]
    for n, incident in enumerate(closed):
        await real_redis.expire(RedisKeys().incident_key(incident), 1000 + n)
    rows = {row.incident: row for row in await place.closed.list_closed_incidents()}
    assert set(rows) == set(closed)
    gone = await place.closed.trim_to_bytes(rows[closed[2]].bytes + rows[closed[3]].bytes)
    assert gone == 2
    left = {row.incident for row in await place.closed.list_closed_incidents()}
    assert left == set(closed[2:])
    assert await place.closed.trim_to_bytes(0) == 2
    assert await place.inbox.find_incident("T", "C", "1.0") is None
    assert await place.inbox.find_incident("T", "C", "0.0") == running
    assert [key async for key in real_redis.scan_iter(match="rm:thread:*") if running.encode() not in key] == []


async def test_a_closed_incident_that_lives_again_is_not_forgotten(real_redis: Redis, tmp_path: Path) -> None:
    place = Place(real_redis, tmp_path)
    incident = await place.incident("1.0", closed=True)
    await place.inbox.open_or_join(origin("1.0"), "again", lambda of: item(of, "again", "reply"))
    assert await place.closed.trim_to_bytes(0) == 0
    assert [one.id for one in await place.inbox.list_waiting(incident)] == ["again"]


async def test_a_closed_incident_whose_nodes_we_hold_is_never_forgotten_to_make_room(real_redis: Redis, tmp_path: Path) -> None:
    place = Place(real_redis, tmp_path)
    incident = await place.incident("1.0", closed=True, holds=True)
    await place.incident("2.0", closed=True)
    assert await place.closed.trim_to_bytes(0) == 1
    assert (await place.inbox.find_incident("T", "C", "1.0"), await place.inbox.list_drained_incidents()) == (incident, [incident])


def test_a_long_log_of_the_private_redis_is_put_aside_once(tmp_path: Path) -> None:
    log = tmp_path / "redis.log"
    assert not rotate_log(tmp_path)
    log.write_bytes(b"x" * MAX_LOG_BYTES)
    assert not rotate_log(tmp_path)
    for text in (b"1", b"2"):
        log.write_bytes(text * (MAX_LOG_BYTES + 1))
        assert rotate_log(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["redis.log.1"]


async def test_doctor_says_how_much_is_kept_and_what_is_wrong_with_that(tmp_path: Path) -> None:
    async with FakeAsyncRedis() as redis:
        place = Place(redis, tmp_path)
        now = place.clock.now().timestamp()
        assert check_retention(place.settings, now)[0].says.startswith("none yet")
        running = await place.incident("1.0")
        await place.stored(running, 12)
        (well,) = check_retention(place.settings, now)
        assert (well.state, "the oldest 12 days of at most 90" in well.says) == ("ok", True)
        await place.stored(running, 120)
        (never,) = check_retention(place.settings, now)
        assert (never.state, "rackmedic serve" in never.mend) == ("warn", True)
        await place.retention.clear_expired()
        (cited,) = check_retention(place.settings, now)
        assert (cited.state, "open incidents cite" in cited.says) == ("warn", True)
