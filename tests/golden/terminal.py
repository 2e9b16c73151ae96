"""Golden texts of the terminal: help pages, and what commands print and refuse."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from bot.cli.main import app
from bot.settings import BadSettings, list_missing_for_serve, load_settings
from tests.golden.written import stable
from tests.support.terminal import rackmedic

WIDTH = 100

BAD_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "tokens": {"RACKMEDIC_SLACK_BOT_TOKEN": "hello", "RACKMEDIC_SLACK_APP_TOKEN": "hello"},
    "unknown name": {"RACKMEDIC_SALCK_APP_TOKEN": "xapp-typo"},
    "not a number": {"RACKMEDIC_HEALTH_PORT": "many", "RACKMEDIC_MODEL_SECONDS": "0"},
    "addresses": {"RACKMEDIC_REDIS_URL": "http://x", "RACKMEDIC_MODEL_URL": "ftp://x"},
    "short keys": {"RACKMEDIC_LEDGER_KEY": "short", "RACKMEDIC_LEDGER_OLD_KEYS": "short"},
    "provider without key": {"RACKMEDIC_PROVIDER_URL": "https://provider.example"},
    "provider in the clear": {"RACKMEDIC_PROVIDER_URL": "http://provider.example", "RACKMEDIC_PROVIDER_KEY": "k"},
    "port without listener": {"RACKMEDIC_HTTP_PORT": "8443"},
    "listener without port": {"RACKMEDIC_ALERTS": "/etc/rackmedic/alerts.yaml"},
    "missing folder": {"RACKMEDIC_KB_DIR": "/nonexistent/kb"},
}
# file → command line, in an empty environment
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "doctor": ("doctor",),
    "settings": ("settings",),
    "diagnose-nothing": ("diagnose",),
    "parse-unknown-check": ("parse", "sim"),
    "classify": ("classify", "NCCL WARN ibv_reg_mr failed with error Cannot allocate memory; ulimit -l 64"),
}
CASE = """
id: t1
profile: dgx-h100-8
nodes: [gpu-001, gpu-002, gpu-003, gpu-004]
ticket: {channel: slack, author: U1, text: "job 4711 hangs, NCCL timeout on gpu-[001-004]"}
faults: [{id: G07, node: gpu-003, gpu: 5, t: -620}]
"""


def help_pages() -> Mapping[str, str]:
    """Return the help of `rackmedic`, and of each command together with its subcommands, as plain text of a fixed width."""
    root = typer.main.get_group(app)
    top = typer.Context(root, info_name="rackmedic", terminal_width=WIDTH, max_content_width=WIDTH, **(app.info.context_settings or {}))
    pages = {"rackmedic.txt": _page(root, top)}
    for name, command in sorted(root.commands.items()):
        pages[f"{name}.txt"] = "\n\n".join(_pages(command, name, top))
    return {name: stable(text) for name, text in pages.items()}


def _pages(command: Any, name: str, above: typer.Context) -> list[str]:
    here = typer.Context(command, info_name=name, parent=above, terminal_width=WIDTH, max_content_width=WIDTH)
    below = getattr(command, "commands", {})
    return [_page(command, here), *(page for child, row in sorted(below.items()) for page in _pages(row, child, here))]


def _page(command: Any, context: typer.Context) -> str:
    command.rich_markup_mode = None
    return command.get_help(context)  # type: ignore[no-any-return]  # typer's commands are click's, without types


def outputs() -> Mapping[str, str]:
    """Return what commands print, and how settings are refused."""
    texts = {f"{name}.txt": _printed(*words) for name, words in COMMANDS.items()}
    with TemporaryDirectory() as folder:
        case = Path(folder) / "case.yaml"
        case.write_text(CASE)
        texts["diagnose.txt"] = _printed("diagnose", "--sandbox", str(case))
    return texts | {"settings-refused.txt": stable("\n\n".join(f"{name}:\n{_refused(given)}" for name, given in BAD_SETTINGS.items())),
                    "serve-needs.txt": stable("\n".join(list_missing_for_serve(load_settings(None, {}))))}  # fmt: skip


def _printed(*words: str) -> str:
    ran = rackmedic(*words, environ={"COLUMNS": str(WIDTH)})
    said = [f"$ rackmedic {words[0]}", ran.stdout.rstrip(), *([f"stderr:\n{ran.stderr}"] if ran.stderr.strip() else [])]
    return stable("\n".join([*said, f"exit {ran.returncode}"]))


def _refused(given: Mapping[str, str]) -> str:
    try:
        load_settings(None, given)
    except BadSettings as error:
        return str(error)
    raise AssertionError(f"accepted: {given}")
