"""`rackmedic explain`: the reasoning of a diagnosis as tree, JSON or picture, verified on request."""

import json
from pathlib import Path

import pytest

from bot.cli.explain import ExplainRequest, explain_incident
from bot.refusal import Refusal
from bot.reports.charts.provenance import MAX_STEPS, render_provenance_chart
from bot.settings import load_settings
from graph.provenance.invariants import INVARIANTS
from graph.provenance.reason_graph import ReasonEdge, ReasonGraph, ReasonNode

pytestmark = pytest.mark.slow


CASE = Path(__file__).parents[2] / "bench" / "cases" / "easy-3.yaml"


async def explained(tmp_path: Path, **asked: object) -> int:
    return await explain_incident(load_settings(None, {"RACKMEDIC_DATA_DIR": str(tmp_path)}), ExplainRequest("", CASE, **asked))  # type: ignore[arg-type]  # its options


async def test_a_case_is_diagnosed_and_explained_and_every_contract_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await explained(tmp_path, verify=True) == 0
    said = capsys.readouterr().out
    assert said.startswith("✓ ")
    assert "proof: " in said
    assert f"{len(INVARIANTS)} contracts hold." in said


async def test_scripts_get_nodes_edges_and_what_was_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await explained(tmp_path, verify=True, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["outcome"]) == (1, "diagnosed")
    assert found["verified"] == {"held": len(INVARIANTS), "broken": [], "unchecked": []}
    names = {node["id"] for node in found["nodes"]}
    assert {edge["source"] for edge in found["edges"]} | {edge["target"] for edge in found["edges"]} <= names


async def test_it_is_drawn_into_a_file(tmp_path: Path) -> None:
    out = tmp_path / "why.svg"
    await explained(tmp_path, svg=out)
    assert out.read_text().startswith("<svg")


async def test_a_file_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"--svg .*nowhere"):
        await explained(tmp_path, svg=tmp_path / "nowhere" / "why.svg")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"incident": ""}, "name an incident"),
        ({"incident": "inc-1", "case": CASE}, "name an incident"),
        ({"incident": "inc-1", "svg": Path("a.svg"), "as_json": True}, "choose one"),
        ({"incident": "", "case": Path("none.yaml")}, "no such file"),
    ],
)
def test_a_slip_is_refused_at_once(typed: dict[str, object], says: str) -> None:
    with pytest.raises(Refusal, match=says):
        ExplainRequest(**typed)  # type: ignore[arg-type]  # invalid input


async def test_without_the_redis_of_serve_it_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="RACKMEDIC_REDIS_URL"):
        await explain_incident(load_settings(None, {"RACKMEDIC_REDIS_URL": "redis://127.0.0.1:1/0"}), ExplainRequest("inc-1a2b3c"))


def test_a_picture_of_hostile_words_and_of_hundreds_of_steps_is_bounded() -> None:
    hostile = ReasonNode("p:1", "proposition", "x", label="GPU.<script>", verdict="confirmed", hosts=("n1",))
    steps = tuple(ReasonNode(f"v:{n}", "verification", "<b>&\u202e" * 200, host="n1", check="smi") for n in range(300))
    graph = ReasonGraph("inc-1", "i", "diagnosed", "c", (hostile, *steps), tuple(ReasonEdge(row.id, "p:1", "supports") for row in steps))
    drawn = render_provenance_chart(graph, {}).decode()
    assert "<script>" not in drawn
    assert drawn.count("<rect") < 3 * MAX_STEPS
    assert len(drawn) < 20_000
