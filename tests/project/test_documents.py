"""The documents are current: generated parts match, and named commands, files and settings exist."""

import re
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


def test_readme_is_short_and_says_words_before_it_uses_them() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 200
    assert not re.findall(r"\b(?:log-odds|leaf|leaves|rungs?)\b", text)


def test_the_picture_is_there() -> None:
    assert (ROOT / "deploy" / "screenshots" / "thread.png").stat().st_size > 10_000
