"""Every command prints through one of two printers, which make terminal control and invisible characters visible;
checked in the syntax tree.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.size import ROOT

PRINTERS = ("bot/cli/command_runtime.py", "bot/cli/safe_console.py")
ELSEWHERE = {
    "bot/slack/manifest.py": "prints the app's manifest, which is ours, when it is called as a module",
    "bot/cli/main.py": "prints the version",
    "bot/app/logs.py": "hands standard error to the loggers; every field is cleaned there",
}
STREAMS = frozenset({"sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write", "sys.stderr.buffer.write", "sys.stdout.writelines"})
MODULES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "bot").rglob("*.py"))


def doors(tree: ast.AST) -> Iterator[str]:
    """Yield printing calls, and printing functions passed as values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in STREAMS or called == "Console" or called in ("typer.echo", "typer.secho", "click.echo", "click.secho"):
                yield called
        if isinstance(node, ast.Name) and node.id == "print" and isinstance(node.ctx, ast.Load):
            yield "print"
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("typer.echo", "typer.secho", "click.echo"):
            yield ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and node.module == "rich" and any(name.name == "print" for name in node.names):
            yield "rich.print"


@pytest.mark.parametrize("module", [module for module in MODULES if module not in (*PRINTERS, *ELSEWHERE)])
def test_nothing_else_prints(module: str) -> None:
    found = list(doors(ast.parse((ROOT / module).read_text())))
    assert not found, f"{module} prints by {found[0]}: use bot.cli.command_runtime.print_text or bot.cli.safe_console.open_console"


def test_what_may_print_is_there() -> None:
    assert [name for name in (*PRINTERS, *ELSEWHERE) if not Path(ROOT / name).exists()] == []
