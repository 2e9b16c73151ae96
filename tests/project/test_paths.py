"""Every file and module that prose names exists."""

import re
from collections.abc import Iterator

import pytest

from tests.project.size import ROOT

PATH = re.compile(r"(?<![\w./-])((?:bot|graph|tools|kb|deploy|tests)/[\w./-]*\w)(?![\w*{}-]|\.\w)")
NAME = re.compile(r"`((?:bot|graph|tools|kb|deploy|tests)(?:\.\w+)+)`")
PLACE_TO_FILL = re.compile(r"[A-Z]{3,}-")
WRITTEN = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "pyproject.toml", "docs/*.md", "deploy/**/*.yaml", "deploy/*.conf")
CODE = tuple(f"{package}/**/*.py" for package in ("bot", "graph", "tools", "kb", "deploy", "tests"))


def texts(patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            yield str(path.relative_to(ROOT)), path.read_text()


def there_is(name: str) -> bool:
    """Return whether a folder, file, module or module member of this dotted name exists."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:n])
        if (module := path.with_name(f"{path.name}.py")).is_file():
            return n == len(parts) or re.search(rf"\b{parts[n]}\b", module.read_text()) is not None
        if path.is_dir():
            return n == len(parts) or re.search(rf"\b{parts[n]}\b", (path / "__init__.py").read_text()) is not None
    return False


@pytest.mark.parametrize("patterns", [WRITTEN, CODE], ids=["documents", "code"])
def test_every_path_and_module_that_is_named_is_there(patterns: tuple[str, ...]) -> None:
    lost = [
        f"{file}: {path}"
        for file, text in texts(patterns)
        for path in PATH.findall(text)
        if not (ROOT / path).exists() and not (ROOT / f"{path}.py").exists() and not PLACE_TO_FILL.search(path)
    ]
    lost += [f"{file}: {name}" for file, text in texts(patterns) for name in NAME.findall(text) if not there_is(name)]
    assert lost == []


def test_a_name_is_a_module_or_what_stands_in_it() -> None:
    assert there_is("bot.slack.client")
    assert there_is("bot.slack.client.build_slack_client")
    assert there_is("tools.checks.CHECKS")
    assert not there_is("bot.slack.nowhere")
    assert not there_is("bot.slack.client.Nothing")
    assert PATH.findall("see bot/slack/client.py, tests/ or tools/checks/*.py and /usr/bot/x") == ["bot/slack/client.py", "tools/checks"]
