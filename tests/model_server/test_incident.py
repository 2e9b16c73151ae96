"""One whole incident on the simulated cluster with a model that understands next to nothing: it ends as it would, and nothing that was said ran."""

from langgraph.checkpoint.memory import InMemorySaver

from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.grammar import SITE_SERVICES
from graph.context import GraphContext
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.model.budget import Budget
from graph.model.client import ModelReasoner
from graph.model.endpoint import EndpointFailure, OpenAIEndpoint
from graph.state import InboxItem, IncidentCosts
from kb.history.index import PastIncidentIndex
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import SetClock
from tests.support.fakes_cluster import cluster, profiles
from tests.support.inventories import inventory
from tests.support.model_server import LONG, MODEL, RealModel
from tests.support.shaped_answers import Shaped, terse
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fleet.fleet import Fleet

pytest_plugins = ("tests.support.fixtures_model_server",)

MOST_CALLS, MOST_OUT = 2, 300
CONTEXT = 4_000
"""Tokens: half its window, which is half the time."""
UNSEEN = "O07@gpu-017"
"""An error that no leaf knows, so that a model is asked all that there is to ask."""


async def test_whatever_a_weak_model_says_the_incident_ends_and_nothing_of_it_runs(real_model: RealModel) -> None:
    rack = cluster(UNSEEN, nodes=["gpu-017", "gpu-018"])
    before, clock, evidence = rack.state_hash(), SetClock(rack.t0), MemoryEvidence()
    site = inventory(defaults={"kit": True, **SITE_SERVICES}, groups={"g": {"hosts": "gpu-[017-018]"}}, channels=[])
    endpoint = Shaped(OpenAIEndpoint(real_model.url, "", MODEL, seconds=LONG, max_output_tokens=MOST_OUT), terse)
    model = ModelReasoner(endpoint, budget=Budget(calls=MOST_CALLS), context=CONTEXT)
    fleet = Fleet(InProcessTransport(rack), site, CHECKS, evidence, clock, profiles())
    ports = GraphContext(fleet, site, load_taxonomy(), PastIncidentIndex(), evidence, clock, skus=profiles(), model=model)
    graph = build_incident_graph(InMemorySaver())

    report = await run_turn(
        graph, ports, InboxItem(id="1", kind="mention", incident="inc-1", at=rack.t0, text="job on gpu-[017-018] fails")
    )
    await model.aclose()

    print(report.outcome, "|", report.headline, "|", report.without_model, "|", [answer for _, answer in endpoint.answers])
    assert report.outcome in ("diagnosed", "abstained")
    assert all(cause.evidence for cause in report.root_causes), "what a model says confirms nothing"
    assert (rack.unsafe_commands, rack.state_hash()) == ([], before), (
        "hosts were asked what stands in the catalogue, and changed by nothing"
    )
    assert not any("window" in answer.why for _, answer in endpoint.answers if isinstance(answer, EndpointFailure)), (
        "questions keep to the setting"
    )
    snapshot = await graph.aget_state({"configurable": {"thread_id": "inc-1"}})
    stats = IncidentCosts.model_validate(snapshot.values["stats"])
    spent = model.get_spend("inc-1")
    assert (stats.model_calls, stats.tokens_in, stats.tokens_out) == (spent.calls, spent.tokens_in, spent.tokens_out)
    assert 1 <= stats.model_calls == len(endpoint.answers) <= MOST_CALLS
