"""The fleet summary on the Home tab is counted by group, bounded, and calls no unobserved host healthy."""

from dataclasses import replace

from bot.incidents.cards.home import MAX_GROUPS, GroupSummary, OpenIncident, count_causes, render_fleet, summarize_groups
from graph.remediation.drained_nodes import DrainedNode
from tests.support.clock import T0

GROUPS = {"train": [f"gpu-{n:03}" for n in range(1, 9)], "rack-2": ["gpu-007", "gpu-008"], "spare": ["gpu-099"]}
TWO = OpenIncident("i1", "waiting", T0, hosts=("gpu-001", "gpu-007"))
ONE = OpenIncident("i2", "open", T0, hosts=("gpu-001", "elsewhere"))


def held_row() -> OpenIncident:
    closed = OpenIncident("i3", "closed", T0, hosts=("gpu-002",))
    return replace(closed, drained_nodes=(DrainedNode("l1", "gpu-003", "GPU.BUS.Lost", "", None, ""),))


def test_hosts_are_counted_once_and_closed_incidents_only_by_what_they_hold() -> None:
    assert summarize_groups(GROUPS, [TWO, ONE, held_row()]) == [
        GroupSummary("train", 8, 2, 2, 1),
        GroupSummary("rack-2", 2, 1, 1, 0),
        GroupSummary("spare", 1, 0, 0, 0),
    ]


def test_an_unreported_host_is_not_called_healthy() -> None:
    words = str(render_fleet(summarize_groups(GROUPS, [TWO, ONE, held_row()]), [], 30))
    assert "8 hosts · 🔴 2 in 2 open incidents · ⛔ 1 held by us" in words
    assert "1 host · in no open incident" in words
    assert "No cause was proven." in words
    assert not {"healthy", "ok", "well", "✅"} & set(words.split())


def test_causes_are_counted_once_an_incident_and_the_commonest_come_first() -> None:
    labels = [("GPU.BUS.Lost", "GPU.BUS.Lost"), ("GPU.BUS.Lost",), ("SITE.Own",), ()]
    assert count_causes(labels, {"GPU.BUS.Lost": "GPU fell off"}) == [("GPU fell off", 2), ("SITE.Own", 1)]


def test_many_groups_and_causes_are_bounded_and_names_of_strangers_are_words() -> None:
    many = {f"<!channel> {n}": ["h"] for n in range(500)}
    shown = render_fleet(summarize_groups(many, []), [(f"cause {n}", 1) for n in range(90)], 30, counted_incidents=100)
    assert len(shown) == 2
    assert f"… and {500 - MAX_GROUPS} more groups" in str(shown)
    assert "<!channel>" not in str(shown)
    assert "Counted over the oldest 100 incidents." in str(shown)
    assert render_fleet([], None, 30) == []
