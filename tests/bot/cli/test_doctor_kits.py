"""`doctor` on node kits (which hosts can run remedies and why others cannot, folded) and on channels."""

from bot.cli.doctor.hosts import build_kit_findings
from bot.cli.doctor.integrations import build_channel_finding
from tools.execution.kit import KitState, get_current_kit_version
from tools.inventory.inventory import ChannelRow


def test_hosts_are_folded_by_what_is_wrong_with_their_kit() -> None:
    states = [
        *[KitState("current", get_current_kit_version())] * 2,
        *[KitState("older", "0123456789ab")] * 2,
        KitState("missing", says="sudo: a password is required"),
        KitState("unknown", says="no answer"),
    ]
    rows = build_kit_findings([f"gpu-{n:03d}" for n in range(1, 7)], states)
    assert [(row.state, row.says) for row in rows] == [
        ("ok", f"2 of 6 hosts have it, version {get_current_kit_version()}"),
        ("fail", "gpu-005: not usable (sudo: a password is required), though the inventory says `kit: true`"),
        ("fail", f"gpu-[003-004]: version 0123456789ab, not {get_current_kit_version()}: remedies and newer checks are refused there"),
        ("fail", "gpu-006: could not be asked (no answer)"),
    ]
    assert [bool(row.mend) for row in rows] == [False, True, True, True]


def test_without_a_kit_anywhere_nothing_is_said() -> None:
    assert build_kit_findings([], []) == []


def test_each_channel_is_shown_as_it_is_bound() -> None:
    rows = [
        ChannelRow(channel="C1", name="gpu-incidents", groups=("train",)),
        ChannelRow(channel="C2", mention_only=True),
        ChannelRow(channel="C3", kind="tenant", tenant="acme", internal="C1"),
    ]
    assert [build_channel_finding(row).says for row in rows] == [
        "gpu-incidents: operators, groups train, answers what it is plainly asked in its threads",
        "C2: operators, all hosts, answers mentions only",
        "C3: customer acme, all of its hosts, answers what it is plainly asked in its threads",
    ]
