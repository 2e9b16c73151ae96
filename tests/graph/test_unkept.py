"""Evidence that cannot be stored does not change the diagnosis and is reported once."""

from bot.incidents.cards import diagnosis, incident_card
from bot.incidents.cards.incident_card import IncidentCardView
from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.context import GraphContext
from graph.state import InboxItem
from kb.history.incidents import load_seeds
from kb.history.index import PastIncidentIndex
from kb.taxonomy.loader import load_taxonomy
from tests.support.talk import FAULT, Talk, case_of
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fleet.fleet import Fleet
from tools.inventory.sku import load_skus


class FullDisk(MemoryEvidence):
    """A store that holds evidence in memory and writes nothing."""

    def get_trouble(self) -> str:
        return "no space left on device"


async def test_a_full_disk_is_said_once_and_the_cause_is_found_all_the_same() -> None:
    stage, evidence, skus = build_case_run(case_of(FAULT), controller="slurm-controller"), FullDisk(), load_skus()
    fleet = Fleet(stage.transport, stage.inventory, CHECKS, evidence, stage.clock, skus)
    talk = Talk(
        stage, GraphContext(fleet, stage.inventory, load_taxonomy(), PastIncidentIndex(load_seeds()), evidence, stage.clock, skus=skus)
    )
    report = await talk._turn(InboxItem(id="first", kind="mention", incident="inc-1", at=stage.clock.now(), user="U1", text=stage.text))
    assert report.outcome == "diagnosed"
    assert report.unkept == "no space left on device"
    shown = str(incident_card.render_incident_card(IncidentCardView("inc-1", report)).blocks)
    assert shown.count(diagnosis.NOT_KEPT_TEXT) == 1
    assert await talk.says("what did you find?")
    answer = (await talk.rows()).report
    assert answer is not None
    assert diagnosis.NOT_KEPT_TEXT not in str(diagnosis.render_diagnosis("inc-1", answer).blocks)
