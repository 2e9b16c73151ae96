"""Heat maps of a GPU value: bounded, a number in every cell, and safe with hostile names."""

import html
import re

import pytest

from bot.reports.charts.drawing import build_heatmap_drawing
from bot.reports.charts.heatmap import EMPTY_TEXT, MAX_COLUMNS, render_heatmap
from graph.report_charts import CHECK_METRICS, METRIC_PHRASES, find_metric
from kb.fact_keys import find_key
from tools.checks import CHECKS
from tools.fact import Fact, Status
from tools.heatmap import MAX_ROWS, Heatmap, summarize_heatmap


def heat_of(hosts: list[str], *, hot: str = "", gpus: int = 8) -> Heatmap:
    heat = Heatmap("gpu.temp.core", hosts)
    heat.add_facts(
        Fact("smi", "gpu.temp.core", 88 if host == hot and gpu == 3 else 40, f"gpu{gpu}", host=host)
        for host in hosts
        for gpu in range(gpus)
    )
    return heat


def texts(svg: bytes) -> list[str]:
    return [html.unescape(words) for words in re.findall(r"<text [^>]*>(.*?)</text>", svg.decode())]


def test_the_hosts_that_stand_out_are_shown_and_the_others_counted() -> None:
    hosts = [f"gpu-{n:03}" for n in range(1, 61)]
    heat = heat_of(hosts, hot="gpu-055")
    assert (len(heat.list_outlier_hosts()), "gpu-055" in heat.list_outlier_hosts()) == (MAX_ROWS, True)
    assert summarize_heatmap(heat) == "core temperature of 60 hosts: 40 to 88 C, median 40; gpu-055/gpu3 with 88 stands out most"


def temperatures(*degrees: float, key: str = "gpu.temp.core") -> str:
    heat = Heatmap(key, ["n1"])
    heat.add_facts(Fact("smi", key, value, f"gpu{gpu}", host="n1") for gpu, value in enumerate(degrees))
    return summarize_heatmap(heat).rpartition("; ")[2]


def test_where_all_are_well_none_stands_out_and_the_coolest_never_does() -> None:
    assert temperatures(31, 34, 33, 35, 34, 36, 33, 34) == "none stands out"
    assert temperatures(20, 60, 61, 62, 60, 61, 59, 60) == "none stands out"
    assert temperatures(20, 60, 61, 62, 60, 61, 59, 79) == "n1/gpu7 with 79 stands out most"
    assert temperatures(0, 0, 0, 1, key="gpu.ecc.dram_uncorrectable_total") == "n1/gpu3 with 1 stands out most"
    assert temperatures(1980, 1980, 1980, 1200, key="gpu.clock.sm") == "n1/gpu3 with 1200 stands out most"


@pytest.mark.parametrize("printed", [10**400, float("inf"), float("nan"), -1e308])
def test_what_no_scale_holds_is_not_known(printed: float) -> None:
    heat = heat_of(["n1", "n2"], gpus=1)
    heat.add_facts([Fact("smi", "gpu.temp.core", printed, "gpu1", host="n1")])
    assert (heat.columns, heat.compute_spread()) == (["gpu0"], (40.0, 40.0, 40.0))


def test_every_cell_says_its_number_and_what_is_not_known_is_a_question_mark() -> None:
    heat = heat_of(["n1", "n2"], hot="n2", gpus=4)
    heat.add_facts(
        [Fact("smi", "gpu.temp.core", 41, "gpu4", host="n1"), Fact("smi", "gpu.temp.core", None, "gpu4", host="n2", status=Status.TIMEOUT)]
    )
    drawn = texts(render_heatmap(heat, "svg"))
    assert drawn.count("40") >= 7
    assert {"41", "88", "?", "n1", "gpu4"} <= set(drawn)


def test_pairs_of_hosts_are_a_matrix_of_the_hosts_that_may_be_seen() -> None:
    heat = Heatmap("nccl.pair_busbw", ["a", "b"])
    heat.add_facts([Fact("nccl2", "nccl.pair_busbw", 88.0, host="a", attrs={"with": ["b", "theirs"]})])
    assert heat.columns == ["b"]
    assert heat.get_row("b") == [None]


@pytest.mark.parametrize("name", ["$x_{1}$ \\frac{", "h" * 400, "<script>\u202e", "🔥", ""])
def test_no_name_breaks_a_picture(name: str) -> None:
    assert render_heatmap(heat_of([name], gpus=1)).startswith(b"\x89PNG")


def test_a_matrix_of_many_is_bounded() -> None:
    hosts = [f"n{n}" for n in range(50)]
    heat = Heatmap("nccl.pair_busbw", hosts)
    heat.add_facts(Fact("nccl2", "nccl.pair_busbw", 1.0, host="n0", attrs={"with": hosts[1:]}) for _ in range(1))
    assert len(heat.columns) > MAX_COLUMNS
    assert "n45" not in texts(render_heatmap(heat, "svg"))


@pytest.mark.parametrize(
    ("text", "check", "key"),
    [
        ("show the temperatures as a heatmap", "smi", "gpu.temp.core"),
        ("plot gpu clocks of gpu-[001-004]", "smi", "gpu.clock.sm"),
        ("heat map please", "", "gpu.temp.core"),
        ("gpu power as a heat map", "", "gpu.power.draw"),
        ("memory temps as a picture", "smi", "gpu.temp.memory"),
        ("nccl matrix as a picture", "nccl2", "nccl.pair_busbw"),
        ("nvidia-smi as a picture", "smi", "gpu.temp.core"),
        ("the ecc errors in the kernel log as a picture", "dmesg", ""),
        ("that as a picture", "", ""),
    ],
)
def test_which_number_is_meant(text: str, check: str, key: str) -> None:
    assert find_metric(text, check) == key


def test_every_number_is_one_that_a_check_reads() -> None:
    read = {key for check in CHECKS.values() for key in check.establishes}
    for key in {key for key, _ in METRIC_PHRASES} | set(CHECK_METRICS.values()):
        row = find_key(key)
        assert row is not None
        assert row.kind in ("int", "float")
        assert key in read
    assert CHECK_METRICS.keys() <= CHECKS.keys()


def test_of_nothing_a_sentence_is_drawn_and_said() -> None:
    nothing = Heatmap("gpu.temp.core", ["n1"])
    assert texts(render_heatmap(nothing, "svg")) == ["core temperature", EMPTY_TEXT]
    assert f'aria-label="{EMPTY_TEXT}"' in render_heatmap(nothing, "svg").decode()
    assert build_heatmap_drawing(nothing).words == EMPTY_TEXT


def test_a_heat_map_of_nothing_more_is_of_the_number_that_decided() -> None:
    assert find_metric("heat map please", "", "nvlink.speed") == "nvlink.speed"
    assert find_metric("heat map of the clocks", "", "nvlink.speed") == "gpu.clock.sm"
