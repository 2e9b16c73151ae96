"""The product with seeded bugs in it, imported whole beside the one that is loaded: nothing is patched, and nothing of it stays."""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]
OURS = frozenset({"bot", "graph", "tools", "kb", "deploy", "tests"})
Edit = tuple[str, str, str]
"""A module, what stands in it once, and what stands there instead."""


class Stale(ValueError):
    """An edit does not fit exactly once: the table of bugs is older than the code."""


def sources_with(edits: Sequence[Edit]) -> dict[str, str]:
    """The changed modules' texts."""
    found: dict[str, str] = {}
    for module, before, after in edits:
        text = found.get(module) or (ROOT / f"{module.replace('.', '/')}.py").read_text()
        if (times := text.count(before)) != 1:
            raise Stale(f"{before!r} is {times} times in {module}, it must be there once")
        found[module] = text.replace(before, after)
    return found


class Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the changed modules, and no others, before anybody else does."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._sources:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=str(ROOT / f"{fullname.replace('.', '/')}.py"))

    def get_source(self, fullname: str) -> str:
        return self._sources[fullname]

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._sources[fullname], str(ROOT / f"{fullname.replace('.', '/')}.py"), "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(ROOT / f"{module.__name__.replace('.', '/')}.py")
        super().exec_module(module)


@contextlib.contextmanager
def second_world(edits: Sequence[Edit]) -> Iterator[Callable[[str], ModuleType]]:
    """All of our modules anew, with these edits; gives what imports one of them by name."""
    finder = Changed(sources_with(edits))
    ours = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in OURS}
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]
        sys.modules.update(ours)
