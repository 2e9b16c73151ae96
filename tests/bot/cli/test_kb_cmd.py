"""`rackmedic kb`: search, show, list and count knowledge, and check a site's folder before it is used."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.terminal import rackmedic

INCIDENT = """incidents:
  - id: own-fan
    title: Node of rack r7 throttles in the afternoon
    description: Between 14:00 and 16:00 all GPUs of a node lose clocks while the inlet is warm.
    label: GPU.THERMAL.HW_Thermal_Slowdown
    root_cause: The door fan of the rack was set to night mode.
    resolution: Fan curve mended.
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    for part in ("incidents", "pages"):
        (tmp_path / part).mkdir()
    (tmp_path / "incidents" / "own.yaml").write_text(INCIDENT)
    (tmp_path / "pages" / "r7.md").write_text("# mlx5_1 is the control plane\nOn rack r7 it carries no training traffic.\n")
    return tmp_path


def asked(own: Path, *words: str) -> Any:
    ran = rackmedic("kb", *words, "--json", environ={"RACKMEDIC_KB_DIR": str(own)})
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_search_finds_what_came_with_us_and_what_is_ours(own: Path) -> None:
    rows = asked(own, "search", "all GPUs of the node throttle every afternoon in rack r7")["items"]
    assert (rows[0]["id"], rows[0]["kind"], rows[0]["label"]) == ("own-fan", "incident", "GPU.THERMAL.HW_Thermal_Slowdown")
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert asked(own, "search", "is mlx5_1 the control plane")["items"][0]["id"] == "r7"


def test_nothing_alike_is_exit_1_and_said(own: Path) -> None:
    ran = rackmedic("kb", "search", "zebra umbrella", environ={"RACKMEDIC_KB_DIR": str(own)})
    assert (ran.returncode, "Nothing is known" in ran.stdout) == (1, True)


def test_show_list_and_stats_tell_whose_it_is(own: Path) -> None:
    assert asked(own, "show", "own-fan")["items"][0]["ours"] is True
    assert {row["id"] for row in asked(own, "list", "--own")["items"]} == {"own-fan", "r7"}
    assert {row["kind"] for row in asked(own, "list", "--kind", "leaf", "--label", "GPU.BUS")["items"]} == {"leaf"}
    counted = asked(own, "stats")
    assert (counted["pages"], counted["own"]) == (1, 2)
    assert counted["leaves"] == sum(counted["leaves_by_category"].values())


def test_a_name_that_is_nothing_is_refused_with_what_is_near(own: Path) -> None:
    ran = rackmedic("kb", "show", "own-fam", environ={"RACKMEDIC_KB_DIR": str(own)})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "near it: own-fan" in ran.stderr


def test_lint_tells_everything_that_is_wrong_in_every_part(own: Path) -> None:
    assert asked(own, "lint")["problems"] == []
    (own / "incidents" / "bad.yaml").write_text(
        INCIDENT.replace("own-fan", "own-fan2").replace("GPU.THERMAL.HW_Thermal_Slowdown", "GPU.NO.Such")
    )
    (own / "pages" / "bad.md").write_text("---\nlabels: GPU.NO.Such\n---\nwords\n")
    ran = rackmedic("kb", "lint", str(own))
    assert ran.returncode == 1
    assert "bad.yaml:" in ran.stdout
    assert "bad.md:2: unknown label GPU.NO.Such" in ran.stdout
    assert "Traceback" not in ran.stderr


def test_a_broken_folder_stops_its_users_and_names_the_setting(own: Path) -> None:
    (own / "incidents" / "bad.yaml").write_text("incidents: 7\n")
    ran = rackmedic("classify", "it hangs", environ={"RACKMEDIC_KB_DIR": str(own)})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "RACKMEDIC_KB_DIR: the past incidents cannot be used:" in ran.stderr


RULE = """rules:
  - id: lease_lost
    log: job
    pattern: 'fabd: lease (\\d{1,9}) lost'
    says: the fabric daemon lost its lease
    examples: ["fabd: lease 7 lost"]
"""


def test_a_rule_is_checked_tried_on_a_log_and_known_from_then_on(own: Path) -> None:
    (own / "rules").mkdir()
    (own / "rules" / "ours.yaml").write_text(RULE)
    assert "rules" in asked(own, "lint")["parts"]
    environ = {"RACKMEDIC_KB_DIR": str(own)}
    ran = rackmedic("parse", "joblog", stdin="[rank3]: fabd: lease 4711 lost on n5\n", environ=environ)
    row = next(row for row in map(json.loads, ran.stdout.splitlines()) if row["key"] == "site.log.lease_lost")
    assert (row["value"], row["attrs"]["rank"]) == ("4711", "3")
    (own / "rules" / "bad.yaml").write_text(RULE.replace("lost'", "(lost)*.*.*'").replace("lease_lost", "other"))
    ran = rackmedic("kb", "lint", str(own))
    assert ran.returncode == 1
    assert ran.stdout.count("bad.yaml:4:") == 1
