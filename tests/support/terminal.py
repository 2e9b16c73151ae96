"""Run `rackmedic` in this process, or as its own process where that matters."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import structlog
import typer
from typer.testing import CliRunner

from bot.cli.main import app

ROOT = Path(__file__).parents[2]


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def commands() -> dict[str, Any]:
    """Return every command and group by name, with `help` and `rich_help_panel`."""
    return dict(typer.main.get_group(app).commands)


def rackmedic(*words: str, stdin: str = "", environ: dict[str, str] | None = None) -> Ran:
    others = dict.fromkeys(name for name in os.environ if name.startswith("RACKMEDIC_"))
    thresholds = gc.get_threshold()
    try:
        ran = CliRunner().invoke(app, words, input=stdin, env=others | environment(environ), catch_exceptions=False)
    finally:
        gc.set_threshold(*thresholds)
        structlog.reset_defaults()  # a command's log setup writes to this run's stderr
    return Ran(ran.exit_code, ran.stdout, ran.stderr)


def rackmedic_process(*words: str, stdin: str = "", environ: dict[str, str] | None = None) -> Ran:
    """Run the command as a fresh process without a terminal."""
    ran = subprocess.run(
        [sys.executable, "-m", "bot.cli", *words],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(environ),
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def environment(environ: dict[str, str] | None = None) -> dict[str, str]:
    """Return an environment without anything of the test run."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "COLUMNS": "160"} | (environ or {})
