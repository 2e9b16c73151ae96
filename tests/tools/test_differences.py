"""Grouping hosts by a fact's value, and which facts are comparable."""

import pytest

from tools.differences import ValuesByHost, is_comparable
from tools.fact import Fact


def test_hosts_stand_with_their_value_and_those_without_the_setting_under_none() -> None:
    table = ValuesByHost()
    for host, version in (("n1", "550"), ("n2", "535"), ("n3", "550")):
        table.add_host("smi", host, {("driver.version", ""): [version]})
    table.add_host("smi", "n4", {})
    table.add_host("lspci", "n5", {})
    [(setting, values)] = table.iter_settings()
    assert setting == ("smi", "driver.version", "")
    assert {tuple(said): table.list_hosts(mask) for said, mask in values.items()} == {("550",): ["n1", "n3"], ("535",): ["n2"], (): ["n4"]}


@pytest.mark.parametrize(
    ("fact", "comparable"),
    [
        (Fact("smi", "driver.version", "550"), True),
        (Fact("smi", "gpu.count", 8), True),
        (Fact("smi", "gpu.temp.core", 60), False),
        (Fact("smi", "gpu.uuid", "GPU-1"), False),
        (Fact("fabric", "fabric.leaf", "leaf-1"), False),
        (Fact("env", "env.NCCL_DEBUG", "INFO"), False),
        (Fact("smi", "no.such.key", 1), False),
    ],
)
def test_settings_and_counts_are_comparable(fact: Fact, comparable: bool) -> None:
    assert is_comparable(fact) is comparable
