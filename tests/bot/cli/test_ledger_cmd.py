"""Brakes and audit log from the terminal, on the data folder's private Redis."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from fakeredis import FakeAsyncRedis

from bot.cli.ledger import ALTERATION_ACCEPTED_TEXT
from bot.refusal import Refusal
from bot.settings import BadSettings, load_settings
from bot.store.ledger_signing_keys import load_ledger_key
from bot.store.open_ledger import build_brakes, find_distrust_reason, get_head_file, load_audit_head, open_ledger
from bot.store.store import Durability, Store, open_store
from tests.support.clock import T0, SetClock
from tests.support.terminal import rackmedic
from tools.inventory.inventory import parse_inventory
from tools.ledger.brakes import Brakes
from tools.ledger.ledger import Ledger

needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="NO redis-server ON PATH: apt-get install redis-server")
FORGETS = Durability("memory", problems=("in memory: nothing survives exit",))
HERE = parse_inventory({"groups": {"g": {"hosts": "n1"}}, "hosts": {"n1": {"address": "127.0.0.1"}}})
AWAY = parse_inventory({"groups": {"g": {"hosts": "n1,n2"}}, "hosts": {"n1": {"address": "127.0.0.1"}, "n2": {"address": "10.0.0.2"}}})


@needs_redis
def test_the_kill_switch_is_pulled_seen_audited_and_released(tmp_path: Path) -> None:
    environ = {"RACKMEDIC_DATA_DIR": str(tmp_path)}
    assert rackmedic("stop", "power work in hall 2", environ=environ).returncode == 0
    assert "power work in hall 2" in json.loads(rackmedic("status", "--json", environ=environ).stdout)["stopped"]
    assert rackmedic("resume", environ=environ).returncode == 0
    lines = [json.loads(line) for line in rackmedic("audit", "export", environ=environ).stdout.splitlines()]
    assert [line["event"] for line in lines] == ["stop", "resume"]
    verified = json.loads(rackmedic("audit", "verify", "--json", "--head", lines[-1]["head"], environ=environ).stdout)
    assert verified["good"]
    cut = rackmedic("audit", "verify", "--head", "0" * 64, environ=environ)
    assert cut.returncode == 1
    assert "cut" in cut.stdout


@needs_redis
def test_resuming_reports_another_persons_brake_change(tmp_path: Path) -> None:
    environ = {"RACKMEDIC_DATA_DIR": str(tmp_path)}
    assert rackmedic("stop", "power work", environ=environ).returncode == 0

    async def release() -> None:
        store = await open_store(None, tmp_path)
        try:
            await store.redis.delete("rm:ledger:brakes")
        finally:
            await store.aclose()

    asyncio.run(release())
    told = rackmedic("resume", environ=environ)
    assert (told.returncode, ALTERATION_ACCEPTED_TEXT in told.stderr) == (0, True)
    assert ALTERATION_ACCEPTED_TEXT not in rackmedic("resume", environ=environ).stderr


def test_without_a_setting_the_brakes_are_what_the_ledger_takes_by_itself() -> None:
    assert build_brakes(load_settings(None, {})) == Brakes()


@needs_redis
def test_raising_a_brake_is_a_setting_and_status_shows_it(tmp_path: Path) -> None:
    environ = {"RACKMEDIC_DATA_DIR": str(tmp_path), "RACKMEDIC_BRAKE_INCIDENT_HOSTS": "12", "RACKMEDIC_BRAKE_WINDOW_MINUTES": "2.5"}
    row = json.loads(rackmedic("status", "--json", environ=environ).stdout)
    assert row["brakes"] == {"incident_hosts": 12, "incident_minutes": 60.0, "at_once": 0.05, "window": 0.1, "window_minutes": 2.5}
    said = " ".join(rackmedic("status", environ=environ).stdout.split())
    assert "12 hosts within 60 min" in said
    assert "RACKMEDIC_BRAKE_INCIDENT_HOSTS" in said


@pytest.mark.parametrize("wrong", ["BRAKE_INCIDENT_HOSTS=0", "BRAKE_AT_ONCE=1.5", "BREAKER_HOST_RATIO=0", "BRAKE_WINDOW_MINUTES=-1"])
def test_a_brake_cannot_be_set_to_nothing_or_past_all_hosts(wrong: str) -> None:
    name, _, value = wrong.partition("=")
    with pytest.raises(BadSettings, match=name):
        load_settings(None, {f"RACKMEDIC_{name}": value})


@needs_redis
def test_the_kill_switch_works_beside_a_broken_inventory(tmp_path: Path) -> None:
    environ = {"RACKMEDIC_DATA_DIR": str(tmp_path), "RACKMEDIC_INVENTORY": str(tmp_path / "absent.yaml")}
    ran = rackmedic("stop", "all of it", environ=environ)
    assert (ran.returncode, "stopped" in ran.stdout) == (0, True), ran.stderr


@needs_redis
def test_a_breaker_that_was_not_open_is_not_called_reset(tmp_path: Path) -> None:
    ran = rackmedic("resume", "--breaker", "nope", environ={"RACKMEDIC_DATA_DIR": str(tmp_path)})
    assert (ran.returncode, ran.stdout) == (0, "no breaker of nope was open; its counters start again at zero\n")


async def stop_by_a_hasty_clock(folder: Path) -> None:
    """Pull the kill switch with a clock that is decades ahead."""
    store = await open_store(None, folder)
    try:
        hasty = Ledger(
            store.redis, load_ledger_key(load_settings(None, {"RACKMEDIC_DATA_DIR": str(folder)})), SetClock(T0.replace(year=2099))
        )
        await hasty.stop("T1:ANN", "by a machine that lives in another century")
    finally:
        await store.aclose()


@needs_redis
def test_a_clock_that_ran_ahead_is_set_back_from_a_terminal(tmp_path: Path) -> None:
    environ = {"RACKMEDIC_DATA_DIR": str(tmp_path)}
    asyncio.run(stop_by_a_hasty_clock(tmp_path))
    assert rackmedic("resume", "--clock", environ=environ).returncode == 0
    lines = [json.loads(line) for line in rackmedic("audit", "export", environ=environ).stdout.splitlines()]
    assert [line["event"] for line in lines] == ["stop", "clock_rewound"]
    assert lines[0]["at"].startswith("2099")
    assert not lines[1]["at"].startswith("2099")


def test_without_a_redis_the_terminal_says_what_to_set(tmp_path: Path) -> None:
    ran = rackmedic("audit", "verify", environ={"RACKMEDIC_DATA_DIR": str(tmp_path), "PATH": "/nonexistent"})
    assert ran.returncode == 1
    assert "RACKMEDIC_REDIS_URL" in ran.stderr


def test_no_remedy_runs_on_a_store_that_forgets() -> None:
    assert "nothing survives" in find_distrust_reason(FORGETS, HERE, accept=False)
    assert find_distrust_reason(FORGETS, HERE, accept=True) == ""


def test_accepting_a_forgetful_store_is_for_loopback_hosts_only() -> None:
    assert "n2" in find_distrust_reason(FORGETS, AWAY, accept=True)


def test_a_durable_store_needs_no_excuse() -> None:
    assert find_distrust_reason(Durability("server", "7.0.15", "yes", "always", "noeviction"), AWAY, accept=False) == ""


def test_the_key_is_made_once_and_kept_for_its_owner(tmp_path: Path) -> None:
    settings = load_settings(None, {"RACKMEDIC_DATA_DIR": str(tmp_path)})
    assert load_ledger_key(settings) == load_ledger_key(settings)
    assert (tmp_path / "ledger.key").stat().st_mode & 0o777 == 0o600


def test_half_a_key_is_refused_not_signed_with(tmp_path: Path) -> None:
    (tmp_path / "ledger.key").write_text("")
    with pytest.raises(Refusal, match=r"ledger\.key holds no whole key"):
        load_ledger_key(load_settings(None, {"RACKMEDIC_DATA_DIR": str(tmp_path)}))


async def test_processes_that_start_together_make_one_key(tmp_path: Path) -> None:
    settings = load_settings(None, {"RACKMEDIC_DATA_DIR": str(tmp_path)})
    keys = await asyncio.gather(*(asyncio.to_thread(load_ledger_key, settings) for _ in range(16)))
    assert len(set(keys)) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.key"]


async def test_a_ledger_begun_with_another_key_is_refused_with_the_mend_and_left_whole(tmp_path: Path) -> None:
    async with FakeAsyncRedis() as redis:
        store = Store(redis, "server", "redis://one")

        async def opened(folder: str) -> Ledger:
            settings = load_settings(None, {"RACKMEDIC_DATA_DIR": str(tmp_path / folder)})
            return await open_ledger(settings, store, HERE, SetClock())

        first = await opened("here")
        await (await opened("elsewhere")).get_brake_status()  # nothing is written yet, so another key is accepted
        await first.stop("ANN", "power work")
        with pytest.raises(Refusal, match="started with another key") as refused:
            await opened("elsewhere")
        assert "RACKMEDIC_LEDGER_KEY" in str(refused.value)
        assert str(tmp_path / "elsewhere" / "ledger.key") in str(refused.value)
        await (await opened("here")).resume("ANN")
        assert (await first.verify_audit()).good


def test_a_short_key_is_refused_with_the_mend() -> None:
    with pytest.raises(BadSettings, match="openssl rand"):
        load_settings(None, {"RACKMEDIC_LEDGER_KEY": "short"})


async def test_the_newest_head_is_kept_outside_redis_and_an_older_copy_is_noticed_by_the_next_process(tmp_path: Path) -> None:
    settings = load_settings(None, {"RACKMEDIC_DATA_DIR": str(tmp_path)})
    async with FakeAsyncRedis() as redis:
        store = Store(redis, "server", "redis://one")
        first = await open_ledger(settings, store, HERE, SetClock())
        await first.stop("ANN", "power work")
        older = [(key, await redis.dump(key)) for key in ("rm:ledger:audit", "rm:ledger:head")]
        await first.resume("ANN")
        length, head = load_audit_head(get_head_file(settings))
        assert (length, head) == (2, (await first.verify_audit()).head)
        for key, value in older:
            await redis.restore(key, 0, value or b"", replace=True)
        await (await open_ledger(settings, store, HERE, SetClock())).record_continuation("inc-1", "X", [], "T1:ANN")
        assert "went back in time" in (await first.get_brake_status()).stopped
    get_head_file(settings).write_text("rubbish")
    assert load_audit_head(get_head_file(settings)) == (0, "")
