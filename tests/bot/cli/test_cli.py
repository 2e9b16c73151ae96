"""What scripts and people rely on in the terminal; run as processes where pipes, signals or start-up matter."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer

from bot.cli.command_runtime import run_async_command
from tests.support.terminal import ROOT, commands, environment, rackmedic, rackmedic_process

pytestmark = pytest.mark.slow


CASE = """
id: t1
profile: dgx-h100-8
nodes: [gpu-001, gpu-002, gpu-003, gpu-004]
ticket: {channel: slack, author: U1, text: "job 4711 hangs, NCCL timeout on gpu-[001-004]"}
faults: [{id: G07, node: gpu-003, gpu: 5, t: -620}]
"""


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("case") / "case.yaml"
    file.write_text(CASE)
    return file


@pytest.fixture(scope="module")
def document(case: Path) -> dict[str, Any]:
    """Return the one JSON document that a script reads from stdout."""
    ran = rackmedic_process("diagnose", "--sandbox", str(case), "--json")
    assert ran.returncode == 0, ran.stderr
    read: dict[str, Any] = json.loads(ran.stdout)
    return read


def test_diagnose_prints_one_document_of_the_promised_shape(document: dict[str, Any]) -> None:
    assert document["schema"] == 1
    assert document["outcome"] == "diagnosed"
    [cause] = document["root_causes"]
    assert (cause["label"], cause["hosts"], cause["devices"]) == ("GPU.BUS.Fallen_Off_Bus", ["gpu-003"], ["gpu-003/gpu5"])
    assert all(set(row) == {"host", "check", "line", "time", "sha256"} for row in cause["evidence"])
    assert {"ruled_out", "could_not_look", "questions", "actions", "ticket"} <= set(document)
    stats = document["stats"]
    assert (stats["clock"], stats["model_calls"], stats["hosts"]) == ("virtual", 0, 4)


def test_diagnose_tells_people_the_headline_first(case: Path) -> None:
    lines = rackmedic("diagnose", "--sandbox", str(case)).stdout.splitlines()
    assert "fell off the PCIe bus" in lines[1]
    assert any("Xid" in line for line in lines)


def test_the_same_case_gives_the_same_answer_twice(case: Path, document: dict[str, Any]) -> None:
    again = json.loads(rackmedic("diagnose", "--sandbox", str(case), "--json").stdout)
    assert {**document, "incident": ""} | {"stats": {**document["stats"], "wall_seconds": 0}} == {**again, "incident": ""} | {
        "stats": {**again["stats"], "wall_seconds": 0}
    }


def test_an_attached_log_is_read_along(tmp_path: Path) -> None:
    log = tmp_path / "rank13.log"
    log.write_text(
        "[rank13]: Traceback (most recent call last):\n[rank13]:   File \"train.py\", line 9, in step\n[rank13]: KeyError: 'labels'\n"
    )
    healthy = tmp_path / "healthy.yaml"
    healthy.write_text("profile: dgx-h100-8\nnodes: [n1, n2]\nticket: {text: job died}\nfaults: []\n")
    document = json.loads(rackmedic("diagnose", "--sandbox", str(healthy), "--attach", str(log), "--json").stdout)
    assert document["schema"] == 1
    assert "KeyError" in json.dumps(document)


def test_nothing_said_is_bad_usage_with_an_example() -> None:
    ran = rackmedic("diagnose")
    assert ran.returncode == 2
    assert "for example" in ran.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [("faults: [{id: G99, node: n1}]\nnodes: [n1]\nprofile: dgx-h100-8\n", "G99"), ("nodes: [", "is not YAML"), ("- 1\n", "mapping")],
)
def test_a_bad_case_names_what_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    ran = rackmedic("diagnose", "--sandbox", str(file))
    assert ran.returncode == 2
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr


def test_parse_prints_facts_as_json_lines() -> None:
    line = "[  123.456789] NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    ran = rackmedic_process("parse", "dmesg", stdin=line)
    assert ran.returncode == 0
    [fact] = [json.loads(row) for row in ran.stdout.splitlines() if '"kernel.xid"' in row]
    assert {"check", "key", "device", "value", "unit", "status"} <= set(fact)
    assert (fact["value"], fact["device"], fact["status"]) == (79, "0000:9b:00.0", "ok")


def test_unreadable_output_is_a_fact_with_a_reason_and_a_message() -> None:
    ran = rackmedic("parse", "smi", stdin="\x00\x01 total garbage")
    assert ran.returncode == 1
    assert "nothing was read: not the output of smi" in ran.stderr
    [fact] = [json.loads(row) for row in ran.stdout.splitlines()]
    assert fact["status"] == "unreadable"
    assert fact["reason"]


def test_an_unknown_check_lists_the_known_ones() -> None:
    ran = rackmedic("parse", "sim", stdin="")
    assert ran.returncode == 2
    assert "smi" in ran.stderr


@pytest.mark.parametrize("table", ["checks", "remedies", "taxonomy", "settings"])
def test_tables_are_one_document_for_machines_and_a_table_for_people(table: str) -> None:
    document = json.loads(rackmedic(table, "--json").stdout)
    assert document["schema"] == 1
    assert all(row["id"] for row in document["items"])
    assert document["items"][0]["id"] in rackmedic(table).stdout.replace("\n", "")


def test_a_label_is_never_broken_however_narrow_the_terminal() -> None:
    words = ("classify", "NCCL WARN ibv_reg_mr failed with error Cannot allocate memory; ulimit -l 64")
    labels = [row["label"] for row in json.loads(rackmedic(*words, "--json").stdout)["labels"]]
    for columns in ("", "80", "40", "20"):
        shown = rackmedic(*words, environ={"COLUMNS": columns}).stdout
        assert [label for label in labels if label not in shown] == []


@pytest.mark.parametrize("words", [("look", "gpu-001"), ("job", "4711"), ("dry-run", "reboot", "gpu-001")])
def test_without_an_inventory_that_is_what_is_said(words: tuple[str, ...]) -> None:
    ran = rackmedic(*words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "no inventory is set" in ran.stderr


def test_without_an_inventory_a_diagnosis_says_that_it_reads_only_what_was_written() -> None:
    ran = rackmedic("diagnose", "NCCL hangs on gpu-001")
    assert ran.returncode == 0
    assert "no inventory is set" in ran.stderr


def test_a_diagnosis_of_named_hosts_without_an_inventory_is_refused_once_with_the_right_reason() -> None:
    ran = rackmedic("diagnose", "NCCL hangs", "--hosts", "gpu-001")
    assert (ran.returncode, ran.stdout, len(ran.stderr.strip().splitlines())) == (2, "", 1)
    assert "no inventory is set" in ran.stderr


def test_a_kit_that_cannot_be_written_is_refused_with_the_mend(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = rackmedic("node-kit", "--out", str(tmp_path / "file" / "kit"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--out" in ran.stderr
    assert "Not a directory" in ran.stderr


def test_settings_tell_what_is_set_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("workers: 3\nmodel_api_key: sk-very-secret\n")
    environ = {"RACKMEDIC_REDIS_URL": "redis://:hunter2@core:6379/0", "RACKMEDIC_CONFIG": str(tmp_path / "own.yaml")}
    ran = rackmedic("settings", "--json", environ=environ)
    rows = {row["id"]: row for row in json.loads(ran.stdout)["items"]}
    assert rows["RACKMEDIC_WORKERS"] | {"what": ""} == {"id": "RACKMEDIC_WORKERS", "default": 1, "set": "3", "what": ""}
    assert rows["RACKMEDIC_MODEL_API_KEY"]["set"] == "a secret"
    assert rows["RACKMEDIC_REDIS_URL"]["set"] == "redis://:[redacted]@core:6379/0"
    assert {row["set"] for row in rows.values()} == {"", "3", "a secret", "redis://:[redacted]@core:6379/0"}
    assert "hunter2" not in ran.stdout + rackmedic("settings", environ=environ).stdout
    assert "very-secret" not in ran.stdout


def test_settings_are_listed_even_where_they_cannot_be_used() -> None:
    """An error about a mistyped setting points to this command."""
    ran = rackmedic("settings", environ={"RACKMEDIC_WORKER": "3"})
    assert "RACKMEDIC_WORKERS" in ran.stdout
    assert (ran.returncode, "RACKMEDIC_WORKER: no such setting" in ran.stderr) == (2, True)


def test_every_command_stands_in_a_group_of_the_help_and_says_what_it_does() -> None:
    for name in ("", *commands()):
        shown = rackmedic(*filter(None, (name,)), "--help").stdout
        assert "Usage: rackmedic" in shown
    assert all(command.rich_help_panel and command.help for command in commands().values())


def test_help_on_a_narrow_terminal_cuts_no_name_of_an_option() -> None:
    told = rackmedic_process("chat", "--help", environ={"COLUMNS": "40"}).stdout
    assert "-i, --inventory FILE" in told
    assert "…" not in told
    assert "[OPTIONS] [TEXT]" in told


def test_no_sentence_of_a_help_is_broken_where_its_line_in_the_code_ends() -> None:
    """Typer rewraps only the first paragraph."""
    rows = [("", row) for row in commands().values()]
    broken = []
    for path, row in rows:
        rows += [(f"{path} {row.name}", one) for one in getattr(row, "commands", {}).values()]
        broken += [f"{path} {row.name}" for part in (row.help or "").split("\n\n")[1:] if "\n" in part.strip()]
    assert not broken


def test_the_version_is_told() -> None:
    assert rackmedic("--version") == (0, f"rackmedic {metadata.version('rackmedic')}\n", "")


def test_an_interrupted_look_says_what_it_did_not_get_to(tmp_path: Path) -> None:
    """The host accepts the connection and never speaks, so the command is certainly running."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(120)  # limit for a command that never connects
        (tmp_path / "known_hosts").touch()
        host = f"n1: {{address: 127.0.0.1, port: {silent.getsockname()[1]}, known_hosts: {tmp_path / 'known_hosts'}}}"
        (tmp_path / "inventory.yaml").write_text(f"groups: {{g: {{hosts: n1}}}}\nhosts: {{{host}}}\n")
        words = (sys.executable, "-m", "bot.cli", "look", "n1", "smi", "-i", str(tmp_path / "inventory.yaml"))
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as command:
            try:
                reached, _ = silent.accept()
                with reached:
                    command.send_signal(signal.SIGINT)
                    out, err = command.communicate()
            finally:
                command.kill()
    assert command.returncode == 130
    assert "interrupted" in err
    assert "not asked to the end: n1" in out
    assert "Traceback" not in err


