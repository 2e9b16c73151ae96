"""Starting the system's programs: fixed argument lists, bounded in time, and a refusal in one line where one fails."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

SECONDS = 60.0


class LabRefusal(Exception):
    """What the lab cannot do, in one sentence that says how to mend it."""


def run(*argv: str | Path, stdin: str = "", seconds: float = SECONDS, env: Mapping[str, str] | None = None) -> str:
    """What it printed. Raises LabRefusal where it fails, hangs or is not there."""
    words = [str(word) for word in argv]
    try:
        ran = subprocess.run(words, input=stdin, capture_output=True, text=True, errors="replace", timeout=seconds, env=env, check=False)
    except FileNotFoundError as why:
        raise LabRefusal(f"{words[0]} is not installed: make setup-rack") from why
    except subprocess.TimeoutExpired as why:
        raise LabRefusal(f"`{' '.join(words)[:200]}` did not end in {seconds:g} s") from why
    if ran.returncode:
        said = (ran.stderr.strip() or ran.stdout.strip() or "it said nothing").splitlines()[-1]
        raise LabRefusal(f"`{' '.join(words)[:200]}` ended with {ran.returncode}: {said[:300]}")
    return ran.stdout


def succeeds(*argv: str | Path, seconds: float = SECONDS) -> bool:
    """Whether it ended with 0; for what may as well fail."""
    try:
        run(*argv, seconds=seconds)
    except LabRefusal:
        return False
    return True
