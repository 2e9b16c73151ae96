"""`make audit`: check uv.lock for vulnerabilities in PyPI's advisories with pip-audit. Needs the network, so it is not
in the suite or CI.

Passes only if every package was looked up and has no vulnerability except those in `audit_allowed.toml`, each with a
reason and an end date. A failed lookup, an expired allowance and an unneeded one are failures.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from tests.project.lock import Locked, locked

ALLOWED = Path(__file__).parent / "audit_allowed.toml"


@dataclass(frozen=True, slots=True)
class Allowance:
    """A vulnerability accepted until a date."""

    id: str
    package: str
    reason: str
    until: date

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> "Allowance":
        made = cls(**row)
        if not (made.id and made.package and made.reason.strip()) or type(made.until) is not date:
            raise ValueError(f"{row}: needs id, package, a reason, and until as a day")
        return made


def allowed(text: str) -> list[Allowance]:
    return [Allowance.read(row) for row in tomllib.loads(text).get("allow", ())]


def judge(answer: Mapping[str, Any], wanted: Collection[tuple[str, str]], allowances: Sequence[Allowance], today: date) -> list[str]:
    """Return the problems, one per line. `answer`: pip-audit's JSON; `wanted`: (name, version) of every queried
    package.
    """
    rows = answer.get("dependencies", ())
    looked = {(row["name"], row["version"]) for row in rows if "vulns" in row and "skip_reason" not in row}
    wrong = [f"{name} {version}: not looked up" for name, version in sorted({*wanted} - looked)]
    found = {(row["name"], vuln["id"]): f"{row['name']} {row['version']}: {vuln['id']}" for row in rows for vuln in row.get("vulns", ())}
    names = {(row["name"], alias): vuln["id"] for row in rows for vuln in row.get("vulns", ()) for alias in vuln.get("aliases", ())}
    for one in allowances:
        real = (one.package, names.get((one.package, one.id), one.id))
        if one.until < today:
            wrong.append(f"{one.package}: the allowance of {one.id} ended on {one.until}")
        elif found.pop(real, None) is None:
            wrong.append(f"{one.package}: {one.id} is allowed and is not there any more; take the row out")
    return wrong + sorted(found.values())


def requirements(packages: Sequence[Locked]) -> list[str]:
    """Return as few requirement files as possible, none naming a package twice: the lock holds several versions for
    several Pythons.
    """
    files: list[dict[str, str]] = []
    for one in packages:
        line = " ".join([f"{one.name}=={one.version}", *(f"--hash=sha256:{digest}" for digest in sorted(set(one.digests.values())))])
        room = next((file for file in files if one.name not in file), None)
        if room is None:
            files.append(room := {})
        room[one.name] = line
    return ["\n".join(file.values()) + "\n" for file in files]


def ask(text: str) -> Mapping[str, Any] | str:
    """Return pip-audit's answer for one file, or why there is none."""
    with tempfile.TemporaryDirectory(prefix="rackmedic-audit-") as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text(text)
        command = [sys.executable, "-m", "pip_audit", "--strict", "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
        ran = subprocess.run([*command, "--format", "json", "-r", str(file)], capture_output=True, text=True, check=False)
    try:
        answer: Mapping[str, Any] = json.loads(ran.stdout)
    except ValueError:
        return f"pip-audit did not answer (exit {ran.returncode}): {' '.join(ran.stderr.split())[-600:]}"
    return answer


def main() -> int:
    """Print the problems and return 1 if there are any."""
    packages, rows, wrong = locked(), list[Any](), list[str]()
    for text in requirements(packages):
        answer = ask(text)
        if isinstance(answer, str):
            wrong.append(answer)
        else:
            rows += answer["dependencies"]
    wanted = {(one.name, one.version) for one in packages}
    wrong += judge({"dependencies": rows}, wanted, allowed(ALLOWED.read_text()), datetime.now(UTC).date())
    print("\n".join(wrong) or f"{len(wanted)} locked packages were looked up; none has a known vulnerability that is not allowed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