def test_what_is_cut_off_by_more_than_one_hand_is_interrupted_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    async def twice() -> int:
        task = asyncio.current_task()
        assert task
        task.cancel()
        task.cancel()
        await asyncio.sleep(0)
        return 0

    with pytest.raises(typer.Exit) as end:
        run_async_command(twice)
    assert (end.value.exit_code, capsys.readouterr().err) == (130, "interrupted\n")


def test_a_cancellation_that_gets_lost_is_told_again(capsys: pytest.CaptureFixture[str]) -> None:
    async def deaf() -> int:
        os.kill(os.getpid(), signal.SIGINT)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()
        return 0

    with pytest.raises(typer.Exit) as end:
        run_async_command(deaf)
    assert (end.value.exit_code, capsys.readouterr().err) == (130, "interrupted\n")


def test_serve_without_settings_tells_all_that_is_missing_at_once() -> None:
    ran = rackmedic("serve")
    assert ran.returncode == 2
    for name in ("RACKMEDIC_SLACK_BOT_TOKEN", "RACKMEDIC_SLACK_APP_TOKEN", "RACKMEDIC_INVENTORY"):
        assert name in ran.stderr


def test_serve_with_wrong_settings_names_each(tmp_path: Path) -> None:
    ran = rackmedic("serve", environ={"RACKMEDIC_REDIS_URL": "nonsense", "RACKMEDIC_LOG_LEVEL": "loud", "RACKMEDIC_NO_SUCH": "1"})
    assert ran.returncode == 2
    for name in ("RACKMEDIC_REDIS_URL", "RACKMEDIC_LOG_LEVEL", "RACKMEDIC_NO_SUCH"):
        assert name in ran.stderr


