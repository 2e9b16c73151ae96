"""`rackmedic init`: ask, write files, test."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.text import Text

from bot.app.site_files import load_site_skus
from bot.cli.command_runtime import print_text
from bot.cli.doctor.command import collect_findings
from bot.cli.doctor.finding import Finding, render_findings_table
from bot.cli.safe_console import open_table_console
from bot.cli.setup.questions import (
    QUESTIONS,
    Answers,
    Question,
    find_answer_problem,
    find_answer_problems,
    find_sku_problems,
    get_default,
    is_source,
)
from bot.refusal import Refusal
from bot.settings import BadSettings, Settings, load_settings
from kb.yaml_files import load_plain
from tools.inventory.host_ranges import expand_host_range
from tools.inventory.inventory import BadInventory, parse_inventory
from tools.ssh.keys import get_public_key_line

# Answers of `init` as inventory and settings.

INVENTORY_FILE = "inventory.yaml"
SETTINGS_FILE = "rackmedic.yaml"
REACH_FIELDS = ("user", "key", "known_hosts", "jump", "controller")  # answers on how hosts are reached
CONTROL_GROUP = "control"
SETTING_FIELDS = ("slack_bot_token", "slack_app_token", "redis_url", "data_dir")  # answers that are bot settings
INVENTORY_HEADER = (
    "# Which hosts there are, how they are reached, and which channels speak of them. What else can stand here: docs/inventory.md\n"
)
SETTINGS_HEADER = "# Settings of RackMedic; `rackmedic settings` lists them all. It holds secrets: for the bot's account only.\n"


def build_inventory(answers: Answers) -> dict[str, Any]:
    hosts, group = answers["hosts"], answers["group"]
    row = {"sku": answers["sku"], "job_logs": answers["job_logs"]}
    reach: dict[str, Any] = {**{name: answers[name] for name in REACH_FIELDS}, "kit": has_repairs_enabled(answers)}
    if answers["controller"] and answers["scheduler"] == "kubernetes":
        reach["scheduler"] = answers["scheduler"]
    document: dict[str, Any] = {"defaults": _drop_empty_values(reach)}
    if is_source(hosts):  # a source has its own groups, so common fields go to `defaults`
        kind, _, source = hosts.partition(":")
        document["defaults"] |= _drop_empty_values(row)
        document |= {"groups": {}, "sources": [{kind: source}]}
    else:
        document["groups"] = {group: {"hosts": hosts, **_drop_empty_values(row)}}
    controller = answers["controller"]
    if controller and (is_source(hosts) or controller not in expand_host_range(hosts)):
        document["groups"][CONTROL_GROUP] = {"hosts": controller}  # each host needs a group, and the controller is in no other
    if answers["channel"]:
        channel = {"channel": answers["channel"], "kind": "operators", "approvers": answers["approvers"]}
        document["channels"] = [_drop_empty_values(channel)]
    return document


def build_settings(answers: Answers, folder: Path) -> dict[str, Any]:
    """Return the settings; unanswered ones keep their defaults."""
    return {"inventory": str(folder / INVENTORY_FILE)} | _drop_empty_values({name: answers[name] for name in SETTING_FIELDS})


def has_repairs_enabled(answers: Answers) -> bool:
    return answers["repairs"].lower().startswith("y")


def render_site_files(answers: Answers, folder: Path) -> Mapping[str, str]:
    return {
        INVENTORY_FILE: INVENTORY_HEADER + _dump_yaml(build_inventory(answers)),
        SETTINGS_FILE: SETTINGS_HEADER + _dump_yaml(build_settings(answers, folder)),
    }


def _drop_empty_values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value != ""}


def _dump_yaml(document: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(dict(document), sort_keys=False, default_flow_style=False, width=120))


# Manual steps that remain after `init`, in order.


@dataclass(frozen=True, slots=True)
class SetupStep:
    do: str
    lines: tuple[str, ...] = ()


APPLY_ROLES_COMMAND = "kubectl apply -f deploy/kubernetes/rbac.yaml"


def list_remaining_steps(answers: Answers, findings: Sequence[Finding], public: str, folder: Path) -> list[SetupStep]:
    steps = [*_list_node_steps(answers, findings, public), *_list_slack_steps(answers, folder), *_list_other_steps(findings)]
    start = (f"rackmedic doctor --config {folder / SETTINGS_FILE}", f"rackmedic serve --config {folder / SETTINGS_FILE}")
    return [*steps, SetupStep("Try again until nothing fails, then start it:", start)]


def _list_node_steps(answers: Answers, findings: Sequence[Finding], public: str) -> list[SetupStep]:
    failed = {finding.part for finding in findings if finding.state == "fail"}
    reached = any(finding.part == "ssh" and finding.state == "ok" for finding in findings) and "ssh" not in failed
    steps = []
    if not reached:
        steps.append(SetupStep(f"Write every node's host key, by its address, into {answers['known_hosts']}, from where you can trust it."))
        steps.append(
            SetupStep(
                f"Let the account {answers['user']} in on every node, and on the controller, with this key (docs/rollout.md, 3):", (public,)
            )
        )
    if has_repairs_enabled(answers) and (not reached or "node kit" in failed):
        install = (
            "rackmedic node-kit --out rackmedic-kit",
            "scp -r rackmedic-kit NODE:",
            "ssh NODE 'sudo rm -rf /root/rackmedic-kit && sudo cp -r rackmedic-kit /root/'",
            f"echo '{public}' | ssh NODE 'sudo sh /root/rackmedic-kit/install.sh --key /dev/stdin && sudo sshd -t && sudo systemctl reload ssh'",
        )
        steps.append(
            SetupStep("Install the node kit on every node and on the controller (docs/rollout.md has it as an Ansible role):", install)
        )
    if has_repairs_enabled(answers) and not answers["controller"]:
        steps.append(
            SetupStep(f"Name the scheduler's controller in {INVENTORY_FILE} (`controller:`), or nothing is drained before it is repaired.")
        )
    if has_repairs_enabled(answers) and answers["controller"] and answers["scheduler"] == "kubernetes":
        steps.append(
            SetupStep("Give the controller its two kubeconfigs, one to look and one to act (docs/rollout.md, 4).", (APPLY_ROLES_COMMAND,))
        )
    return steps


def _list_slack_steps(answers: Answers, folder: Path) -> list[SetupStep]:
    steps = []
    if not (answers["slack_bot_token"] and answers["slack_app_token"]):
        steps.append(
            SetupStep(f"Make the Slack app from its manifest and write both tokens into {folder / SETTINGS_FILE}:", ("rackmedic manifest",))
        )
    if not answers["channel"]:
        steps.append(
            SetupStep(
                f"Bind your on-call channel in {folder / INVENTORY_FILE}:", ("channels:", "  - {channel: C0123456789, kind: operators}")
            )
        )
    return [*steps, SetupStep("Invite the bot into the channel:", ("/invite @rackmedic",))]


def _list_other_steps(findings: Sequence[Finding]) -> list[SetupStep]:
    rest = [finding for finding in findings if finding.part in ("redis", "inventory", "model") and finding.state in ("fail", "warn")]
    return [SetupStep(f"{finding.part}: {finding.says}", (finding.mend,) if finding.mend else ()) for finding in rest]


# called with question, default and validator; returns a valid answer
AnswerPrompt = Callable[[Question, str, Callable[[str], str]], str]


async def run_init(folder: Path, given: Path | None, ask: AnswerPrompt, *, again: bool, attempt: bool, as_json: bool) -> int:
    """Return 1 if a check failed. Raises Refusal."""
    if existing_files := [name for name in (INVENTORY_FILE, SETTINGS_FILE) if (folder / name).exists() and not again]:
        raise Refusal(
            f"{folder / existing_files[0]} is already there: edit it, or start over with --again, which keeps it as {existing_files[0]}.old",
            2,
        )
    answers = _read_answers_file(given, folder) if given else _ask_questions(ask, folder)
    _validate_inventory(answers)
    files = _write_files(folder, render_site_files(answers, folder))
    public = _read_public_key(Path(answers["key"]))
    findings = await collect_findings(_load_settings(folder / SETTINGS_FILE)) if attempt else []
    steps = list_remaining_steps(answers, findings, public, folder)
    if as_json:
        print_text(json.dumps(_build_document(files, findings, steps)))
    else:
        _print_result(open_table_console(), files, findings, steps)
    return int(any(finding.state == "fail" for finding in findings))


def _read_answers_file(file: Path, folder: Path) -> Answers:
    """Raises Refusal with every problem."""
    try:
        raw = load_plain(file.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Refusal(f"--answers {file}: cannot be read: {' '.join(str(error).split())}", 2) from error
    if not isinstance(raw, dict):
        raise Refusal(f"--answers {file}: must be a mapping of question ids to answers, like `hosts: gpu-[001-128]`", 2)
    given_answers = {str(name): _format_yaml_value(value) for name, value in raw.items()}
    all_answers = {question.id: get_default(question, str(folder)) for question in QUESTIONS} | given_answers
    if problems := find_answer_problems(all_answers, _list_skus()):
        raise Refusal("\n".join([f"--answers {file}:", *problems]), 2)
    return all_answers


def _format_yaml_value(value: object) -> str:
    """Return a value as typed: YAML reads `yes` as true."""
    return {True: "yes", False: "no", None: ""}.get(value, str(value)) if value is None or isinstance(value, bool) else str(value)


def _ask_questions(ask: AnswerPrompt, folder: Path) -> Answers:
    answers = dict[str, str]()
    for question in QUESTIONS:
        if question.id == "group" and is_source(answers["hosts"]):  # the source has its own groups
            answers[question.id] = question.default
            continue
        answers[question.id] = ask(question, get_default(question, str(folder)), _build_validator(question))
    return answers


def _build_validator(question: Question) -> Callable[[str], str]:
    if question.id == "sku":
        return lambda answer: "; ".join(find_sku_problems(answer, _list_skus()))
    return lambda answer: find_answer_problem(question, answer)


def _list_skus() -> tuple[str, ...]:
    return tuple(load_site_skus(None))


def _validate_inventory(answers: Answers) -> None:
    """Refuse unreadable results before anything is written."""
    plain = {part: value for part, value in build_inventory(answers).items() if part != "sources"}
    try:
        parse_inventory(plain)
    except BadInventory as error:
        raise Refusal("\n".join(["these answers make no inventory:", *error.problems]), 2) from error


def _write_files(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write for the owner only, as one holds secrets; old files stay as `.old`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_write_file(folder / name, text) for name, text in files.items()]
    except OSError as error:
        raise Refusal(
            f"--folder {folder}: cannot be written ({error.strerror}); name a folder that is yours, or run it as root", 2
        ) from error


def _write_file(path: Path, text: str) -> Path:
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    if path.exists():
        path.replace(path.with_name(f"{path.name}.old"))
    return new.replace(path)


def _read_public_key(key: Path) -> str:
    try:
        return get_public_key_line(key)
    except (OSError, ValueError) as error:
        raise Refusal(f"key: {key}: {error}; name another with --again, or make one with ssh-keygen -t ed25519", 2) from error


def _load_settings(file: Path) -> Settings:
    try:
        return load_settings(file)
    except BadSettings as error:
        raise Refusal("\n".join(["the files are written, but with this environment they cannot be used:", *error.problems]), 2) from error


def _build_document(written: list[Path], findings: list[Finding], steps: list[SetupStep]) -> dict[str, object]:
    return {
        "schema": 1,
        "written": [str(path) for path in written],
        "findings": [asdict(finding) for finding in findings],
        "left": [asdict(step) for step in steps],
    }


def _print_result(console: Console, written: list[Path], findings: list[Finding], steps: list[SetupStep]) -> None:
    console.print(f"\nWritten: {', '.join(map(str, written))}\n", highlight=False)
    if findings:
        console.print(render_findings_table(findings))
    console.print(Text("\nLeft to do", style="bold"))
    for number, step in enumerate(steps, 1):
        console.print(Text(f"{number}. {step.do}"))
        for line in step.lines:
            console.print(Text(f"     {line}", style="cyan"), soft_wrap=True)
