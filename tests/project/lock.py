"""uv.lock as values: packages with digests, and what ships with RackMedic."""

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
    """One version of a package. `digests`: file URL and SHA-256."""

    name: str
    version: str
    digests: Mapping[str, str]
    needs: Sequence[tuple[str, str]]  # dependencies as (name, version); the version is empty if only one is locked


def locked(file: Path = LOCK) -> list[Locked]:
    """Return every locked package except RackMedic."""
    return [_locked(row, ()) for row in _rows(file) if row["name"] != US]


def shipped(file: Path = LOCK) -> list[Locked]:
    """Return RackMedic's transitive runtime dependencies, for every locked Python and platform."""
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
