"""Text from hosts and people is split into lines by one function only."""

import ast

from kb.needle_search import split_lines
from tests.project.size import ROOT

OWN = {
    "tools/evidence.py": "its own JSON and its own tally",
    "tools/checks/exclusive/probes/step.py": "runs on a node, where nothing of ours is",
    "kb/fact_text.py": "its own table",
    "kb/catalogues/table.py": "tables of ours",
    "kb/fact_keys.py": "its own table",
}


def test_text_from_outside_is_split_by_one_function() -> None:
    paths = [path for package in ("bot", "graph", "tools", "kb") for path in sorted((ROOT / package).rglob("*.py"))]
    split = [
        f"{name}:{node.lineno}"
        for path in paths
        if (name := str(path.relative_to(ROOT))) not in OWN
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.expr) and ((isinstance(node, ast.Attribute) and node.attr == "splitlines") or _holds_such_code(node))
    ]
    assert split == []


def _holds_such_code(node: ast.AST) -> bool:
    """Return whether the node is an embedded program that calls splitlines."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "splitlines(" in node.value


def test_a_program_within_a_string_is_read_as_well() -> None:
    program = "PROBE = 'for row in said.splitlines():\\n pass'"
    assert any(map(_holds_such_code, ast.walk(ast.parse(program))))


def test_only_a_new_line_ends_a_line() -> None:
    assert split_lines("a\x0bb\x0c\x1cc\x85d\u2028e\u2029f\rg\r\nh\n\ni\n") == ["a\x0bb\x0c\x1cc\x85d\u2028e\u2029f\rg", "h", "", "i"]
    assert split_lines("") == []
    assert split_lines("a") == ["a"]
