"""Run system programs with fixed arguments and a time limit, failing with a one-line LabRefusal."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

DEFAULT_TIMEOUT_SECONDS = 60.0


class LabRefusal(Exception):
    """An operation that the lab cannot do. The message is one sentence that says how to mend it."""


def run(*argv: str | Path, stdin: str = "", seconds: float = DEFAULT_TIMEOUT_SECONDS, env: Mapping[str, str] | None = None) -> str:
    """Return the program's stdout. Raises LabRefusal if it fails, times out or is not installed."""
    words = [str(word) for word in argv]
    try:
        result = subprocess.run(words, input=stdin, capture_output=True, text=True, errors="replace", timeout=seconds, env=env, check=False)
    except FileNotFoundError as error:
        raise LabRefusal(f"{words[0]} is not installed: make setup-rack") from error
    except subprocess.TimeoutExpired as error:
        raise LabRefusal(f"`{' '.join(words)[:200]}` did not end in {seconds:g} s") from error
    if result.returncode:
        message = (result.stderr.strip() or result.stdout.strip() or "it said nothing").splitlines()[-1]
        raise LabRefusal(f"`{' '.join(words)[:200]}` ended with {result.returncode}: {message[:300]}")
    return result.stdout


def succeeds(*argv: str | Path, seconds: float = DEFAULT_TIMEOUT_SECONDS) -> bool:
    """Return whether the program exited with 0; for commands that may fail."""
    try:
        run(*argv, seconds=seconds)
    except LabRefusal:
        return False
    return True
