"""The inventory: resolved whole, or refused with every problem at once."""

from pathlib import Path

import pytest

from tools.inventory.hosts import BadInventory, load_inventory, parse_inventory
from tools.inventory.ranges import BadRange

GOOD = {
    "defaults": {"user": "rackmedic", "kit": True, "sku": "dgx-h100-8"},
    "groups": {"train": {"hosts": "gpu-[001-004]", "port": 2222}, "pcie": {"hosts": "l40-[1-2]", "sku": "pcie-l40s-8", "tenant": "acme"}},
    "hosts": {"gpu-002": {"address": "10.0.0.2", "port": 22, "kit": False}},
    "channels": [{"channel": "C1", "kind": "operators", "groups": ["train"]}],
}


def test_a_host_takes_its_own_setting_before_its_groups_before_the_defaults() -> None:
    hosts = parse_inventory(GOOD).hosts
    assert (hosts["gpu-001"].port, hosts["gpu-002"].port) == (2222, 22)
    assert (hosts["gpu-001"].kit, hosts["gpu-002"].kit) == (True, False)
    assert (hosts["gpu-001"].sku, hosts["l40-1"].sku, hosts["l40-1"].tenant) == ("dgx-h100-8", "pcie-l40s-8", "acme")
    assert (hosts["gpu-001"].address, hosts["gpu-002"].address) == ("gpu-001", "10.0.0.2")


def test_hosts_are_picked_by_range_and_by_group() -> None:
    inventory = parse_inventory(GOOD)
    assert [host.name for host in inventory.pick("gpu-[003-004],pcie")] == ["gpu-003", "gpu-004", "l40-1", "l40-2"]
    with pytest.raises(BadRange, match="gpu-009"):
        inventory.pick("gpu-009")


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    bad = {
        "groups": {"train": {"hosts": "gpu-[9-1]"}},
        "hosts": {"stray": {}},
        "channels": [{"channel": "C1", "groups": ["nope"]}, {"channel": "C2", "kind": "tenant"}],
    }
    with pytest.raises(BadInventory) as refused:
        parse_inventory(bad)
    told = " ".join(refused.value.problems)
    for field in ("groups.train.hosts", "hosts.stray", "channels.0.groups", "channels.1.tenant"):
        assert field in told


def test_a_wrong_type_names_its_field() -> None:
    with pytest.raises(BadInventory, match=r"groups\.train\.port"):
        parse_inventory({"groups": {"train": {"hosts": "n1", "port": 99999}}})


@pytest.mark.parametrize("path", ["relative/logs", "/var/log/../../etc", "/var/log/$(id)", "/a b"])
def test_a_log_folder_that_could_be_more_than_a_path_is_refused(path: str) -> None:
    with pytest.raises(BadInventory, match="job_logs"):
        parse_inventory({"groups": {"g": {"hosts": "n1", "job_logs": path}}})


def test_a_missing_or_broken_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInventory, match="cannot be read"):
        load_inventory(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("groups: [")
    with pytest.raises(BadInventory, match="is not YAML"):
        load_inventory(tmp_path / "bad.yaml")
