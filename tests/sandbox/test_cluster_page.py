"""The control API for the page: inspect nodes, add difficulties, export a case."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from typer.testing import CliRunner

from bot.cli.main import app
from deploy.sandbox.cluster.access.cluster import Cluster, SimulationRefusal
from deploy.sandbox.cluster.access.command_log import MAX_COMMANDS, MAX_OUTPUT_CHARS
from deploy.sandbox.cluster.access.control import ControlServer
from deploy.sandbox.cluster.answer import HANGING, text_answer
from deploy.sandbox.cluster.cases.difficulties import DIFFICULTIES
from deploy.sandbox.cluster.cases.modifier_text import read_modifier
from deploy.sandbox.cluster.cases.modifiers import MODIFIER_IDS
from deploy.sandbox.cluster.cases.reader import load_case, parse_case
from deploy.sandbox.cluster.cases.writer import format_modifier
from deploy.sandbox.cluster.plan import Modifier
from tests.bench.case_files.folder import read_case
from tests.bench.case_files.truth import read_truth
from tests.support.clock import SetClock
from tests.support.fakes_cluster import argv, facts
from tests.support.fakes_repairs import START


class Door:
    """A client of the control API."""

    def __init__(self, cluster: Cluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self._session = session

    async def get(self, path: str) -> dict[str, Any]:
        async with self._session.get(path) as reply:
            return dict(await reply.json())

    async def post(self, path: str, body: object) -> tuple[int, dict[str, Any]]:
        async with self._session.post(path, json=body) as reply:
            return reply.status, await reply.json()


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    clock = SetClock(START)
    of = Cluster.of("dgx-h100-8", nodes=["gpu-001", "gpu-002", "gpu-003"], job="4711", clock=clock.now, controller="ctl-1")
    clock.go(minutes=20)
    async with ControlServer(of) as control, aiohttp.ClientSession(control.url) as session:
        yield Door(of, session)


async def test_a_broken_node_is_inspected(door: Door) -> None:
    door.cluster.break_("G07", "gpu-002", gpu=3)
    seen = await door.get("/node?name=gpu-002")
    assert [row["title"] for row in seen["faults"]] == ["GPU fell off the bus"]
    assert [row["index"] for row in seen["gpus"] if row["state"] == "does not answer"] == [3]
    assert seen["gpus"][0]["temp"] > 20
    assert {row["name"] for row in seen["services"]} >= {"nvidia-fabricmanager", "docker"}
    assert seen["job"]["id"] == "4711"
    assert seen["commands"] == []
    assert (await door.get("/node?name=ctl-1"))["state"] == "scheduler"
    assert "there is no machine gpu-9" in (await door.get("/node?name=gpu-9"))["error"]


async def test_what_a_node_was_asked_is_there_newest_first_and_bounded(door: Door) -> None:
    log = door.cluster.command_log
    log.append("gpu-001", argv("dmesg.ring"), text_answer("x" * (MAX_OUTPUT_CHARS + 1)))
    log.append("gpu-001", ("rm", "-rf", "/"), text_answer("", 127, "bash: line 1: rm: command not found\n"))
    log.append("gpu-001", argv("smi.query"), HANGING)
    hung, refused, long = (await door.get("/node?name=gpu-001"))["commands"]
    assert (hung["asks"], hung["status"]) == ("smi.query", None)
    assert (refused["asks"], refused["line"], refused["status"]) == ("", "rm -rf /", 127)
    assert (len(long["stdout"]), long["cut"]) == (MAX_OUTPUT_CHARS, True)
    for _ in range(MAX_COMMANDS + 5):
        log.append("gpu-001", ("uptime",), text_answer("up"))
    assert len(log.list_recent("gpu-001")) == MAX_COMMANDS
    assert log.list_recent("gpu-002") == []


async def test_several_nodes_are_broken_by_a_range(door: Door) -> None:
    status, done = await door.post("/break", {"fault": "S13", "node": "gpu-[001-002]"})
    assert (status, done["made"]["nodes"]) == (200, ["gpu-001", "gpu-002"])
    assert "unbalanced" in (await door.post("/break", {"fault": "S13", "node": "gpu-[001"}))[1]["error"]
    assert "there is no node gpu-009" in (await door.post("/break", {"fault": "S13", "node": "gpu-009"}))[1]["error"]


async def test_an_incident_is_made_hard_and_easy_again(door: Door) -> None:
    before = door.cluster.state_hash()
    status, done = await door.post("/modify", {"modifiers": ["R2(lines=500)@gpu-001", "R3(gpu=2)@gpu-003"]})
    assert (status, done["state"]["modifiers"]) == (200, ["R2(lines=500)@gpu-001", "R3(gpu=2)@gpu-003"])
    assert door.cluster.answer("gpu-001", argv("dmesg.ring")).stdout.count(b"ACCESS_REG") >= 500
    assert "there is no modifier R77" in (await door.post("/modify", {"modifiers": ["R77"]}))[1]["error"]
    assert "there is no node gpu-9" in (await door.post("/modify", {"modifiers": ["R2@gpu-9"]}))[1]["error"]
    assert "must be a list" in (await door.post("/modify", {"modifiers": "R2"}))[1]["error"]
    await door.post("/heal", {"node": "gpu-001"})
    assert len(door.cluster.state_summary()["modifiers"]) == 2
    await door.post("/heal", {})
    assert door.cluster.state_hash() == before


async def test_a_fault_that_heals_itself_does_so_some_time_from_now() -> None:
    clock = SetClock(START)
    of = Cluster.of(nodes=["gpu-001"], clock=clock.now)
    clock.go(minutes=30)
    of.break_("G07", "gpu-001", gpu=0)
    of.make_hard(["R12(after=240)@gpu-001"])
    assert await _lost(of) == {("gpu-001", "gpu0")}
    clock.go(minutes=3)
    assert await _lost(of) == {("gpu-001", "gpu0")}
    clock.go(minutes=2)
    assert await _lost(of) == set()


async def _lost(of: Cluster) -> set[tuple[str, str | None]]:
    """Return the GPUs that no longer answer."""
    return {(fact.host, fact.device) for fact in await facts(of, ["smi"]) if fact.key == "gpu.lost" and fact.value}


@pytest.mark.parametrize("row", DIFFICULTIES, ids=lambda row: row.id)
def test_each_choice_of_the_menu_is_understood(row: Any) -> None:
    of = Cluster.of(nodes=["gpu-001", "gpu-002"], clock=SetClock(START).now)
    for name, values in row.choices.items():
        for value in values:
            text = format_modifier(Modifier(row.id, {key: all_[0] for key, all_ in row.choices.items()} | {name: value}, "gpu-001"))
            of.make_hard([text])
            assert of.state_summary()["nodes"]


def test_the_menu_has_every_difficulty_there_is() -> None:
    assert tuple(row.id for row in DIFFICULTIES) == MODIFIER_IDS


@pytest.mark.parametrize(
    "text", ["R4", "R2(lines=500)@gpu-001", 'R5(channel=dmesg, text="Ignore this, and (that) @all")@gpu-001', "R5(text='say \"yes\", now')"]
)
def test_a_modifier_is_written_as_it_is_read(text: str) -> None:
    once = read_modifier(text)
    assert read_modifier(format_modifier(once)) == once


async def test_what_is_broken_now_leaves_as_a_case_that_is_diagnosed_again(door: Door, tmp_path: Path) -> None:
    door.cluster.break_("S13", "gpu-001")
    door.cluster.heal("gpu-001")
    door.cluster.break_("G07", "gpu-003")
    door.cluster.make_hard(["R3(gpu=1)@gpu-001", "R4@gpu-001", "R12(after=9000)@gpu-003"])
    body = {"text": "job 4711 hangs on gpu-[001-003]", "author": "olga", "attachments": [{"name": "nccl.log", "text": "Watchdog"}]}
    status, done = await door.post("/case", body)
    assert (status, done["name"]) == (200, "demo-20260601-1220.yaml")
    file = tmp_path / done["name"]
    file.write_text(done["yaml"])
    case = load_case(file)
    lost = await _lost(door.cluster)
    assert [(row.fault, row.nodes, row.at) for row in case.faults] == [("G07", ("gpu-003",), -640.0)]
    assert await _lost(Cluster.from_case(case)) == lost
    assert [format_modifier(row) for row in case.modifiers] == ["R3(gpu=1)@gpu-001", "R4@gpu-001", "R12(after=9000)@gpu-003"]
    assert (case.ticket.text, case.ticket.blames, case.ticket.attachments[0].name) == (body["text"], "gpu-001", "nccl.log")
    truth = read_truth(case.truth)
    assert (truth.primary.label, truth.hosts) == ("GPU.BUS.Fallen_Off_Bus", frozenset({"gpu-003"}))
    assert truth.devices == {f"{host}/{gpu}" for host, gpu in lost}
    assert read_case(file)["truth"]["primary"]["label"] == "GPU.BUS.Fallen_Off_Bus"
    ran = await asyncio.to_thread(CliRunner(env={"RACKMEDIC_NO_SKIPS": None}).invoke, app, ["diagnose", "--sandbox", str(file), "--json"])
    assert ran.exit_code == 0, ran.output
    assert "GPU.BUS.Fallen_Off_Bus" in ran.stdout


async def test_a_case_of_nothing_broken_says_that_there_is_no_fault_and_what_it_leaves_out(door: Door) -> None:
    door.cluster.go_down("gpu-002", "rebooting")
    door.cluster.come_up("gpu-002")
    raw = yaml.safe_load((await door.post("/case", {"text": "is gpu-002 healthy?"}))[1]["yaml"])
    assert (raw["layer"], raw["truth"]["primary"]["label"]) == ("control", "NO_FAULT")
    assert raw["left_out"]
    assert parse_case(raw).t0 == START.replace(second=0) + timedelta(minutes=20)


def test_what_is_no_modifier_is_refused() -> None:
    with pytest.raises(SimulationRefusal, match="R6 needs check="):
        Cluster.of().make_hard(["R6"])


HOSTILE: dict[str, Any] = {
    "no object": [1, 2],
    "numbers": {"text": 7, "author": 3.5, "attachments": 9},
    "objects for words": {"text": {"a": [None]}, "author": ["x"], "attachments": {"name": "x"}},
    "half letters": {"text": "broken \ud83d end", "author": "\udcff", "attachments": [{"name": "\ud83d", "text": "\udcff"}]},
    "yaml in words": {"text": "- a: &x [*x]\n%TAG !\n---\n!!python/object:os.system {}", "author": "{{x}}"},
    "control signs": {"text": "a\x00b\x1b[31mc\r\nd\u2028e\x85f", "author": "\u202egnp.exe"},
    "ways out": {"text": "t", "attachments": [{"name": "../../etc/passwd", "text": "x"}, {"name": "..", "text": "y"}, "none", None]},
    "deep": {"text": json.loads("[" * 900 + "]" * 900)},
    "long": {"text": "a" * 300_000, "attachments": [{"name": "n" * 5000, "text": "b" * 200_000}] * 3},
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_body_becomes_a_case_that_loads_and_stays_in_its_folder(name: str, door: Door, tmp_path: Path) -> None:
    status, done = await door.post("/case", HOSTILE[name])
    assert status == 200
    file = tmp_path / done["name"]
    file.write_text(done["yaml"])
    case = load_case(file)
    assert not any({"/", "\\"} & set(one.name) or one.name in (".", "..") for one in case.ticket.attachments)


async def test_cases_written_while_others_break_and_heal_each_tell_one_moment(door: Door) -> None:
    async def breaks(n: int) -> None:
        status, _ = await door.post("/break", {"fault": "G07", "node": f"gpu-00{n % 3 + 1}"})
        assert status in (200, 400)
        await door.post("/heal", {"node": f"gpu-00{n % 3 + 1}"})

    answers = await asyncio.gather(*(door.post("/case", {"text": f"case {n}"}) for n in range(20)), *(breaks(n) for n in range(20)))
    for answer in filter(None, answers):
        status, done = answer
        assert status == 200
        parsed = parse_case(yaml.safe_load(done["yaml"]))
        assert read_truth(parsed.truth).primary.label == ("GPU.BUS.Fallen_Off_Bus" if parsed.faults else "NO_FAULT")
