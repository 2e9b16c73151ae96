"""Rename a function and move it to a new module in a copy of the tree, like an editor's refactoring, to show that
mutants survive it.
"""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("kb", "tools", "graph", "bot", "deploy", "tests")


def copy_tree(to: Path) -> None:
    """Copy product and tests with their compiled modules."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, to / name)


def move_function(tree: Path, module: str, name: str, new_module: str, new_name: str) -> list[Path]:
    """Move the function and return the changed files, rewritten from their syntax trees without comments and layout."""
    old = tree / f"{module.replace('.', '/')}.py"
    source = ast.parse(old.read_text())
    function = next(row for row in source.body if isinstance(row, ast.FunctionDef | ast.AsyncFunctionDef) and row.name == name)
    imports = [row for row in source.body if isinstance(row, ast.Import | ast.ImportFrom)]
    new = tree / f"{new_module.replace('.', '/')}.py"
    new.write_text(ast.unparse(Renamed(name, new_name).visit(ast.Module([*imports, function], []))))
    source.body.remove(function)
    source.body.insert(source.body.index(imports[-1]) + 1, ast.ImportFrom(new_module, [ast.alias(new_name)], 0))
    old.write_text(ast.unparse(Renamed(name, new_name).visit(source)))
    changed = [new, old]
    for path in _python_files(tree):
        text = path.read_text()
        if path not in changed and name in text and (moved := _with_import_moved(text, module, name, new_module, new_name)):
            path.write_text(moved)
            changed.append(path)
    return changed


def _python_files(tree: Path) -> Iterator[Path]:
    for name in PACKAGES:
        yield from (tree / name).rglob("*.py")


def _with_import_moved(text: str, module: str, name: str, new_module: str, new_name: str) -> str:
    """Return the file's text with the function's import moved, or "" if it does not import it."""
    source = ast.parse(text)
    for row in source.body:
        if isinstance(row, ast.ImportFrom) and row.module == module:
            for alias in [alias for alias in row.names if alias.name == name]:
                row.names.remove(alias)
                source.body.insert(source.body.index(row), ast.ImportFrom(new_module, [ast.alias(new_name, alias.asname)], 0))
                if not row.names:
                    source.body.remove(row)
                return ast.unparse(source if alias.asname else Renamed(name, new_name).visit(source))
    return ""


class Renamed(ast.NodeTransformer):
    """Rename a function of the module."""

    def __init__(self, name: str, new_name: str) -> None:
        self._name, self._new_name = name, new_name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._new_name if node.id == self._name else node.id
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self._new_name if node.name == self._name else node.name
        self.generic_visit(node)
        return node
