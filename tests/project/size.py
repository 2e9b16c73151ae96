"""Print the size of the code: `python -m tests.project.size` lists lines and function lengths by package, and the largest and smallest modules.

The figures inform reviewers. Nothing fails because of them.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("kb", "tools", "graph", "bot", "deploy", "tests")
LISTED_MODULES = 10


@dataclass(frozen=True, slots=True)
class Module:
    """One file: its path, its lines, and the lines of each function in it."""

    path: Path
    lines: int
    functions: tuple[int, ...]


def modules(package: str) -> Iterator[Module]:
    for path in sorted((ROOT / package).rglob("*.py")):
        text = path.read_text()
        found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        yield Module(path.relative_to(ROOT), text.count("\n"), tuple((f.end_lineno or f.lineno) - f.lineno + 1 for f in found))


def percentile(values: list[int], part: float) -> int:
    """Return the percentile `part` (0 to 1) of the values; 0 without values."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0


def main() -> None:
    """Print one table by package, then the largest and smallest modules of the product."""
    product: list[Module] = []
    print("| package | modules | lines | module median / max | functions | median | p90 | longest |\n|---|---|---|---|---|---|---|---|")
    for package in PACKAGES:
        rows = list(modules(package))
        product += rows if package != "tests" else []
        sizes, lengths = [row.lines for row in rows], [n for row in rows for n in row.functions]
        print(
            f"| {package} | {len(rows)} | {sum(sizes)} | {percentile(sizes, 0.5)} / {max(sizes)} | {len(lengths)} "
            f"| {percentile(lengths, 0.5)} | {percentile(lengths, 0.9)} | {max(lengths)} |"
        )
    by_size = sorted((row for row in product if row.path.name != "__init__.py"), key=lambda row: row.lines)
    for title, rows in (("largest", by_size[: -LISTED_MODULES - 1 : -1]), ("smallest", by_size[:LISTED_MODULES])):
        print(f"{title}: " + ", ".join(f"{row.path} {row.lines}" for row in rows))


if __name__ == "__main__":
    main()
