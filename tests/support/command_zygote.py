"""`rackmedic` commands as processes that can be killed: import once, then fork one per JSON line on stdin.

A line is `{"words": […], "environ": {…}}`; the answers are the pid, then the exit code (negative: the signal).
"""

import json
import os
import sys
from typing import Any

from bot.cli import ledger
from bot.cli.main import app

__all__ = ["ledger"]  # imported in advance because the commands import it when they run


def run(words: list[str], environ: dict[str, str]) -> None:
    """Run the command in the child with this environment only."""
    os.environ.clear()
    os.environ.update(environ)
    quiet = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(quiet, number)
    app(words)


def fork(job: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        run(job["words"], job["environ"])
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    finally:
        os._exit(code)


def main() -> None:
    for line in sys.stdin:
        pid = fork(json.loads(line))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
