"""External arms: `package.module:Class` or `path/to/file.py:Class`, a class with `solve`."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from tests.bench.arms.arm import Arm


class NoSuchArm(ValueError):
    """It cannot be brought in. Says why."""


def is_outside(name: str) -> bool:
    """Return whether the name is an external arm."""
    return ":" in name


def maker(name: str) -> tuple[str, Callable[[], Arm]]:
    """Return the arm's title (first line of its docstring) and class."""
    place, _, attribute = name.rpartition(":")
    try:
        found = getattr(_module(place), attribute)
    except (ImportError, AttributeError, OSError, SyntaxError) as error:
        raise NoSuchArm(f"{name}: {error}") from error
    if not callable(getattr(found, "solve", None)):
        raise NoSuchArm(f"{name}: it has no method `solve`")
    words = (found.__doc__ or "brought from outside").strip().splitlines()[0].rstrip(".")
    return words, found


def source(name: str) -> bytes:
    """Return its source, so that a changed arm is run again."""
    file = _module(name.rpartition(":")[0]).__file__
    return Path(file).read_bytes() if file else b""


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(place)
    path = Path(place).resolve()
    name = f"outside_{path.stem}"
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
