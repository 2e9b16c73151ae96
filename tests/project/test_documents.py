"""The documents are current: generated parts match, and named commands, files and settings exist."""

import re
from collections import Counter
from pathlib import Path

import pytest

from bot.app.site_files import load_site_incidents, load_site_pages, load_site_taxonomy
from bot.settings import ENV_PREFIX, Settings
from kb.taxonomy.loader import load_taxonomy
from tests.project.generated import PARTS, ROOT, marks, rendered
from tests.support.terminal import commands
from tools.checks import CHECKS
from tools.checks.site.filters import load_filters
from tools.checks.site.loader import load_site_checks
from tools.checks.site.rules import load_rules

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))


@pytest.mark.parametrize("document", PARTS)
def test_the_generated_parts_are_current(document: str) -> None:
    text = (ROOT / document).read_text()
    assert all(mark in text for name in PARTS[document] for mark in marks(name))
    assert text == rendered(document, text), "run: python -m tests.project.generated"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_that_is_named_exists(document: str) -> None:
    known = commands().keys()
    named = set(re.findall(r"(?<![@/])\brackmedic ([a-z][a-z-]+)", "\n".join(_code((ROOT / document).read_text()))))
    assert named <= known, named - known


def _code(text: str) -> list[str]:
    """Return code blocks and code words, because prose may use "rackmedic" freely."""
    return re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_and_folder_that_is_named_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    linked = [target for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in target]
    missing = [target for target in linked if not (ROOT / document).parent.joinpath(target).exists()]
    named = set(re.findall(r"`((?:bot|graph|tools|kb|deploy|tests|docs)/[\w./-]*)`", text))
    assert not missing + [name for name in sorted(named) if not (ROOT / name).exists()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_setting_that_is_named_exists(document: str) -> None:
    named = set(re.findall(rf"\b{ENV_PREFIX}([A-Z][A-Z_]+)\b", (ROOT / document).read_text()))
    assert named <= {name.upper() for name in Settings.model_fields} | {"CONFIG", "NO_SKIPS", "CAPTURES"}


def test_the_examples_of_what_a_site_adds_are_read_as_they_stand(tmp_path: Path) -> None:
    text = (ROOT / "docs/extending.md").read_text()
    examples = re.findall(r"```(?:yaml|markdown)\n(.*?)```", text, re.DOTALL)
    for file, example in zip(
        ("checks/site.yaml", "rules/site.yaml", "filters/site.yaml", "taxonomy/site.yaml", "incidents/site.yaml", "pages/r7.md"),
        examples,
        strict=True,
    ):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(example)
    assert list(load_site_checks(tmp_path / "checks", known=CHECKS)) == ["scratch"]
    assert [rule.key for rule in load_rules(tmp_path / "rules")] == ["site.log.lease_lost"]
    assert [one.id for one in load_filters(tmp_path / "filters")] == ["acme_prefetch"]
    assert load_taxonomy(tmp_path / "taxonomy").get_leaf("OTHER.SITE.Scratch_Not_Mounted").checks == ("scratch",)
    taxonomy = load_site_taxonomy(tmp_path)
    assert load_site_incidents(tmp_path, taxonomy)[-1].id == "ours-r7-door-fan"
    assert [page.groups for page in load_site_pages(tmp_path, taxonomy)] == [("r7", "r8")]


def _anchors(document: Path) -> set[str]:
    """Return the headings' anchors as GitHub makes them: lower case, no punctuation, dashes for blanks, repeats
    numbered.
    """
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} (.+)$", re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def _links(document: Path) -> list[tuple[str, str]]:
    """Return (path, anchor) of every relative link and picture outside code."""
    text = re.sub(r"```.*?```|`[^`\n]+`", "", document.read_text(), flags=re.DOTALL)
    return [(path, anchor) for path, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text) if "://" not in path]


def _broken_links(document: Path) -> list[str]:
    broken = []
    for path, anchor in _links(document):
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(f"{path}#{anchor}")
    return broken


@pytest.mark.parametrize("document", [*DOCUMENTS, "CHANGELOG.md"])
def test_every_relative_link_and_its_anchor_leads_somewhere(document: str) -> None:
    assert _broken_links(ROOT / document) == []


def test_a_link_to_a_missing_page_or_heading_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b`, c?\n\n```\n# no heading\n[no](link.md)\n```\n\n## A `b`, c?\n[1](#a-b-c) [2](page.md#a-b-c-1) [3](#no-heading) [4](gone.md)\n"
    )
    assert _broken_links(page) == ["#no-heading", "gone.md#"]


def test_the_index_names_every_page_once() -> None:
    index = ROOT / "docs" / "README.md"
    linked = Counter(path for path, _ in _links(index))
    assert {path: count for path, count in linked.items() if count > 1} == {}
    assert {path.name for path in index.parent.glob("*.md")} - {index.name} == {path for path in linked if "/" not in path}


def test_the_index_has_its_six_parts() -> None:
    parts = re.findall(r"^## (.+)$", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    assert parts == ["Get started", "Use", "Operate", "Extend", "Reference", "Design"]


def test_every_log_event_that_troubleshooting_names_is_written_somewhere() -> None:
    named = set(re.findall(r"`([a-z_]+\.[a-z_]+)`", (ROOT / "docs/troubleshooting.md").read_text()))
    code = "\n".join(path.read_text() for package in ("bot", "graph", "tools") for path in (ROOT / package).rglob("*.py"))
    assert named, "no log event is named"
    assert {event for event in named if f'"{event}"' not in code} == set()


def test_readme_is_short_and_says_words_before_it_uses_them() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert not re.findall(r"\b(?:log-odds|leaf|leaves|rungs?)\b", text)


@pytest.mark.parametrize("document", ["SECURITY.md", "CONTRIBUTING.md"])
def test_security_and_contributing_are_two_pages_each(document: str) -> None:
    lines = (ROOT / document).read_text().splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 160


def test_the_picture_is_there() -> None:
    assert (ROOT / "deploy" / "screenshots" / "thread.png").stat().st_size > 10_000
