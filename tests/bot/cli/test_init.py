"""`rackmedic init` with a person at the terminal, from a file, and non-interactively."""

import json
import os
import pty
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
import yaml

from bot.cli.doctor.finding import Finding
from bot.cli.setup.init_command import build_inventory, list_remaining_steps, render_site_files, run_init
from bot.cli.setup.questions import QUESTIONS, Answers, Question, find_answer_problem, get_default, render_answers_template
from bot.refusal import Refusal
from bot.settings import load_settings
from tests.support.terminal import ROOT, environment, rackmedic
from tools.inventory.inventory import parse_inventory

SAID = {"hosts": "gpu-[001-004]", "controller": "ctl-1", "channel": "C0GPUINC", "approvers": "S0GPUAPPR", "slack_bot_token": "xoxb-1"}


def answers(folder: Path, **said: str) -> Answers:
    return {question.id: get_default(question, str(folder)) for question in QUESTIONS} | said


class Somebody:
    """A person at the terminal who gives the set answers and otherwise accepts the default."""

    def __init__(self, **known: str) -> None:
        self.known, self.asked = known, list[str]()

    def __call__(self, question: Question, default: str, refuses: Callable[[str], str]) -> str:
        self.asked.append(question.id)
        answer = self.known.get(question.id, default)
        assert refuses(answer) == ""
        return answer


async def test_a_person_answers_and_the_bot_can_be_started_with_what_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    person = Somebody(**SAID)
    assert await run_init(folder, None, person, again=False, attempt=False, as_json=True) == 0
    assert person.asked == [question.id for question in QUESTIONS]
    settings = load_settings(folder / "rackmedic.yaml", {})
    assert settings.slack_bot_token.get_secret_value() == "xoxb-1"
    inventory = parse_inventory(yaml.safe_load((folder / "inventory.yaml").read_text()))
    assert settings.inventory == folder / "inventory.yaml"
    assert inventory.hosts["gpu-003"].controller == "ctl-1"
    assert inventory.hosts["gpu-003"].kit
    assert inventory.channels[0].approvers == "S0GPUAPPR"


