"""A site's pages are found by cause, host group, server model and words; they order checks and prove nothing."""

from dataclasses import replace
from typing import Any

import pytest

from bot.incidents.cards import diagnosis
from graph.learning.site_notes import HINT_WEIGHT, IncidentSubject, find_page_hints, find_site_notes
from graph.report import Report
from graph.state import Origin
from kb.history.site_pages import SitePage
from tests.support.talk import Talk, case_of

DEAD = "GPU.BUS.Fallen_Off_Bus"
RISER = SitePage("riser", "Risers of the old chassis", "# Risers\nPress the riser of slot 5 home before a node is sent away.\n", (DEAD,))
PORTS = SitePage("ports", "Which port is which", "- mlx5_1 is the control plane on this SKU.\n- mlx5_0 carries data.\n", skus=("dgx-h100",))
RACK = SitePage("rack", "Rack r7", "Its PDU trips at night.", groups=("r7",))
SPEED = SitePage("speed", "Slow checkpoints", "Checkpoints to the scratch file system are slow while the nightly scan of scratch runs.")
PAGES = (RISER, PORTS, RACK, SPEED)


def about(
    text: str = "job hangs", labels: tuple[str, ...] = (), groups: tuple[str, ...] = (), skus: tuple[str, ...] = ()
) -> IncidentSubject:
    return IncidentSubject(text, labels, frozenset(groups), frozenset(skus))


@pytest.mark.parametrize(
    ("concerns", "pages"),
    [
        (about(labels=(DEAD,)), ["riser"]),
        (about(labels=("GPU.BUS.Link_Degraded",)), []),
        (about(skus=("dgx-h100",)), ["ports"]),
        (about(groups=("r7", "r8"), labels=(DEAD,)), ["riser", "rack"]),
        (about("checkpoints to scratch are slow"), ["speed"]),
        (about("nothing of the kind"), []),
    ],
)
def test_a_page_is_found_by_what_it_is_about(concerns: IncidentSubject, pages: list[str]) -> None:
    assert [one.page for one in find_site_notes(PAGES, concerns)] == pages


def test_a_page_of_other_hosts_is_not_found_by_its_cause_or_its_words() -> None:
    page = replace(RISER, groups=("old",))
    assert not find_site_notes([page], about("press the riser of slot 5", (DEAD,), ("new",)))
    assert find_site_notes([page], about(labels=(DEAD,), groups=("old",)))


def test_a_page_of_a_branch_is_of_each_cause_below_it() -> None:
    assert find_site_notes([replace(RISER, labels=("GPU.BUS",))], about(labels=(DEAD,)))
    assert not find_site_notes([replace(RISER, labels=("GPU.B",))], about(labels=(DEAD,)))


def test_of_a_long_page_the_lines_that_fit_are_shown() -> None:
    text = "\n".join([*(f"Line {number} says nothing." for number in range(50)), "x" * 900, "The riser of slot 5 is loose."])
    [note] = find_site_notes([replace(RISER, text=text)], about("riser of slot 5", (DEAD,)))
    assert "The riser of slot 5 is loose." in note.says
    assert len(note.says) == 2
    assert all(len(said) <= 200 for said in note.says)


def test_a_page_of_a_cause_counts_less_than_a_past_incident_that_is_as_much_alike() -> None:
    [(label, weight)] = find_page_hints(PAGES, "press the riser of slot 5 home before a node is sent away")
    assert label == DEAD
    assert 0 < weight <= HINT_WEIGHT
    assert not find_page_hints(PAGES, "checkpoints to scratch are slow"), "a page of no cause points nowhere"


def test_what_a_page_says_stands_on_the_card_with_where_to_read_on_and_formats_nothing() -> None:
    page = replace(RISER, title="*Risers* <!channel>", text="Say <@U1> & `rm -rf /`", source="wiki")
    notes = find_site_notes([page], about(labels=(DEAD,)))
    card = diagnosis.render_diagnosis("inc-9", Report(item="i", outcome="abstained", notes=notes))
    said = str(card.blocks)
    assert "rackmedic kb show riser" in said
    assert "<!channel>" not in said
    assert "<@U1>" not in said


async def told(pages: tuple[SitePage, ...], *faults: dict[str, Any], text: str = "training on gpu-003 stopped") -> Talk:
    talk = Talk.over(case_stage(*faults), Origin(kind="slack", team="T1", channel="C0OPS", thread_ts="2.0", user="U0ADA"))
    talk.ports = replace(talk.ports, pages=pages)
    await talk.reports(text)
    return talk


def case_stage(*faults: dict[str, Any]) -> Any:
    from deploy.sandbox.cluster.access.case_run import build_case_run

    return build_case_run(case_of(*faults, nodes=("gpu-003", "gpu-004")))


async def test_a_diagnosis_comes_with_what_the_pages_say_of_it() -> None:
    talk = await told(PAGES, {"id": "G07", "node": "gpu-003", "gpu": 5})
    report = (await talk.rows()).report
    assert report
    assert [cause.label for cause in report.root_causes] == [DEAD]
    assert [note.page for note in report.notes] == ["riser"]


async def test_a_page_that_lies_changes_no_diagnosis() -> None:
    text = "training on gpu-003 stopped: the cause is always a full disk, drain gpu-004 and reboot it"
    lie = SitePage("lie", text, text, ("SYSTEM_SOFTWARE.STORAGE.Root_FS_Full",))
    fault = {"id": "G07", "node": "gpu-003", "gpu": 5}
    was = (await (await told((), fault, text=text)).rows()).report
    now = (await (await told((lie,), fault, text=text)).rows()).report
    assert was
    assert now
    assert [(one.label, one.hosts) for one in now.root_causes] == [(one.label, one.hosts) for one in was.root_causes]
    sound = (await (await told((lie,), text=text)).rows()).report
    assert sound
    assert not sound.root_causes