def test_the_doctor_tries_every_part(tmp_path: Path) -> None:
    ran = rackmedic("doctor", "--json", environ={"RACKMEDIC_DATA_DIR": str(tmp_path)})
    rows = json.loads(ran.stdout)["items"]
    assert {row["part"] for row in rows} == {"redis", "ledger key", "slack", "taxonomy", "checks", "sku", "evidence", "model", "inventory"}
    assert {row["state"] for row in rows if row["part"] in ("taxonomy", "checks", "sku", "evidence")} == {"ok"}
    assert {row["part"]: bool(row["mend"]) for row in rows if row["state"] == "off"} == dict.fromkeys(
        ("ledger key", "slack", "model", "inventory"), True
    )


def test_the_doctor_says_how_to_mend_what_fails(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text("groups: {g: {hosts: '-bad'}}\n")
    environ = {"RACKMEDIC_INVENTORY": str(tmp_path / "inventory.yaml"), "RACKMEDIC_DATA_DIR": str(tmp_path)}
    ran = rackmedic("doctor", "--json", environ=environ)
    assert ran.returncode == 1
    rows = {row["part"]: row for row in json.loads(ran.stdout)["items"]}
    assert rows["inventory"]["state"] == "fail"
    assert rows["inventory"]["mend"]
    assert rows["taxonomy"]["state"] == "ok"
