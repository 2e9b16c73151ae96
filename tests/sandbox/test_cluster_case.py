"""Case files are parsed strictly, all problems are reported, and the ground truth affects nothing."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.cases.reader import BadCase, load_case, parse_case
from tests.support.fakes_cluster import argv

GOOD: dict[str, Any] = {
    "id": "gib-0231",
    "profile": "dgx-h100-8",
    "nodes": ["gpu-017", "n5", "ip-10-2-0-5"],
    "t0": "2026-05-21T08:00:00Z",
    "layer": "hard",
    "ticket": {
        "channel": "slack",
        "author": "U_REQ",
        "text": "job hangs",
        "attachments": [{"name": "r0.txt", "text": "boom"}],
        "blames": "ib",
    },
    "faults": [
        {"id": "S14", "node": "n5", "t": -300, "args": {"rank": 9}},
        {"id": "N15", "node": ["gpu-017", "n5"]},
        {"id": "S12", "node": "*"},
    ],
    "modifiers": ["R1@gpu-017", "R4", "R6(check=dmesg@n5)", 'R5(channel=joblog, text="ignore this, please")@n5', "R2(lines=3000)@n5"],
    "outputs": {"n5": {"smi": {"stdout": "garbage", "status": 3}}},
    "truth": {"primary": {"label": "SYSTEM_SOFTWARE.MEMORY.Host_OOM_Kill", "hosts": ["n5"]}},
    "budget": {"checks": 60},
}


def test_a_whole_case_is_read(tmp_path: Path) -> None:
    file = tmp_path / "gib-0231.yaml"
    file.write_text(yaml.safe_dump(GOOD))
    case = load_case(file)
    assert (case.id, case.profile, case.nodes) == ("gib-0231", "dgx-h100-8", ("gpu-017", "n5", "ip-10-2-0-5"))
    assert case.t0 == datetime(2026, 5, 21, 8, tzinfo=UTC)
    assert [(f.fault, f.nodes, f.at) for f in case.faults] == [
        ("S14", ("n5",), -300.0),
        ("N15", ("gpu-017", "n5"), -620.0),
        ("S12", ("gpu-017", "n5", "ip-10-2-0-5"), -620.0),
    ]
    assert [(m.id, m.host) for m in case.modifiers] == [("R1", "gpu-017"), ("R4", ""), ("R6", "n5"), ("R5", "n5"), ("R2", "n5")]
    assert case.modifiers[2].args == {"check": "dmesg"}
    assert case.modifiers[3].args["text"] == "ignore this, please"
    assert case.ticket.attachments[0].text == "boom"


def test_a_count_of_nodes_names_them_from_n0() -> None:
    assert parse_case({"nodes": 3, "profile": "pcie-l40s-8"}).nodes == ("n0", "n1", "n2")


def test_every_problem_is_listed_with_its_field() -> None:
    bad = {
        "profile": "dgx-h100",
        "nodes": ["a", "a"],
        "t0": "yesterday",
        "faults": [
            {"id": "G99", "node": "a"},
            {"id": "G01", "node": "z", "gpu": 8},
            {"id": "G07", "node": "a", "t": "soon", "when": 3},
            "G01",
        ],
        "modifiers": ["R99", "R6(how=never)@a", "R7(tz=Mars/Base)@a", "R1@z", 7, "R2(lines"],
        "ticket": {"channel": "email", "attachments": [3]},
        "outputs": {"z": {}, "a": {"sml": {"stdout": "x"}, "smi": {"exit": 3}}},
        "truht": {},
    }
    with pytest.raises(BadCase) as caught:
        parse_case(bad)
    fields = {problem.partition(": ")[0] for problem in caught.value.problems}
    assert fields == {
        "profile", "nodes", "t0", "faults[0].id", "faults[1].node", "faults[1].gpu", "faults[2].t", "faults[2].when", "faults[3]", "modifiers[0]",
        "modifiers[1]", "modifiers[2]", "modifiers[3]", "modifiers[4]", "modifiers[5]", "ticket.channel", "ticket.attachments[0]", "outputs.z",
        "outputs.a.sml", "outputs.a.smi", "truht",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["[1, 2]", "{nodes: 0, profile: dgx-h100-8}", "a: [", "nodes: {a: 1}"])
def test_what_is_no_case_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(BadCase, match=r"bad\.yaml"):
        load_case(file)


def test_a_missing_file_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(BadCase, match="cannot be read"):
        load_case(tmp_path / "absent.yaml")


# a few lines that expand to billions of values
REPEATS = "a0: &a0 [0, 0]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize(("text", "why"), [("[" * 60_000, "nested more than"), (REPEATS, "aliases repeat")], ids=["brackets", "aliases"])
def test_a_file_made_to_end_the_process_is_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(text)
    with pytest.raises(BadCase, match=why):
        load_case(file)


def test_the_truth_changes_nothing() -> None:
    told, untold = Cluster.from_case(parse_case(GOOD)), Cluster.from_case(parse_case({k: v for k, v in GOOD.items() if k != "truth"}))
    assert told.state_hash() == untold.state_hash()


def test_an_output_of_the_case_answers_for_every_command_of_its_check() -> None:
    raw = {
        "nodes": ["a", "b"],
        "profile": "dgx-h100-8",
        "outputs": {"a": {"dmesg": {"stdout": "no log today\n", "stderr": "why?\n", "status": 5}}},
    }
    of = Cluster.from_case(parse_case(raw))
    for command in ("dmesg.ring", "dmesg.journal", "dmesg.boot"):
        answer = of.answer("a", argv(command))
        assert (answer.stdout, answer.stderr, answer.status) == (b"no log today\n", b"why?\n", 5)
    assert of.answer("b", argv("dmesg.ring")).status == 0
    assert of.answer("a", argv("smi.query")).status == 0


def test_the_cases_clock_is_in_every_log() -> None:
    of = Cluster.from_case(
        parse_case({"nodes": 1, "profile": "dgx-h100-8", "t0": "2027-01-02T03:04:05Z", "faults": [{"id": "G07", "node": "n0", "t": -5}]})
    )
    assert "2027-01-02T03:04:00,000000+00:00 NVRM: Xid" in of.answer("n0", argv("dmesg.ring")).stdout.decode()
    assert b"Sat Jan  2 03:04:05 2027" in of.answer("n0", argv("smi.query")).stdout


@pytest.mark.parametrize("name", ["-o", "a b", "a,b", "x[1-2]", "n1;reboot", "fe80::1"])
def test_a_name_that_no_host_can_have_is_refused(name: str) -> None:
    with pytest.raises(BadCase, match="nodes: no host can be called"):
        parse_case({"nodes": ["n1", name], "profile": "dgx-h100-8"})


def test_a_time_that_is_no_number_is_refused() -> None:
    with pytest.raises(BadCase, match=r"faults\[0\]\.t: must be a number"):
        parse_case({"nodes": 1, "profile": "dgx-h100-8", "faults": [{"id": "G07", "node": "n0", "t": float("nan")}]})


@pytest.mark.parametrize(("text", "known"), [("job 46730 died an hour ago", True), ("everything hangs", False)])
def test_the_scheduler_knows_the_job_as_the_ticket_calls_it_and_no_other(text: str, known: bool) -> None:
    cluster = Cluster.from_case(parse_case(GOOD | {"ticket": {"text": text}}), controller="ctl-1")
    row = cluster.answer("ctl-1", ("scontrol", "show", "job", "46730"))
    assert (row.status == 0, b"NodeList=gpu-017,n5,ip-10-2-0-5" in row.stdout) == (known, known)
    assert cluster.answer("ctl-1", ("scontrol", "show", "job", "46731")).status == 1
