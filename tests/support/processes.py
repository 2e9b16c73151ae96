"""Detect tests that start processes (servers, shells, browsers) from the names their code uses, so that no manual mark
is needed.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import pytest

# using one of these names starts a process, or may
STARTS = frozenset(
    {
        "subprocess",
        "Popen",
        "create_subprocess_exec",
        "create_subprocess_shell",
        "ProcessPoolExecutor",
        "fork",
        "async_playwright",
        "open_store",
    }
)
# packages that calls are followed into; the product starts processes only through `open_store`
OURS = ("tests.", "deploy.")


def starts_processes(item: pytest.Function) -> bool:
    """Return whether the test, its fixtures or their helpers start a process, or it uses a real Redis."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    fixtures = (row.func for rows in item._fixtureinfo.name2fixturedefs.values() for row in rows)  # pytest has no public way to them
    reached = (one for function in (item.function, *fixtures) for one in _reached(function))
    return "redis-server" in map(str, given) or any(map(_says, reached))


@cache
def _says(function: FunctionType) -> bool:
    return any(STARTS.intersection(code.co_names) for code in _codes(function.__code__))


@cache
def _reached(function: Callable[..., Any]) -> frozenset[FunctionType]:
    """Return the function and all test functions it reaches."""
    found: set[FunctionType] = set()
    ahead = list(_functions(function))
    while ahead:
        if (one := ahead.pop()) not in found:
            found.add(one)
            ahead += _called(one)
    return frozenset(found)


@cache
def _called(function: FunctionType) -> tuple[FunctionType, ...]:
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    return tuple(one for name in names if name in function.__globals__ for one in _functions(function.__globals__[name]))


def _functions(value: Any) -> Iterator[FunctionType]:
    """Return the function, or every method of the class, if it is from these packages."""
    if inspect.isclass(value) and value.__module__.startswith(OURS):
        yield from (one for method in vars(value).values() for one in _functions(getattr(method, "__func__", method)))
    elif callable(value) and isinstance(plain := inspect.unwrap(value), FunctionType) and plain.__module__.startswith(OURS):
        yield plain


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)
