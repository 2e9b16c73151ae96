"""`rackmedic` as somebody types it: in this process where only words and exit codes count, as a process of its own where that is the point."""

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
    """What came back."""

    returncode: int
    stdout: str
    stderr: str


def commands() -> dict[str, Any]:
    """Every command and group of commands by its name, with its `help` and the `rich_help_panel` that it stands in."""
    return dict(typer.main.get_group(app).commands)


def rackmedic(*words: str, stdin: str = "", environ: dict[str, str] | None = None) -> Ran:
    """Run the command here, with an environment of its own. What it would end in a traceback is raised."""
    others = dict.fromkeys(name for name in os.environ if name.startswith("RACKMEDIC_"))
    thresholds = gc.get_threshold()
    try:
        ran = CliRunner().invoke(app, words, input=stdin, env=others | environment(environ), catch_exceptions=False)
    finally:
        gc.set_threshold(*thresholds)
        structlog.reset_defaults()  # what a command set up writes to this run's stderr
    return Ran(ran.exit_code, ran.stdout, ran.stderr)


def rackmedic_process(*words: str, stdin: str = "", environ: dict[str, str] | None = None) -> Ran:
    """The same as a process that begins with nothing imported and sees no terminal."""
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
    """What a command sees of a person's environment: nothing of this run's own."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "COLUMNS": "160"} | (environ or {})
