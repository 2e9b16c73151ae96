"""The house keeps its shape: every room says what it is, no folder is a hall, and no rooms stand on each other in a circle."""

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.project.rooms import Source, arrows, circles, faces, files_in, floors, imports, protocols, repeated_classes, rooms, sources

MOST_FILES = 16
"""What one takes in at a glance. The incident's nodes, the engine and Slack's listeners have a dozen or so."""
MOST_ROWS = 32
CATALOGUES = frozenset({"bot.terminal", "tools.checks", "deploy.sandbox.cluster.faults", "deploy.sandbox.cluster.render"})
"""Files that are all alike, one for each command, subsystem or kind of fault: looked up by name, never read through."""
house = cache(sources)
"""The product, parsed when a test first asks: to collect the tests is not to run them."""


@pytest.mark.parametrize("room", sorted(rooms()))
def test_every_room_says_in_a_sentence_or_two_what_it_is(room: str) -> None:
    told = (ast.get_docstring(ast.parse(rooms()[room].read_text())) or "").partition("\n\n")[0]
    assert len(told) > len("Room.")
    assert 1 <= len(re.findall(r"[.!?](?=\s|$)", told)) <= 2


def test_every_folder_with_modules_is_a_room() -> None:
    assert files_in(house()).keys() <= rooms().keys()


def test_no_folder_is_a_hall() -> None:
    files = files_in(house())
    assert {folder: n for folder, n in files.items() if n > (MOST_ROWS if folder in CATALOGUES else MOST_FILES)} == {}


def test_no_rooms_stand_on_each_other_in_a_circle() -> None:
    assert circles(arrows(house())) == []


def a_house(files: Mapping[str, str]) -> list[Source]:
    """Modules by dotted name; one that others lie in is a folder."""
    folders = {name.rpartition(".")[0] for name in files}
    return [Source(name, name if name in folders else name.rpartition(".")[0], ast.parse(text)) for name, text in files.items()]


def test_arrows_are_counted_between_rooms_and_circles_are_found_however_long() -> None:
    house = a_house(
        {
            "bot": "",
            "bot.desk": "",
            "bot.desk.inbox": "from bot.store import keys\nfrom bot.store.keys import Names\nimport os",
            "bot.desk.lease": "from bot.desk.inbox import Inbox\ndef late():\n    from bot.store import keys",
            "bot.store": "",
            "bot.store.keys": "from bot.refusal import Refusal",
            "bot.refusal": "",
        }
    )
    assert arrows(house) == {("bot.desk", "bot.store"): 2, ("bot.store", "bot.refusal"): 1}
    assert ("bot.desk.lease", "bot.desk.inbox") in set(imports(house))
    assert (circles(arrows(house)), floors(arrows(house))) == ([], 3)
    assert circles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]) == [["a", "b", "c"]]
    assert files_in(house) == {"bot": 1, "bot.desk": 2, "bot.store": 1}


def test_what_other_rooms_take_from_a_room_is_its_face() -> None:
    house = a_house(
        {
            "bot.store": "",
            "bot.store.keys": "class Names: ...\nclass Inner: ...",
            "bot.store.store": "from bot.store.keys import Inner",
            "bot.desk": "",
            "bot.desk.inbox": "from bot.store import keys as k\nfrom bot.store.store import open_store\nk.Names()",
        }
    )
    assert faces(house) == {"bot.store": {"bot.store.keys.Names", "bot.store.store.open_store"}}


def test_names_that_stand_twice_and_protocols_that_one_class_keeps_are_found() -> None:
    house = a_house(
        {
            "bot.a": "class Row: ...\nclass _Own: ...\nclass Clock(Protocol):\n    def now(self): ...\nclass Call(Protocol):\n    def __call__(self): ...",
            "bot.b": "class Row: ...\nclass _Own: ...\nclass Base:\n    def now(self): ...",
            "bot.c": "class Kept(Base): ...",
        }
    )
    assert repeated_classes(house) == {"Row": ["bot.a", "bot.b"]}
    assert protocols(house) == {"bot.a.Clock": ["bot.b.Base", "bot.c.Kept"]}


def test_the_figures_can_be_taken_of_another_checkout(tmp_path: Path) -> None:
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot" / "__init__.py").write_text('"""People."""')
    (tmp_path / "bot" / "cli.py").write_text("import bot")
    assert [(one.name, one.room) for one in sources(tmp_path)] == [("bot", "bot"), ("bot.cli", "bot.cli")]
