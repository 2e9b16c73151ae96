"""Rotating the ledger key from the terminal: files, settings, output, and recovery from a crash between any two steps."""

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from bot.app.diagnosis_runtime import WallClock
from bot.cli.doctor.command import collect_findings
from bot.refusal import Refusal
from bot.settings import BadSettings, Settings, load_settings
from bot.store import ledger_signing_keys
from bot.store.ledger_signing_keys import load_ledger_key, load_older_keys, rotate_ledger_key
from bot.store.open_ledger import open_ledger
from bot.store.store import open_store
from tests.support.fakes_ledger import PEOPLE, action
from tests.support.terminal import rackmedic
from tools.inventory.inventory import Inventory
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord, ApprovalTerms
from tools.ledger.seal import compute_key_id

needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="NO redis-server ON PATH: apt-get install redis-server")
ONE, TWO = "first key of the site and long enough", "second key of the site and long enough"
T = TypeVar("T")


def settings_in(folder: Path, **more: str) -> Settings:
    return load_settings(None, {"RACKMEDIC_DATA_DIR": str(folder), **{f"RACKMEDIC_{name}": value for name, value in more.items()}})


def on_ledger(settings: Settings, do: Callable[[Ledger], Awaitable[T]]) -> T:
    """Run `do` on the ledger as a process with these settings opens it."""

    async def done() -> T:
        store = await open_store(None, settings.data_dir)
        try:
            return await do(await open_ledger(settings, store, Inventory(hosts={}, groups={}), WallClock()))
        finally:
            await store.aclose()

    return asyncio.run(done())


async def asked(ledger: Ledger) -> ActionRecord:
    return await ledger.propose(action(), ApprovalTerms(PEOPLE, 1))


def doctor_says(settings: Settings) -> tuple[str, str]:
    row = next(row for row in asyncio.run(collect_findings(settings)) if row.part == "ledger key")
    return row.state, row.says


@needs_redis
def test_our_own_key_is_changed_and_everything_that_was_signed_stays_readable(tmp_path: Path) -> None:
    environ, settings = {"RACKMEDIC_DATA_DIR": str(tmp_path)}, settings_in(tmp_path)
    card = on_ledger(settings, asked)
    before = load_ledger_key(settings)
    ran = rackmedic("ledger", "rotate", "--json", environ=environ)
    assert ran.returncode == 0, ran.stderr
    row = json.loads(ran.stdout)
    assert row == {
        "schema": 1,
        "key": compute_key_id(load_ledger_key(settings)),
        "older": [compute_key_id(before)],
        "superseded": [card.approval],
        "running": [],
    }
    assert load_older_keys(settings) == (before,)
    assert rackmedic("audit", "verify", environ=environ).returncode == 0
    assert on_ledger(settings, lambda ledger: ledger.get_record(card.approval)).state == "superseded"
    assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("ledger.key*")} == {0o600}
    assert doctor_says(settings) == (
        "ok",
        f"{row['key']} signs; earlier ones: {compute_key_id(before)}; signed with an earlier one: 0 to be proposed again, 0 that run",
    )


@needs_redis
def test_a_key_of_the_settings_is_changed_in_the_settings(tmp_path: Path) -> None:
    old = settings_in(tmp_path, LEDGER_KEY=ONE)
    on_ledger(old, asked)
    environ = {"RACKMEDIC_DATA_DIR": str(tmp_path), "RACKMEDIC_LEDGER_KEY": ONE}
    refused = rackmedic("ledger", "rotate", environ=environ)
    assert (refused.returncode, "RACKMEDIC_LEDGER_OLD_KEYS" in refused.stderr) == (1, True)
    new = settings_in(tmp_path, LEDGER_KEY=TWO, LEDGER_OLD_KEYS=ONE)
    with pytest.raises(Refusal, match="rackmedic ledger rotate"):
        on_ledger(new, asked)
    assert doctor_says(new)[0] == "fail"
    ran = rackmedic("ledger", "rotate", environ=environ | {"RACKMEDIC_LEDGER_KEY": TWO, "RACKMEDIC_LEDGER_OLD_KEYS": ONE})
    assert (ran.returncode, "restart every other process" in ran.stdout) == (0, True), ran.stderr
    with pytest.raises(Refusal, match="signed with another key than ours"):
        on_ledger(old, asked)
    assert on_ledger(new, asked).state == "pending"
    assert doctor_says(new)[0] == "ok"
    assert doctor_says(old)[0] == "fail"


@needs_redis
@pytest.mark.parametrize("crash", ["before the new key is there", "before the ledger knows it"])
def test_a_crash_between_files_and_ledger_is_ended_by_running_it_again(tmp_path: Path, crash: str) -> None:
    environ, settings = {"RACKMEDIC_DATA_DIR": str(tmp_path)}, settings_in(tmp_path)
    card = on_ledger(settings, asked)
    first = load_ledger_key(settings)
    if crash == "before the new key is there":
        (tmp_path / "ledger.key.older").write_bytes(first)
        assert on_ledger(settings, asked).state == "pending", "nothing has changed yet"
    else:
        rotate_ledger_key(settings)
        with pytest.raises(Refusal, match="rackmedic ledger rotate"):
            on_ledger(settings, asked)
    begun = load_ledger_key(settings)
    assert rackmedic("ledger", "rotate", environ=environ).returncode == 0
    assert first in load_older_keys(settings)
    assert (load_ledger_key(settings) == begun) == (crash == "before the ledger knows it"), "a key that was made is used"
    assert on_ledger(settings, lambda ledger: ledger.get_record(card.approval)).state == "superseded"
    assert on_ledger(settings, lambda ledger: ledger.verify_audit()).good


def test_the_kill_switch_can_be_pulled_while_the_key_is_being_changed(tmp_path: Path) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("NO redis-server ON PATH: apt-get install redis-server")
    settings = settings_in(tmp_path)
    on_ledger(settings, asked)
    rotate_ledger_key(settings)
    assert rackmedic("stop", "look first", environ={"RACKMEDIC_DATA_DIR": str(tmp_path)}).returncode == 0


def test_no_step_of_a_new_key_loses_one(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    first = load_ledger_key(settings)
    rotate_ledger_key(settings)
    second = load_ledger_key(settings)
    rotate_ledger_key(settings)
    assert load_older_keys(settings) == (second, first)
    assert load_ledger_key(settings) not in (first, second)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ledger.key", "ledger.key.older"]
    assert len(load_ledger_key(settings)) == ledger_signing_keys.KEY_BYTES * 2


def test_an_earlier_key_that_is_too_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="LEDGER_OLD_KEYS"):
        settings_in(tmp_path, LEDGER_KEY=ONE, LEDGER_OLD_KEYS=f"{TWO},short")
