"""The SBOM lists everything that ships, and the audit passes nothing that was not looked up."""

import importlib.metadata
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.project import audit, sbom
from tests.project.lock import US, Locked, locked, shipped
from tests.project.size import ROOT

TODAY = date(2026, 5, 20)
SILENT = {"resvg-py", "taskiq-dependencies", "tiktoken"}  # packages with a licence text but no licence name
WANTED = [("a", "1.0"), ("b", "2.0")]


@pytest.fixture(scope="module")
def components() -> Mapping[tuple[str, str], Mapping[str, Any]]:
    return {(row["name"], row["version"]): row for row in json.loads(sbom.document(shipped()))["components"]}


def test_the_sbom_names_every_package_that_ships_with_version_and_digests(components: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    assert components.keys() == {(one.name, one.version) for one in shipped()}
    for (name, version), row in components.items():
        digests = [digest["content"] for ref in row["externalReferences"] for digest in ref["hashes"]]
        assert digests, name
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in digests)
        assert row["purl"] == f"pkg:pypi/{name}@{version}"


def test_every_installed_dependency_ships(components: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    """Computed from the packages' own metadata, not from the lock."""
    needed = {(name, importlib.metadata.version(name)) for name in installed(Requirement(US), set())} - {
        (US, importlib.metadata.version(US))
    }
    assert len(needed) > 40
    assert needed <= components.keys()


def test_the_sbom_has_the_licence_of_every_installed_package(components: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    here = set(installed(Requirement(US), set())) - {US}
    assert {name for name, _ in components if name in here and not sbom.licence(name)} <= SILENT
    assert [name for (name, _), row in components.items() if sbom.licence(name) and not row.get("licenses")] == []


def test_what_only_developers_use_does_not_ship_and_is_locked_all_the_same() -> None:
    names = {one.name for one in locked()}
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]
    asked = {Requirement(one).name for one in dev}
    assert asked <= names
    assert not {"pytest", "mypy", "ruff", "pip-audit", "hypothesis"} & {one.name for one in shipped()}
    assert all(one.digests for one in locked())


def installed(wanted: Requirement, seen: set[tuple[str, str]]) -> Iterator[str]:
    """Yield the installed transitive dependencies of a package."""
    for extra in ("", *wanted.extras):
        if (wanted.name, extra) in seen:
            continue
        seen.add((wanted.name, extra))
        yield re.sub(r"[-_.]+", "-", wanted.name).lower()
        for line in importlib.metadata.requires(wanted.name) or ():
            one = Requirement(line)
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                yield from installed(one, seen)


def answered(*vulns: str, **more: Any) -> dict[str, Any]:
    rows = [{"name": "a", "version": "1.0", "vulns": [{"id": one, "aliases": [f"CVE-{one}"]} for one in vulns]}]
    return {"dependencies": [*rows, {"name": "b", "version": "2.0", **(more or {"vulns": []})}]}


def allow(id_: str, until: date = TODAY, package: str = "a") -> audit.Allowance:
    return audit.Allowance(id_, package, "we never call it", until)


def test_what_was_looked_up_and_has_nothing_is_good() -> None:
    assert audit.judge(answered(), WANTED, (), TODAY) == []


def test_what_could_not_be_looked_up_is_no_pass() -> None:
    assert audit.judge(answered(skip_reason="not on PyPI"), WANTED, (), TODAY) == ["b 2.0: not looked up"]
    assert audit.judge({}, WANTED, (), TODAY) == ["a 1.0: not looked up", "b 2.0: not looked up"]
    assert audit.judge(answered(), [*WANTED, ("b", "3.0")], (), TODAY) == ["b 3.0: not looked up"]


def test_a_vulnerability_fails_until_it_is_allowed_by_its_id_or_another_name_of_it() -> None:
    assert audit.judge(answered("G1"), WANTED, (), TODAY) == ["a 1.0: G1"]
    assert audit.judge(answered("G1"), WANTED, [allow("G1")], TODAY) == []
    assert audit.judge(answered("G1"), WANTED, [allow("CVE-G1")], TODAY) == []
    assert audit.judge(answered("G1", "G2"), WANTED, [allow("G1")], TODAY) == ["a 1.0: G2"]
    assert audit.judge(answered("G1"), WANTED, [allow("G1", package="b")], TODAY)[-1] == "a 1.0: G1"


def test_an_allowance_ends_and_one_that_nothing_needs_is_taken_out() -> None:
    assert audit.judge(answered("G1"), WANTED, [allow("G1", date(2026, 5, 19))], TODAY) == [
        "a: the allowance of G1 ended on 2026-05-19",
        "a 1.0: G1",
    ]
    assert audit.judge(answered(), WANTED, [allow("G9")], TODAY) == ["a: G9 is allowed and is not there any more; take the row out"]


def test_the_list_of_allowances_can_be_read_and_every_row_has_a_reason_and_a_day() -> None:
    audit.allowed(audit.ALLOWED.read_text())
    for text in ('id = "x"\npackage = "a"\nreason = " "\nuntil = 2026-05-20', 'id = "x"\npackage = "a"\nreason = "r"\nuntil = "soon"'):
        with pytest.raises(ValueError, match="a reason, and until as a day"):
            audit.allowed(f"[[allow]]\n{text}\n")


def test_every_locked_version_is_asked_about_with_its_digests() -> None:
    files = audit.requirements(
        [Locked("a", "1", {"u": "0" * 64}, ()), Locked("a", "2", {"u": "1" * 64}, ()), Locked("b", "1", {"u": "2" * 64}, ())]
    )
    assert files == [f"a==1 --hash=sha256:{'0' * 64}\nb==1 --hash=sha256:{'2' * 64}\n", f"a==2 --hash=sha256:{'1' * 64}\n"]
    assert sum(text.count("==") for text in audit.requirements(locked())) == len(locked())
