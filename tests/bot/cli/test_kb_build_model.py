"""`rackmedic kb build --model`: the model only chooses offered ids and sentences within its budget, no failure loses a
row, and the recording reproduces the build.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.cli.kb.build_command import ModelOptions, build_folder, parse_model_options
from bot.refusal import Refusal
from bot.settings import Settings, load_settings
from deploy.sandbox.model.server import SandboxModel, serve
from kb.history.incidents import PastIncident, load_seeds
from tests.bot.cli.test_kb_build import BUS, DISK, OPEN, VAGUE, files

pytestmark = pytest.mark.slow


EXPORT = [BUS, DISK, VAGUE, OPEN]


@pytest.fixture
def sandbox() -> SandboxModel:
    return SandboxModel()


@pytest.fixture
async def site(sandbox: SandboxModel) -> AsyncIterator[Settings]:
    runner, address = await serve(sandbox)
    yield load_settings(
        environ={"RACKMEDIC_MODEL_URL": address, "RACKMEDIC_MODEL_API_KEY": "sk-of-the-site", "RACKMEDIC_MODEL_NAME": "gpt-4o-mini"}
    )
    sandbox.script.released.set()
    await runner.cleanup()


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "ours.jsonl"
    path.write_text("\n".join(map(json.dumps, EXPORT)))
    return path


def says(**more: Any) -> dict[str, Any]:
    return {"answer": {"kind": "incident", "label": "", "cause": -1, "fix": -1, "summary": "Seen.", **more}}


async def built(site: Settings, export: Path, out: Path, asked: ModelOptions | None = None) -> dict[str, Any]:
    """Return the rows that the build wrote, by id."""
    asked = asked or ModelOptions(5.0)
    await asyncio.to_thread(build_folder, site, [export], out, (), as_json=True, asked=asked)
    return {row["id"]: row for line in (out / ".build" / "rows.jsonl").read_text().splitlines()[1:] for row in [json.loads(line)]}


def incidents(out: Path) -> dict[str, PastIncident]:
    return {one.id: one for one in load_seeds(out / "incidents")}


async def test_it_chooses_a_label_and_the_sentences_that_say_so(
    site: Settings, sandbox: SandboxModel, export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox.script.next.extend([says(label="USER.DATA.File_Or_Permission", cause=1)] * 3)
    rows = await built(site, export, tmp_path / "out")
    bus = incidents(tmp_path / "out")["inc-1"]
    assert (bus.label, bus.description) == ("USER.DATA.File_Or_Permission", "Seen.")
    assert (rows["INC-1"]["by"], rows["INC-1"]["why"]) == ("gpt-4o-mini", "by words it would be GPU.BUS.Fallen_Off_Bus")
    assert bus.root_cause in " ".join(json.dumps(one) for one in EXPORT), "a sentence of the thread, word for word"
    assert rows["INC-3"]["by"] == "", "what says too little is not asked about"
    assert "by gpt\\-4o\\-mini" in (tmp_path / "out" / "REVIEW.md").read_text()
    told = json.loads(capsys.readouterr().out)
    assert (told["model"]["questions"], told["model"]["declined"]) == (3, {})
    assert told["model"]["usd"] > 0


async def test_what_it_may_not_choose_is_left_to_the_rules_and_counted(
    site: Settings, sandbox: SandboxModel, export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox.script.next.extend([says(label="GPU.MADE.Up"), says(cause=99), {"text": "rm -rf / # is what you should run"}])
    rows = await built(site, export, tmp_path / "out")
    assert {row["by"] for row in rows.values()} == {""}
    assert rows["INC-1"]["label"] == "GPU.BUS.Fallen_Off_Bus"
    assert "was not among those offered" in json.dumps([row["why"] for row in rows.values()])
    assert sum(json.loads(capsys.readouterr().out)["model"]["declined"].values()) == 3
    assert [name for name, raw in files(tmp_path / "out").items() if b"rm -rf" in raw] == []


async def test_a_model_that_fails_for_an_hour_costs_no_row(site: Settings, sandbox: SandboxModel, tmp_path: Path) -> None:
    export = tmp_path / "many.jsonl"
    export.write_text("\n".join(json.dumps({**BUS, "id": f"INC-{n}", "title": f"gpu-{n:03} lost a card"}) for n in range(100)))
    sandbox.script.next.extend([{"fault": "401"}] * 400)
    rows = await built(site, export, tmp_path / "out")
    assert (len(rows), {row["verdict"] for row in rows.values()}) == (100, {"labelled"})
    assert len(sandbox.script.asked) < 100, "it is left alone after some failures"


async def test_no_incident_and_no_label_are_answers_too(site: Settings, sandbox: SandboxModel, tmp_path: Path) -> None:
    export = tmp_path / "two.jsonl"
    export.write_text(json.dumps(BUS))
    sandbox.script.next.append(says(kind="other"))
    assert (await built(site, export, tmp_path / "one"))["INC-1"]["verdict"] == "dropped"
    sandbox.script.next.append(says(cause=1))
    row = (await built(site, export, tmp_path / "two"))["INC-1"]
    assert (row["verdict"], row["label"]) == ("doubtful", "GPU.BUS.Fallen_Off_Bus")


async def test_more_than_is_allowed_is_refused_before_anything_is_sent(
    site: Settings, sandbox: SandboxModel, export: Path, tmp_path: Path
) -> None:
    with pytest.raises(Refusal, match=r"3 rows, about .* more than --most-usd 0.0001|4 rows, about .* more than --most-usd 0.0001"):
        await built(site, export, tmp_path / "out", ModelOptions(0.0001))
    assert sandbox.script.asked == []


async def test_a_recording_builds_the_same_again_without_a_model(
    site: Settings, sandbox: SandboxModel, export: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "answers.jsonl"
    await built(site, export, tmp_path / "first", ModelOptions(5.0, kept))
    asked = len(sandbox.script.asked)
    alone = site.model_copy(update={"model_url": "http://127.0.0.1:9/v1"})
    await built(alone, export, tmp_path / "second", ModelOptions(0.0, kept, live=False))
    assert files(tmp_path / "first") == files(tmp_path / "second")
    await built(site, export, tmp_path / "third", ModelOptions(5.0, kept))
    assert len(sandbox.script.asked) == asked == 3
    assert "sk-of-the-site" not in kept.read_text()


async def test_another_models_recording_and_what_is_none_are_refused(site: Settings, export: Path, tmp_path: Path) -> None:
    (tmp_path / "none").write_text("hello\n")
    (tmp_path / "other").write_text(json.dumps({"answers": 1, "model": "llama"}) + "\n")
    with pytest.raises(Refusal, match="is no recording"):
        await built(site, export, tmp_path / "out", ModelOptions(5.0, tmp_path / "none", live=False))
    with pytest.raises(Refusal, match="holds answers of llama"):
        await built(site, export, tmp_path / "out2", ModelOptions(5.0, tmp_path / "other", live=False))


async def test_a_build_that_was_killed_asks_for_what_is_left_alone(
    site: Settings, sandbox: SandboxModel, export: Path, tmp_path: Path
) -> None:
    whole, killed, kept = tmp_path / "whole", tmp_path / "killed", tmp_path / "answers.jsonl"
    await built(site, export, whole, ModelOptions(5.0, kept))
    await built(site, export, killed, ModelOptions(5.0, kept))
    journal = killed / ".build" / "rows.jsonl"
    journal.write_bytes(journal.read_bytes()[:-200])
    (killed / ".build" / "done").unlink()
    await built(site, export, killed, ModelOptions(5.0, kept))
    assert files(whole) == files(killed)
    (killed / ".build" / "done").unlink()
    with pytest.raises(Refusal, match="interrupted build"):
        await asyncio.to_thread(build_folder, site, [export], killed, (), as_json=True, asked=None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"replay": True, "model": True}, "--replay asks no model"),
        ({"record": True}, "goes with --model"),
        ({"replay": True}, "there is no such file"),
    ],
)
def test_options_that_do_not_go_together_say_so(given: dict[str, bool], says: str, tmp_path: Path) -> None:
    file = tmp_path / "absent"
    with pytest.raises(Refusal, match=says):
        parse_model_options(5.0, file if "record" in given else None, file if "replay" in given else None, model="model" in given)


def test_a_missing_model_setting_is_named(export: Path, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no model is set"):
        build_folder(load_settings(environ={}), [export], tmp_path / "out", (), as_json=True, asked=ModelOptions(5.0))
