"""How the house stands: `python -m tests.project.rooms [FOLDER]` prints its folders, its rooms and the arrows between them, the class
names that stand twice, what rooms take from each other, and the Protocols that only one class keeps. FOLDER is another checkout, to compare with."""

import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("bot", "graph", "tools", "kb", "deploy")


@dataclass(frozen=True, slots=True)
class Source:
    """One module: its dotted name, the folder it lies in, also dotted, and what was parsed."""

    name: str
    folder: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """As the import contracts see it: what lies directly in a package, be it a folder with all that is in it or a file; in deploy, whose
        rooms lie deeper, the folder."""
        return self.folder if self.name.startswith("deploy.") else ".".join(self.name.split(".")[:2])

    @property
    def classes(self) -> list[ast.ClassDef]:
        """The classes at its top."""
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]


def sources(root: Path = ROOT, packages: Iterable[str] = PACKAGES) -> list[Source]:
    """Every module of the product."""
    return [_source(root, path) for package in packages for path in sorted((root / package).rglob("*.py"))]


def rooms(root: Path = ROOT, packages: Iterable[str] = PACKAGES) -> dict[str, Path]:
    """Folder, dotted → the file that says what it is."""
    found = [path for package in packages for path in sorted((root / package).rglob("__init__.py"))]
    return {".".join(path.relative_to(root).parts[:-1]): path for path in found}


def _source(root: Path, path: Path) -> Source:
    folder = ".".join(path.relative_to(root).parts[:-1])
    return Source(folder if path.stem == "__init__" else f"{folder}.{path.stem}", folder, ast.parse(path.read_text()))


def files_in(house: Iterable[Source]) -> Counter[str]:
    """Folder → its modules; what only joins them, `__init__.py`, is not counted."""
    return Counter(one.folder for one in house if one.name != one.folder)


def imports(house: Iterable[Source]) -> Iterator[tuple[str, str]]:
    """(module, module that it imports), each pair once, inside the product; also those that a function makes when it runs."""
    house = list(house)
    names = {one.name for one in house}
    for one in house:
        yield from sorted({(one.name, other) for other in _imported(one.tree, names) if other != one.name})


def _imported(tree: ast.Module, names: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in inside if name in names)
            if node.module in names and any(name not in names for name in inside):
                yield node.module


def arrows(house: Iterable[Source]) -> Counter[tuple[str, str]]:
    """(room, room that it imports) → by how many imports."""
    house = list(house)
    room_of = {one.name: one.room for one in house}
    found = Counter((room_of[one], room_of[other]) for one, other in imports(house))
    return Counter({pair: n for pair, n in found.items() if pair[0] != pair[1]})


