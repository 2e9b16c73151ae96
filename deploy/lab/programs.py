"""Run system programs with fixed arguments and a time limit, failing with a one-line LabRefusal."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

SECONDS = 60.0


class LabRefusal(Exception):
    """What the lab cannot do, in one sentence that says how to mend it."""


def run(*argv: str | Path, stdin: str = "", seconds: float = SECONDS, env: Mapping[str, str] | None = None) -> str:
    """Return the program's stdout. Raises LabRefusal if it fails, times out or is not installed."""
    words = [str(word) for word in argv]
    try:
        ran = subprocess.run(words, input=stdin, capture_output=True, text=True, errors="replace", timeout=seconds, env=env, check=False)
    except FileNotFoundError as error:
        raise LabRefusal(f"{words[0]} is not installed: make setup-rack") from error
    except subprocess.TimeoutExpired as error:
        raise LabRefusal(f"`{' '.join(words)[:200]}` did not end in {seconds:g} s") from error
    if ran.returncode:
        said = (ran.stderr.strip() or ran.stdout.strip() or "it said nothing").splitlines()[-1]
        raise LabRefusal(f"`{' '.join(words)[:200]}` ended with {ran.returncode}: {said[:300]}")
    return ran.stdout


def succeeds(*argv: str | Path, seconds: float = SECONDS) -> bool:
    """Return whether the program exited with 0; for commands that may fail."""
    try:
        run(*argv, seconds=seconds)
    except LabRefusal:
        return False
    return True
