"""`rackmedic init`, the acting part: asks or reads answers, writes, tries, prints."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import yaml
from rich.console import Console
from rich.text import Text

from bot.refusal import Refusal
from bot.run.site import site_skus
from bot.settings import BadSettings, Settings, load
from bot.terminal.doctor import examined
from bot.terminal.edge import tell
from bot.terminal.examination.finding import Finding, findings_table
from bot.terminal.paper import paper
from bot.terminal.setup.files import INVENTORY, SETTINGS, inventory_of, texts
from bot.terminal.setup.questions import QUESTIONS, Answers, Question, default_of, is_source, problems_of, refused, unknown_sku
from bot.terminal.setup.remaining import ToDo, remaining
from kb.yaml import plain
from tools.inventory.hosts import BadInventory, parse_inventory
from tools.ssh.keys import public_line

Ask = Callable[[Question, str, Callable[[str], str]], str]
"""Asks a person: the question, what is taken when nothing is said, and what is wrong with an answer. Its value can be used."""


async def begin(folder: Path, given: Path | None, ask: Ask, *, again: bool, attempt: bool, as_json: bool) -> int:
    """Everything that `init` does; 1 where something must still be mended before the bot can serve. Raises Refusal."""
    if there := [name for name in (INVENTORY, SETTINGS) if (folder / name).exists() and not again]:
        raise Refusal(f"{folder / there[0]} is already there: edit it, or begin anew with --again, which keeps it as {there[0]}.old", 2)
    answers = _read(given, folder) if given else _asked(ask, folder)
    _can_be_read(answers)
    written = _write(folder, texts(answers, folder))
    public = _public(Path(answers["key"]))
    findings = await examined(_settings(folder / SETTINGS)) if attempt else []
    steps = remaining(answers, findings, public, folder)
    if as_json:
        tell(json.dumps(_document(written, findings, steps)))
    else:
        _show(paper(), written, findings, steps)
    return int(any(finding.state == "fail" for finding in findings))


def _read(file: Path, folder: Path) -> Answers:
    """Answers of a file. Raises Refusal with all that is wrong in it."""
    try:
        raw = plain(file.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as why:
        raise Refusal(f"--answers {file}: cannot be read: {' '.join(str(why).split())}", 2) from why
    if not isinstance(raw, dict):
        raise Refusal(f"--answers {file}: must be a mapping of question ids to answers, like `hosts: gpu-[001-128]`", 2)
    said = {str(name): _plain(value) for name, value in raw.items()}
    whole = {question.id: default_of(question, str(folder)) for question in QUESTIONS} | said
    if problems := problems_of(whole, _skus()):
        raise Refusal("\n".join([f"--answers {file}:", *problems]), 2)
    return whole


def _plain(value: object) -> str:
    """A YAML value as somebody would have typed it: `yes` is read as true there."""
    return {True: "yes", False: "no", None: ""}.get(value, str(value)) if value is None or isinstance(value, bool) else str(value)


def _asked(ask: Ask, folder: Path) -> Answers:
    answers = dict[str, str]()
    for question in QUESTIONS:
        if question.id == "group" and is_source(answers["hosts"]):  # the source has groups of its own
            answers[question.id] = question.default
            continue
        answers[question.id] = ask(question, default_of(question, str(folder)), _refuses(question))
    return answers


def _refuses(question: Question) -> Callable[[str], str]:
    if question.id == "sku":
        return lambda answer: "; ".join(unknown_sku(answer, _skus()))
    return lambda answer: refused(question, answer)


def _skus() -> tuple[str, ...]:
    return tuple(site_skus(None))


def _can_be_read(answers: Answers) -> None:
    """Nothing is written that could not be read back. Raises Refusal."""
    plain = {part: value for part, value in inventory_of(answers).items() if part != "sources"}
    try:
        parse_inventory(plain)
    except BadInventory as why:
        raise Refusal("\n".join(["these answers make no inventory:", *why.problems]), 2) from why


def _write(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Written for their owner only: one of them holds secrets. What was there stays beside it as `.old`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_write_one(folder / name, text) for name, text in files.items()]
    except OSError as why:
        raise Refusal(f"--folder {folder}: cannot be written ({why.strerror}); name a folder that is yours, or run it as root", 2) from why


def _write_one(path: Path, text: str) -> Path:
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    if path.exists():
        path.replace(path.with_name(f"{path.name}.old"))
    return new.replace(path)


def _public(key: Path) -> str:
    try:
        return public_line(key)
    except (OSError, ValueError) as why:
        raise Refusal(f"key: {key}: {why}; name another with --again, or make one with ssh-keygen -t ed25519", 2) from why


def _settings(file: Path) -> Settings:
    try:
        return load(file)
    except BadSettings as why:
        raise Refusal("\n".join(["the files are written, but with this environment they cannot be used:", *why.problems]), 2) from why


def _document(written: list[Path], findings: list[Finding], steps: list[ToDo]) -> dict[str, object]:
    return {
        "schema": 1,
        "written": [str(path) for path in written],
        "findings": [asdict(finding) for finding in findings],
        "left": [asdict(step) for step in steps],
    }


def _show(console: Console, written: list[Path], findings: list[Finding], steps: list[ToDo]) -> None:
    console.print(f"\nWritten: {', '.join(map(str, written))}\n", highlight=False)
    if findings:
        console.print(findings_table(findings))
    console.print(Text("\nLeft to do", style="bold"))
    for number, step in enumerate(steps, 1):
        console.print(Text(f"{number}. {step.do}"))
        for line in step.lines:
            console.print(Text(f"     {line}", style="cyan"), soft_wrap=True)
