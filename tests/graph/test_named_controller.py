"""A host without jobs, such as a controller, is looked at only if a person names it."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.incident.visibility import build_host_scope, list_nameable_hosts, list_visible_hosts
from graph.state import InboxItem, Origin
from tests.support.clock import T0
from tests.support.fakes_graph import FakeFleet, World, fact, healthy, item
from tests.support.inventories import SITE, inventory
from tools.inventory.inventory import Inventory

TERMINAL, OPERATORS = Origin(kind="terminal"), Origin(kind="slack", channel="C0OPS")
THEIRS = inventory(groups={**SITE["groups"], "t": {"hosts": "t[1-2]", "tenant": "acme", "controller": "ctl"}}, channels=[])


def said(text: str) -> InboxItem:
    return InboxItem(id="i1", kind="mention", incident="inc-1", at=T0, text=text)


@pytest.mark.parametrize(
    "text", ["slow\nhosts: ctl", "what is wrong with ctl?", "ctl and n1 are slow", "is ctl healthy?", "jobs hang, CTL too"]
)
def test_a_controller_is_looked_at_where_it_is_named(text: str) -> None:
    assert "ctl" in build_host_scope(inventory(channels=[]), TERMINAL, said(text), ()).hosts


@pytest.mark.parametrize("text", ["n1 is slow", "jobs hang", "is everything healthy?", "control plane?"])
def test_a_controller_is_left_alone_where_it_is_not(text: str) -> None:
    assert "ctl" not in build_host_scope(inventory(channels=[]), TERMINAL, said(text), ()).hosts
    assert "ctl" in build_host_scope(inventory(channels=[]), TERMINAL, said(text), ("ctl",)).hosts, "it stays part of what is about it"


@pytest.mark.parametrize("origin", [Origin(kind="terminal", tenant="acme"), OPERATORS])
def test_a_host_outside_the_channels_scope_cannot_be_named(origin: Origin) -> None:
    site = inventory() if origin is OPERATORS else THEIRS
    assert list_nameable_hosts(site, origin) == list_visible_hosts(site, origin)
    assert "ctl" not in build_host_scope(site, origin, said("ctl is slow"), ()).hosts


class WithController(World):
    @property
    def inventory(self) -> Inventory:
        return inventory(channels=[])


async def test_the_look_goes_to_the_controller_and_not_to_others_in_its_place() -> None:
    hosts = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")
    world = WithController(fleet=FakeFleet([*healthy(*hosts), fact("ctl", "dmesg", "kernel.oom_kill", "slurmctld")]))
    report = await run_turn(build_incident_graph(InMemorySaver()), world.ports(), item("slow\nhosts: ctl"))
    assert "ctl" in {ask.host for ask in world.fleet.asked}
    assert any("ctl" in cause.hosts for cause in report.root_causes)
