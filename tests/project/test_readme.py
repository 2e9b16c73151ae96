"""README says what is so: its generated parts are current, and the commands it names exist."""

import re

from bot.cli import app
from tests.project.readme_parts import PARTS, README, rendered


def test_the_generated_parts_are_current() -> None:
    text = README.read_text()
    assert all(f"<!-- {name}:begin -->" in text for name in PARTS)
    assert text == rendered(text), "run: python -m tests.project.readme_parts"


def test_every_command_that_readme_names_exists() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {str(group.name or (group.typer_instance and group.typer_instance.info.name)) for group in app.registered_groups}
    named = set(re.findall(r"(?<!@)rackmedic ([a-z][a-z-]+)", README.read_text()))
    assert named <= known, named - known


def test_the_picture_is_there() -> None:
    assert (README.parent / "deploy" / "screenshots" / "thread.png").stat().st_size > 10_000