async def test_what_holds_secrets_is_for_its_owner_only(tmp_path: Path) -> None:
    await run_init(tmp_path, None, Somebody(**SAID), again=False, attempt=False, as_json=True)
    for name in ("rackmedic.yaml", "inventory.yaml", "id_ed25519"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


async def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    await run_init(tmp_path, None, Somebody(**SAID), again=False, attempt=False, as_json=True)
    key, first = (tmp_path / "id_ed25519").read_bytes(), (tmp_path / "inventory.yaml").read_text()
    with pytest.raises(Refusal, match="already there: edit it, or start over with --again"):
        await run_init(tmp_path, None, Somebody(**SAID), again=False, attempt=False, as_json=True)
    await run_init(tmp_path, None, Somebody(hosts="n[1-2]"), again=True, attempt=False, as_json=True)
    assert (tmp_path / "inventory.yaml.old").read_text() == first
    assert (tmp_path / "id_ed25519").read_bytes() == key


def test_hosts_of_a_scheduler_are_taken_from_there() -> None:
    raw = build_inventory(answers(Path("/etc/rackmedic"), hosts="slurm:login-1", job_logs="/shared/logs"))
    assert raw["sources"] == [{"slurm": "login-1"}]
    assert raw["defaults"]["job_logs"] == "/shared/logs"
    assert "train" not in raw["groups"]


def test_a_controller_among_the_nodes_is_listed_once() -> None:
    raw = build_inventory(answers(Path("/etc/rackmedic"), hosts="n[1-3]", controller="n2"))
    assert raw["groups"] == {"train": {"hosts": "n[1-3]"}}


def test_who_only_wants_looks_gets_no_kit() -> None:
    site = answers(Path("/x"), hosts="n1", repairs="No")
    assert parse_inventory(build_inventory(site)).hosts["n1"].kit is False
    assert not any("kit" in step.do for step in list_remaining_steps(site, [], "ssh-ed25519 AAAA", Path("/x")))


@pytest.mark.parametrize(
    ("question", "answer", "why"),
    [
        ("hosts", "", "an answer is needed"),
        ("hosts", "gpu-[9-1]", "backwards"),
        ("hosts", "ansible:", "name the inventory"),
        ("group", "two words", "one word"),
        ("key", "relative/key", "absolute path"),
        ("jump", "a b", "[user@]host[:port]"),
        ("repairs", "perhaps", "yes or no"),
        ("channel", "#gpu-incidents", "not a name"),
        ("approvers", "@oncall", "user-group id"),
        ("slack_bot_token", "xapp-1", "xoxb-"),
        ("redis_url", "redis:6379", "redis://"),
        ("user", "root\nroot", "one line"),
    ],
)
def test_an_answer_that_cannot_be_used_is_told_why(question: str, answer: str, why: str) -> None:
    assert why in find_answer_problem(next(one for one in QUESTIONS if one.id == question), answer)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
def test_every_question_proposes_what_it_accepts_and_teaches(question: Question) -> None:
    proposed = get_default(question, "/etc/rackmedic")
    assert question.teaches
    assert question.needed or find_answer_problem(question, proposed) == ""


def test_the_template_filled_in_is_a_site(tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text(render_answers_template(str(tmp_path / "site")).replace("hosts:\n", 'hosts: "gpu-[001-002]"\n', 1))
    ran = rackmedic("init", "--folder", str(tmp_path / "site"), "--answers", str(file), "--no-try", "--json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert [Path(path).name for path in document["written"]] == ["inventory.yaml", "rackmedic.yaml"]
    assert document["left"][-1]["lines"][-1].startswith("rackmedic serve --config")


def test_everything_that_is_wrong_in_a_file_of_answers_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text("hosts: 'n['\ncontroler: ctl\nsku: dgx-h1000\nrepairs: no\n")
    ran = rackmedic("init", "--folder", str(tmp_path), "--answers", str(file))
    assert ran.returncode == 2
    assert all(name in ran.stderr for name in ("controler: there is no such question", "hosts: ", "sku: there is no profile"))
    assert "repairs" not in ran.stderr.replace("approvers, ", "").partition("there are")[0]
    assert not (tmp_path / "inventory.yaml").exists()


def test_a_tenth_of_a_site_is_not_written(tmp_path: Path) -> None:
    """A controller named like the group's hosts but not among them would be a host without a group."""
    for name, text in render_site_files(answers(tmp_path, hosts="n[1-3]", controller="n9"), tmp_path).items():
        assert yaml.safe_load(text), name
    parse_inventory(build_inventory(answers(tmp_path, hosts="n[1-3]", controller="n9")))


def test_what_trying_showed_decides_what_is_left() -> None:
    site = answers(Path("/x"), hosts="n1", controller="ctl", channel="C0GPUINC", slack_bot_token="xoxb-1", slack_app_token="xapp-1")
    unreached = list_remaining_steps(site, [Finding("ssh", "fail", "n1: login refused")], "ssh-ed25519 AAAA", Path("/x"))
    well = list_remaining_steps(site, [Finding("ssh", "ok", "2 of 2"), Finding("node kit", "ok", "2 of 2")], "ssh-ed25519 AAAA", Path("/x"))
    no_kit = list_remaining_steps(
        site, [Finding("ssh", "ok", "2 of 2"), Finding("node kit", "fail", "n1: missing")], "ssh-ed25519 AAAA", Path("/x")
    )
    assert any("ssh-ed25519 AAAA" in step.lines for step in unreached)
    assert [step.do for step in well] == ["Invite the bot into the channel:", "Try again until nothing fails, then start it:"]
    assert any("node kit" in step.do for step in no_kit)


def test_without_a_terminal_it_says_how_to_continue(tmp_path: Path) -> None:
    ran = rackmedic("init", "--folder", str(tmp_path))
    assert ran.returncode == 2
    assert "--questions" in ran.stderr


def read_until(stream: IO[bytes], end: bytes) -> bytes:
    """Return the output up to and including `end`, or all of it."""
    read = b""
    while not read.endswith(end) and (one := stream.read(1)):
        read += one
    return read


def test_at_a_terminal_a_wrong_answer_is_asked_again(tmp_path: Path) -> None:
    """Ends after the second question, because input typed ahead of a secret prompt is discarded, which would be a race."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bot.cli", "init", "--folder", str(tmp_path), "--no-try"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdin=theirs, stderr=subprocess.PIPE, bufsize=0) as asked:
        assert asked.stderr is not None
        os.write(ours, b"gpu-[2-1]\ngpu-[1-2]\n")
        told = read_until(asked.stderr, QUESTIONS[1].asks.encode())
        asked.kill()
    os.close(theirs)
    os.close(ours)
    assert b"runs backwards" in told
    assert told.endswith(QUESTIONS[1].asks.encode())
