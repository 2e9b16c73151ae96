"""`rackmedic guides`, a site's own guides, and a guide started in a thread."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.terminal import rackmedic

pytestmark = pytest.mark.slow


OWN = """
guides:
  - id: our_riser
    title: The riser of the old chassis
    words: [old chassis]
    steps:
      - {id: bus, look: [lspci]}
      - {id: press, ask: Press the riser home.}
"""


def site(folder: Path, text: str = OWN) -> dict[str, str]:
    (folder / "guides").mkdir()
    (folder / "guides" / "riser.yaml").write_text(text)
    return {"RACKMEDIC_KB_DIR": str(folder)}


def test_all_guides_are_listed_with_the_sites_own_and_one_is_shown_whole(tmp_path: Path) -> None:
    environ = site(tmp_path)
    ran = rackmedic("guides", "--json", environ=environ)
    assert [row["id"] for row in json.loads(ran.stdout)["items"]] == [
        "gpu_lost",
        "nccl_hang",
        "new_node",
        "node_drained",
        "slow_job",
        "our_riser",
    ]
    shown = rackmedic("guides", "the GPU lost guide", environ=environ).stdout
    for words in ("look: smi, lspci; at once", "only if there is no smi.error", "proposed for approval where a proven cause needs it"):
        assert words in shown
    (row,) = json.loads(rackmedic("guides", "our_riser", "--json", environ=environ).stdout)["items"]
    assert [(step["id"], step["kind"], step["after"]) for step in row["steps"]] == [("bus", "look", []), ("press", "ask", ["bus"])]
    none = rackmedic("guides", "tea", environ=environ)
    assert (none.returncode, "There is no guide tea; there are gpu_lost" in none.stderr) == (1, True)


def test_a_guide_that_does_not_fit_stops_every_command_that_would_use_it_and_lint_says_where(tmp_path: Path) -> None:
    environ = site(tmp_path, OWN.replace("lspci", "lspcy"))
    place = f"{tmp_path / 'guides' / 'riser.yaml'}:7: our_riser.bus: unknown check lspcy"
    refused = rackmedic("guides", environ=environ)
    assert (refused.returncode, place in refused.stderr) == (2, True)
    linted = rackmedic("kb", "lint", str(tmp_path), "--json")
    assert (linted.returncode, json.loads(linted.stdout)["problems"]) == (1, [place])


CASE = {
    "nodes": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"],
    "faults": [{"id": "G07", "node": "gpu-003", "gpu": 5, "t": -420}],
    "ticket": {"text": "job 4711 hangs on gpu-[001-004]"},
}


@pytest.mark.parametrize("call", ["run guide gpu_lost", "please run the GPU lost guide on gpu-003"])
def test_a_guide_called_in_a_thread_tells_its_steps(tmp_path: Path, call: str) -> None:
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(CASE))
    (tmp_path / "replies.yaml").write_text(yaml.safe_dump([{"after": "concluded", "by": "ana", "text": call}]))
    ran = rackmedic("diagnose", "--sandbox", str(tmp_path / "case.yaml"), "--replies", str(tmp_path / "replies.yaml"), "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    (reply,) = told["replies"]
    assert reply["intent"] == "run_guide"
    assert "✓ Count the GPUs of the driver and of the bus: gpu-003: nvidia-smi says that gpu5 is lost, and 2 more" in reply["answer"]
    assert "⏳ Drain the node: gpu-003: its card is waiting for approval" in reply["answer"]
    assert reply["ran"]
    assert told["guide"] is None, "the diagnosis before it proved a cause"
