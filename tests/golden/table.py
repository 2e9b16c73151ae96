"""The table of golden texts: a folder of tests/golden/expected and the function that renders its files."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.golden import answers, cards, reports, terminal

EXPECTED = Path(__file__).parent / "expected"

# folder → function that returns texts by file name
GROUPS: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "cards/approvals": cards.approvals,
    "cards/incidents": cards.incidents,
    "cards/notes": cards.notes_and_home,
    "cards/outside": cards.outside,
    "cards/cases": cards.cases,
    "answers": answers.answers,
    "help": terminal.help_pages,
    "terminal": terminal.outputs,
    "reports": reports.reports,
}


def read(group: str) -> dict[str, str]:
    """Return the expected texts of a group by file name."""
    return {path.name: path.read_text() for path in sorted((EXPECTED / group).glob("*"))}


def renew(group: str) -> None:
    """Write the group's files and remove those without a row."""
    folder = EXPECTED / group
    folder.mkdir(parents=True, exist_ok=True)
    rendered = GROUPS[group]()
    for path in folder.iterdir():
        if path.name not in rendered:
            path.unlink()
    for name, text in rendered.items():
        (folder / name).write_text(text)
