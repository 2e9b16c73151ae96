"""Examples on the pages work as printed."""

import re
from pathlib import Path

import pytest
import yaml

from bot.settings import load_settings
from tests.project.size import ROOT
from tools.inventory.inventory import parse_inventory

YAML = re.compile(r"^( *)```yaml\n(.*?)^\1```", re.M | re.S)
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def inventories(page: Path) -> list[dict[str, object]]:
    """Return the page's complete inventories; fragments have no groups."""
    shown = [yaml.safe_load(text) for _, text in YAML.findall(page.read_text())]
    return [document for document in shown if isinstance(document, dict) and "groups" in document]


@pytest.mark.parametrize("page", [page for page in PAGES if inventories(page)], ids=lambda page: page.name)
def test_an_inventory_that_a_page_shows_can_be_read(page: Path) -> None:
    for document in inventories(page):
        assert parse_inventory(document).hosts


def test_pages_that_show_one_are_found() -> None:
    assert {"README.md", "inventory.md", "rollout.md"} <= {page.name for page in PAGES if inventories(page)}


def test_settings_that_the_rollout_names_exist(tmp_path: Path) -> None:
    file = tmp_path / "rackmedic.yaml"
    file.write_text("data_dir: /var/lib/rackmedic-bot\n")
    assert load_settings(file, {}).data_dir == Path("/var/lib/rackmedic-bot")