def circles(found: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Rooms that import each other, however long the way round is."""
    ahead: dict[str, set[str]] = {}
    for one, other in found:
        ahead.setdefault(one, set()).add(other)
    reach = {room: _reach(room, ahead) for room in ahead}
    rings = {tuple(sorted(other for other in reach[room] if room in reach.get(other, ()))) for room in ahead if room in reach[room]}
    return [list(ring) for ring in sorted(rings)]


def _reach(room: str, ahead: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = list(ahead.get(room, ()))
    while todo:
        if (at := todo.pop()) not in seen:
            seen.add(at)
            todo += ahead.get(at, ())
    return seen


def floors(found: Iterable[tuple[str, str]]) -> int:
    """How many rooms stand on top of each other, at most; what goes in a circle is one."""
    below: dict[str, set[str]] = {}
    for one, other in found:
        below.setdefault(one, set()).add(other)
    reach = {room: _reach(room, below) for room in below}

    @cache
    def height(room: str) -> int:
        return 1 + max((height(other) for other in below.get(room, ()) if room not in reach.get(other, ())), default=0)

    return max(map(height, below), default=1)


def faces(house: Iterable[Source]) -> dict[str, set[str]]:
    """Room → what other rooms take from it, as `module.name`."""
    house = list(house)
    room_of = {one.name: one.room for one in house}
    found: dict[str, set[str]] = {}
    for one in house:
        for module, name in _taken(one.tree, room_of.keys()):
            if room_of[module] != one.room:
                found.setdefault(room_of[module], set()).add(f"{module}.{name}")
    return found


def _taken(tree: ast.Module, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """(module of the product, name taken from it), also by way of the module."""
    for node in [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]:
        for alias in node.names:
            inside, called = f"{node.module}.{alias.name}", alias.asname or alias.name
            if inside in names:
                yield from ((inside, name) for name in _attributes(tree, called))
            elif node.module in names:
                yield str(node.module), alias.name


def _attributes(tree: ast.Module, called: str) -> set[str]:
    return {
        row.attr for row in ast.walk(tree) if isinstance(row, ast.Attribute) and isinstance(row.value, ast.Name) and row.value.id == called
    }


def repeated_classes(house: Iterable[Source]) -> dict[str, list[str]]:
    """Public class name → the modules that make one, where they are several."""
    found: dict[str, list[str]] = {}
    for one in house:
        for made in one.classes:
            if not made.name.startswith("_"):
                found.setdefault(made.name, []).append(one.name)
    return {name: sorted(modules) for name, modules in sorted(found.items()) if len(modules) > 1}


def protocols(house: Iterable[Source]) -> dict[str, list[str]]:
    """Protocol, as `module.Name` → the classes of the product that have every method of it. A call alone is any function's: left out."""
    house = list(house)
    made = [(one.name, node) for one in house for node in one.classes]
    bases = {node.name: node for _, node in made}
    asked = {f"{name}.{node.name}": _asks(node) for name, node in made if _is_protocol(node)}
    offered = {f"{name}.{node.name}": _offers(node, bases) for name, node in made if not _is_protocol(node)}
    return {
        name: sorted(other for other, has in offered.items() if methods <= has)
        for name, methods in sorted(asked.items())
        if methods - {"__call__"}
    }


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(_name(base) == "Protocol" for base in node.bases)


def _name(base: ast.expr) -> str:
    inner = base.value if isinstance(base, ast.Subscript) else base
    return inner.attr if isinstance(inner, ast.Attribute) else inner.id if isinstance(inner, ast.Name) else ""


def _asks(node: ast.ClassDef) -> set[str]:
    methods = {row.name for row in node.body if isinstance(row, ast.FunctionDef | ast.AsyncFunctionDef)}
    return methods | {row.target.id for row in node.body if isinstance(row, ast.AnnAssign) and isinstance(row.target, ast.Name)}


def _offers(node: ast.ClassDef, bases: Mapping[str, ast.ClassDef]) -> set[str]:
    """What a class has: its own, what it sets on itself, and what it inherits inside the product."""
    own = _asks(node) | {row.attr for row in ast.walk(node) if isinstance(row, ast.Attribute) and isinstance(row.ctx, ast.Store)}
    above = [bases[_name(base)] for base in node.bases if _name(base) in bases and bases[_name(base)] is not node]
    return own.union(*(_offers(base, bases) for base in above))


def main() -> None:
    """Print the figures as Markdown."""
    house = sources(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    files, found = files_in(house), arrows(house)
    print(f"{len(house)} modules in {len(files)} folders; {len(list(imports(house)))} imports between modules\n")
    print("| package | files | folders | largest folders | rooms | arrows | floors |\n|---|---|---|---|---|---|---|")
    for package in PACKAGES:
        mine = Counter({folder: n for folder, n in files.items() if _package(folder) == package})
        inside = [pair for pair in found if {_package(room) for room in pair} == {package}]
        rooms = {one.room for one in house if _package(one.name) == package and one.room != package}
        largest = ", ".join(f"{folder.replace('.', '/')} {n}" for folder, n in mine.most_common(3))
        print(f"| {package} | {mine.total()} | {len(mine)} | {largest} | {len(rooms)} | {len(inside)} | {floors(inside)} |")
    print("\nrooms that import each other: " + ("; ".join(" ↔ ".join(ring) for ring in circles(found)) or "none"))
    widest = sorted(faces(house).items(), key=lambda row: -len(row[1]))[:12]
    print("names that other rooms take: " + ", ".join(f"{room} {len(names)}" for room, names in widest))
    repeated, kept = repeated_classes(house), protocols(house)
    print(f"\npublic class names that stand twice: {len(repeated)}")
    print("".join(f"  {name}: {', '.join(modules)}\n" for name, modules in repeated.items()), end="")
    single = {name: by for name, by in kept.items() if len(by) == 1}
    print(f"\nProtocols: {len(kept)}, of which one class alone keeps {len(single)}")
    print("".join(f"  {name}: {by[0]}\n" for name, by in single.items()), end="")


def _package(name: str) -> str:
    return name.split(".")[0]


if __name__ == "__main__":
    main()
