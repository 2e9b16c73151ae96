"""The brakes and the audit log from a terminal, over a private Redis of the data folder."""

import json
import shutil
from pathlib import Path

import pytest

from bot.settings import BadSettings, load
from bot.store.ledger import ledger_key, why_not
from bot.store.store import Durability
from tests.bot.test_cli import rackmedic
from tools.inventory.hosts import parse_inventory

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


def test_without_a_redis_the_terminal_says_what_to_set(tmp_path: Path) -> None:
    ran = rackmedic("audit", "verify", environ={"RACKMEDIC_DATA_DIR": str(tmp_path), "PATH": "/nonexistent"})
    assert ran.returncode == 1
    assert "RACKMEDIC_REDIS_URL" in ran.stderr


def test_no_remedy_runs_on_a_store_that_forgets() -> None:
    assert "nothing survives" in why_not(FORGETS, HERE, accept=False)
    assert why_not(FORGETS, HERE, accept=True) == ""


def test_accepting_a_forgetful_store_is_for_loopback_hosts_only() -> None:
    assert "n2" in why_not(FORGETS, AWAY, accept=True)


def test_a_durable_store_needs_no_excuse() -> None:
    assert why_not(Durability("server", "7.0.15", "yes", "always", "noeviction"), AWAY, accept=False) == ""


def test_the_key_is_made_once_and_kept_for_its_owner(tmp_path: Path) -> None:
    settings = load(None, {"RACKMEDIC_DATA_DIR": str(tmp_path)})
    assert ledger_key(settings) == ledger_key(settings)
    assert (tmp_path / "ledger.key").stat().st_mode & 0o777 == 0o600


def test_a_short_key_is_refused_with_the_mend() -> None:
    with pytest.raises(BadSettings, match="openssl rand"):
        load(None, {"RACKMEDIC_LEDGER_KEY": "short"})
