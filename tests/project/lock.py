"""uv.lock as values: what is locked, with its digests, and what of it is installed where RackMedic runs."""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.project.size import ROOT

LOCK = ROOT / "uv.lock"
US = "rackmedic"


@dataclass(frozen=True, slots=True)
class Locked:
    """One version of a package. `digests`: URL of a file of it → its SHA-256."""

    name: str
    version: str
    digests: Mapping[str, str]
    needs: Sequence[tuple[str, str]]
    """What it needs itself, as (name, version); the version is empty where only one is locked."""


def locked(file: Path = LOCK) -> list[Locked]:
    """Every package of the lock but RackMedic itself."""
    return [_locked(row, ()) for row in _rows(file) if row["name"] != US]


def shipped(file: Path = LOCK) -> list[Locked]:
    """What is installed beside RackMedic where it runs: what it needs, and what that needs, for every Python and platform that is locked."""
    rows = _rows(file)
    [root] = [row for row in rows if row["name"] == US]
    found: dict[tuple[str, str], Locked] = {}
    wanted = list(root["dependencies"])
    seen: set[tuple[str, str, tuple[str, ...]]] = set()
    while wanted:
        one = wanted.pop()
        extras = tuple(one.get("extra", ()))
        for row in rows:
            key = (row["name"], row["version"], extras)
            if row["name"] == one["name"] and one.get("version", row["version"]) == row["version"] and key not in seen:
                seen.add(key)
                found[key[:2]] = _locked(row, extras)
                wanted += [*row.get("dependencies", ()), *_of_extras(row, extras)]
    return [found[key] for key in sorted(found)]


def _rows(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads(file.read_text())["package"]
    return rows


def _of_extras(row: Mapping[str, Any], extras: Collection[str]) -> list[dict[str, Any]]:
    return [one for extra in extras for one in row.get("optional-dependencies", {}).get(extra, ())]


def _locked(row: Mapping[str, Any], extras: Collection[str]) -> Locked:
    files = [*row.get("wheels", ()), *([row["sdist"]] if "sdist" in row else [])]
    digests = {one["url"]: one["hash"].removeprefix("sha256:") for one in files}
    needs = [(one["name"], one.get("version", "")) for one in [*row.get("dependencies", ()), *_of_extras(row, extras)]]
    return Locked(row["name"], row["version"], digests, tuple(needs))
