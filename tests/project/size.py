"""How large the code is: `python -m tests.project.size` prints lines, modules and function lengths per package."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("kb", "tools", "graph", "bot", "deploy", "tests")


@dataclass(frozen=True, slots=True)
class Module:
    """One file: its lines, and every function in it as (name, lines)."""

    path: Path
    lines: int
    functions: tuple[tuple[str, int], ...]


def modules(package: str) -> Iterator[Module]:
    """Every module of a package."""
    for path in sorted((ROOT / package).rglob("*.py")):
        text = path.read_text()
        found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        yield Module(path.relative_to(ROOT), text.count("\n"), tuple((f.name, (f.end_lineno or f.lineno) - f.lineno + 1) for f in found))


def share(values: list[int], part: float) -> int:
    """The value below which that part of them lies."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0


def main() -> None:
    """Print a Markdown table."""
    print("| package | modules | lines | module median / max | functions | median | p90 | longest |\n|---|---|---|---|---|---|---|---|")
    for package in PACKAGES:
        rows = list(modules(package))
        sizes, lengths = [row.lines for row in rows], [n for row in rows for _, n in row.functions]
        print(
            f"| {package} | {len(rows)} | {sum(sizes)} | {share(sizes, 0.5)} / {max(sizes)} | {len(lengths)} "
            f"| {share(lengths, 0.5)} | {share(lengths, 0.9)} | {max(lengths)} |"
        )


if __name__ == "__main__":
    main()
