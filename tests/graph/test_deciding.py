"""A report includes the heat map of the deciding value if an accused host stands out in it."""

from time import process_time

import pytest

from bot.reports.charts.drawing import build_heatmap_drawing
from graph.report import AttachedChart
from graph.report_charts import iter_deciding_heatmaps, select_report_charts
from graph.state import Evidence, Hypothesis
from tests.support.talk import Talk
from tools.fact import Fact

pytestmark = pytest.mark.slow


KEY = "gpu.temp.core"


def cause(*hosts: str, key: str = KEY) -> Hypothesis:
    line = Evidence(host=hosts[0], check="smi", key=key, line="88 C")
    return Hypothesis(label="GPU.THERMAL.HW_Thermal_Slowdown", verdict="confirmed", hosts=hosts, evidence=(line,))


def temperatures(hosts: int, hot: str = "", gpus: int = 8) -> list[Fact]:
    names = [f"gpu-{n:03}" for n in range(1, hosts + 1)]
    return [
        Fact("smi", KEY, 88 if (name, gpu) == (hot, 3) else 40 + gpu % 2, f"gpu{gpu}", host=name)
        for name in names
        for gpu in range(gpus)
    ]  # fmt: skip


def test_it_is_of_all_hosts_that_were_read() -> None:
    [shown] = select_report_charts([cause("gpu-003")], temperatures(4, "gpu-003"))
    assert (shown.kind, shown.key, len(shown.hosts), shown.asked) == ("heat", KEY, 4, False)


@pytest.mark.parametrize(
    ("causes", "facts"),
    [
        ([], temperatures(4, "gpu-003")),
        ([cause("gpu-003")], []),
        ([cause("gpu-003")], temperatures(4)),
        ([cause("gpu-003")], temperatures(1, "gpu-003", gpus=2)),
        ([cause("gpu-002")], temperatures(4, "gpu-003")),
        ([cause("gpu-003", key="kernel.xid")], temperatures(4, "gpu-003")),
        ([cause("gpu-003", key="no.such.key")], temperatures(4, "gpu-003")),
    ],
    ids=["no cause", "no facts", "none stands out", "two values", "another stands out", "no number of a GPU", "no key"],
)
def test_where_it_would_tell_nothing_there_is_none(causes: list[Hypothesis], facts: list[Fact]) -> None:
    assert select_report_charts(causes, facts) == ()


def test_many_causes_are_still_one_picture() -> None:
    causes = [cause("gpu-003"), cause("gpu-003", key="gpu.power.draw"), cause("gpu-003")]
    powers = [Fact("smi", "gpu.power.draw", 90 if gpu == 3 else 600, f"gpu{gpu}", host="gpu-003") for gpu in range(8)]
    assert len(select_report_charts(causes, [*temperatures(4, "gpu-003"), *powers])) == 1


def test_of_the_largest_cluster_it_is_chosen_and_drawn_in_time_and_small() -> None:
    facts = temperatures(128, "gpu-077")
    times: list[float] = []
    while len(times) < 4 and min(times, default=1) >= 1:
        began = process_time()
        [_] = select_report_charts([cause("gpu-077")], facts)
        [heat] = iter_deciding_heatmaps([cause("gpu-077")], facts)
        drawing = build_heatmap_drawing(heat)
        png = drawing.draw("png")
        times.append(process_time() - began)
    assert min(times) < 1
    assert (len(png) < 200_000, len(drawing.cells), "gpu-077/gpu3 with 88 stands out" in drawing.words) == (True, 129, True)


@pytest.mark.parametrize(("fault", "key"), [("G15", KEY), ("G09", "pcie.width"), ("G18", "gpu.power.limit"), ("G07", "")])
async def test_a_diagnosis_brings_it_by_itself(fault: str, key: str) -> None:
    rows = await (await Talk.about({"id": fault, "node": "gpu-003", "gpu": 5, "t": -420})).rows()
    shown = rows.report.pictures if rows.report else ()
    names = tuple(f"gpu-{n:03}" for n in range(1, 5))
    assert shown == ((AttachedChart(key=key, hosts=names, asked=False),) if key else ())
