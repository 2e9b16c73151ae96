"""Seeded bugs: how a mutant names its target, how its edits are applied, and how its killer is run.

An edit names a function, method, property or Lua script by the imported object and replaces exactly one node in it. A
mutant is applied in a forked child that reports the killer's complaint and exits, so no test runs in a process with a
bug.
"""

import ast
import copy
import functools
import gc
import importlib
import inspect
import json
import os
import re
import select
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from redis.commands.core import AsyncScriptCommands

PRODUCT = frozenset({"bot", "graph", "tools", "kb"})
CHILD_SECONDS = 300.0
LUA_TOKEN = re.compile(r"""'[^']*'|"[^"]*"|\w+|[^\w\s]""")
# Complaints of these kinds mean that the edit crashes the code, which says nothing about the bug.
BROKEN_MUTANTS = ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "IndexError")


class StaleMutant(Exception):
    """An edit does not match exactly once, or its replacement does not fit: the table of mutants is older than the code."""


@dataclass(frozen=True)
class Edit:
    """Replace the one node in `target` that `before` describes.

    Args:
        target: The function, method or property, or the text of a Lua script.
        before: An expression, one statement, or one keyword argument (`name=value`) of the function; some tokens of the Lua script.
            Matched by structure: white space, quotes, line breaks and comments do not matter.
        after: What replaces it: an expression or keyword argument where `before` is one, else statements. Empty removes it.
        given: Objects that `after` may use by these names besides what the function's module knows.
    """

    target: object
    before: str
    after: str = ""
    given: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Mutant:
    """One seeded bug: the invariants it breaks, its edits, and the story that must catch it where its table has several killers."""

    name: str
    breaks: str
    edits: tuple[Edit, ...]
    story: Callable[..., Coroutine[Any, Any, None]] | None = None


# -- finding and replacing ------------------------------------------------------------------------------------------------------


def function_of(target: object) -> FunctionType:
    """Return the function behind a method, property or decorated function. Raises StaleMutant."""
    if isinstance(target, property):
        target = target.fget
    if isinstance(target, functools.cached_property):
        target = target.func
    found = inspect.unwrap(target)  # type: ignore[arg-type]  # refuses what is not callable in the next line
    found = getattr(found, "__func__", found)
    if not isinstance(found, FunctionType):
        raise StaleMutant(f"{target!r} is no function")
    return found


def edited_code(target: object, edits: Sequence[Edit]) -> CodeType:
    """Recompile the function in its module with these edits and return its code. Raises StaleMutant."""
    code = function_of(target).__code__
    alone = copy.deepcopy(_alone(parsed(code.co_filename), code))
    found = next((node for node in ast.walk(alone) if _is_source(node, code)), None) if alone else None
    if alone is None or found is None:
        raise StaleMutant(f"{code.co_qualname} has no source")
    for edit in edits:
        _replace(found, edit, code.co_qualname)
    compiled = compile(ast.Module([alone], []), code.co_filename, "exec", dont_inherit=True)
    place = code.co_qualname, code.co_firstlineno
    edited = next(row for row in _nested(compiled) if (row.co_qualname, row.co_firstlineno) == place)
    if edited.co_freevars != code.co_freevars:
        raise StaleMutant(f"{code.co_qualname} would close over {edited.co_freevars}")
    return edited


@functools.cache
def parsed(path: str) -> list[ast.stmt]:
    return ast.parse(Path(path).read_text()).body


def _alone(statements: Sequence[ast.stmt], code: CodeType) -> ast.stmt | None:
    """Return the statement that holds the function, or a class with only that statement."""
    for row in statements:
        first = min([row.lineno, *(one.lineno for one in getattr(row, "decorator_list", ()))])
        if first <= code.co_firstlineno <= (row.end_lineno or first):
            if not isinstance(row, ast.ClassDef):
                return row
            within = _alone(row.body, code)
            return within and ast.ClassDef(row.name, [], [], [within], [], lineno=row.lineno, col_offset=0)
    return None


def _is_source(node: ast.AST, code: CodeType) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    first = min([node.lineno, *(row.lineno for row in node.decorator_list)])
    return (node.name, first) == (code.co_name, code.co_firstlineno)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for row in code.co_consts:
        if isinstance(row, CodeType):
            yield from _nested(row)


def _readings(edit: Edit) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """Yield each reading of an edit: the node to find and its replacement."""
    [before], after = ast.parse(edit.before).body, ast.parse(edit.after).body
    expressions = [row.value for row in (before, *after) if isinstance(row, ast.Expr)]
    if len(expressions) == 2 and len(after) == 1:
        yield expressions[0], [expressions[1]]
    else:
        yield before, list(after) or [ast.Pass()]
    if _keywords(edit.before):
        yield _keywords(edit.before)[0], list(_keywords(edit.after))


def _keywords(text: str) -> list[ast.keyword]:
    try:
        call = ast.parse(f"_({text})", mode="eval").body
    except SyntaxError:
        return []
    return call.keywords if isinstance(call, ast.Call) and len(call.keywords) == 1 and not call.args else []


def _replace(function: ast.AST, edit: Edit, name: str) -> None:
    """Replace the one matching node. Raises StaleMutant unless exactly one matches."""
    found = []
    for pattern, after in _readings(edit):
        wanted = ast.dump(pattern)
        for parent in ast.walk(function):
            for place, value in ast.iter_fields(parent):
                for at, child in enumerate(value if isinstance(value, list) else [value]):
                    if type(child) is type(pattern) and ast.dump(child) == wanted:
                        found.append((parent, place, at, child, after))
    if len(found) != 1:
        raise StaleMutant(f"{edit.before!r} matches {len(found)} times in {name}, it must match once")
    [(parent, place, at, child, after)] = found
    new = [_at_place_of(child, row) for row in after]
    value = getattr(parent, place)
    if isinstance(value, list):
        value[at : at + 1] = new
    else:
        [node] = new
        setattr(parent, place, node)


def _at_place_of(old: ast.AST, new: ast.AST) -> ast.AST:
    new = copy.deepcopy(new)
    for node in ast.walk(new):
        ast.copy_location(node, old)
        ast.fix_missing_locations(node)
    return new


def edited_script(edit: Edit) -> str:
    """Return a Lua script with this edit. Raises StaleMutant unless exactly one place matches."""
    text = str(edit.target)
    tokens, wanted = list(LUA_TOKEN.finditer(text)), LUA_TOKEN.findall(edit.before)
    words = [row.group() for row in tokens]
    places = [at for at in range(len(words)) if words[at : at + len(wanted)] == wanted]
    if len(places) != 1 or not wanted:
        raise StaleMutant(f"{edit.before!r} matches {len(places)} times in the script {text.strip()[:60]!r}, it must match once")
    return f"{text[: tokens[places[0]].start()]} {edit.after} {text[tokens[places[0] + len(wanted) - 1].end() :]}"


# -- applying -------------------------------------------------------------------------------------------------------------------


def resolve(mutant: Mutant) -> tuple[dict[FunctionType, CodeType], dict[str, str]]:
    """Return changed function code and script texts. Raises StaleMutant with the mutant's name if an edit does not fit."""
    functions: dict[FunctionType, list[Edit]] = {}
    scripts: dict[str, str] = {}
    try:
        for edit in mutant.edits:
            if isinstance(edit.target, str):
                scripts[edit.target] = edited_script(Edit(scripts.get(edit.target, edit.target), edit.before, edit.after))
            else:
                functions.setdefault(function_of(edit.target), []).append(edit)
        codes = {function: edited_code(function, edits) for function, edits in functions.items()}
    except (StaleMutant, SyntaxError, ValueError, TypeError) as error:
        raise StaleMutant(f"{mutant.name}: {error}") from error
    return codes, scripts


def apply(mutant: Mutant) -> None:
    """Change this process's product irreversibly. Call it only in a child process."""
    codes, scripts = resolve(mutant)
    for edit in mutant.edits:
        if edit.given:
            known = function_of(edit.target).__globals__
            if taken := known.keys() & edit.given.keys():
                raise StaleMutant(f"{mutant.name}: {sorted(taken)} mean something else in {known['__name__']}")
            known.update(edit.given)
    for function, code in codes.items():
        function.__code__ = code
    forget_cached_results(edit.target for edit in mutant.edits)
    register = AsyncScriptCommands.register_script

    def register_changed(self: Any, script: str) -> object:
        for before, after in scripts.items():
            script = script.replace(before, after)
        return register(self, script)

    setattr(AsyncScriptCommands, "register_script", register_changed)  # noqa: B010  mypy takes no assignment to a method


def forget_cached_results(targets: Iterable[object]) -> None:
    """Clear the caches of these and the product's functions, which hold results from before the bug."""
    ours = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in PRODUCT]
    for value in [*targets, *(value for module in ours for value in list(vars(module).values()))]:
        if clear := getattr(value, "cache_clear", None):
            clear()


# -- running --------------------------------------------------------------------------------------------------------------------


def run_in_child(work: Callable[[], str], *, seconds: float = CHILD_SECONDS) -> str:
    """Return the result of `work` in a forked child. Raises RuntimeError if it raises, TimeoutError if it takes longer."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _answer(work, writer)
    os.close(writer)
    answer = b""
    try:
        while select.select([reader], [], [], seconds)[0]:
            part = os.read(reader, 65536)
            answer += part
            if not part:
                break
        else:
            raise TimeoutError(f"a child process took longer than {seconds} seconds")
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)  # a child that closed its pipe is done
        os.waitpid(pid, 0)
    if not answer:
        raise RuntimeError("a child process ended without an answer")
    said: dict[str, str] = json.loads(answer)
    if "raised" in said:
        raise RuntimeError(said["raised"])
    return said["returned"]


def _answer(work: Callable[[], str], writer: int) -> None:
    """Run in the child, write the answer, and exit without the parent's exit handlers."""
    try:
        gc.freeze()  # a collection would copy every page shared with the parent
        with Path(os.devnull).open("w") as nowhere:  # the parent's buffers must not be flushed here
            sys.stdout = sys.stderr = nowhere
            try:
                said = {"returned": work()}
            except BaseException:  # the parent must learn of any failure
                said = {"raised": traceback.format_exc()}
        with os.fdopen(writer, "w") as answer:
            json.dump(said, answer)
    finally:
        os._exit(0)


def run_mutant(mutant: Mutant, kill: Callable[[], str]) -> str:
    """Return the complaint of `kill` about the product with this bug, or "" if it survives."""

    def work() -> str:
        apply(mutant)
        said = kill()
        if said.startswith(BROKEN_MUTANTS):
            raise StaleMutant(f"{mutant.name}: the edit is broken: {said}")
        return said

    return run_in_child(work)


def unchanged(mutants: Iterable[Mutant]) -> Mutant:
    """Return a mutant that replaces these targets by themselves, to test the mechanism alone."""
    edits = {edit.target: edit for mutant in mutants for edit in mutant.edits}
    return Mutant("no bug", "", tuple(Edit(edit.target, edit.before, edit.before) for edit in edits.values()))


# -- naming what is missing -----------------------------------------------------------------------------------------------------


def missing_targets(table: Path) -> Iterator[str]:
    """Yield a line with the mutant's name for each target that cannot be imported."""
    tree = ast.parse(table.read_text())
    imported = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for mutant in _calls(tree, "Mutant"):
        for edit in _calls(mutant, "Edit"):
            try:
                _import_target(edit.args[0], imported)
            except (ImportError, AttributeError, KeyError) as error:
                yield f"{ast.literal_eval(mutant.args[0])}: {ast.unparse(edit.args[0])} is missing: {error}"


def _calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith(name) and node.args:
            yield node


def _import_target(node: ast.expr, imported: Mapping[str, tuple[str, str]]) -> object:
    if isinstance(node, ast.Attribute):
        return getattr(_import_target(node.value, imported), node.attr)
    assert isinstance(node, ast.Name), ast.unparse(node)
    module, name = imported[node.id]
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        return importlib.import_module(f"{module}.{name}")


def stale_mutants() -> list[str]:
    """Return a line with the mutant's name for each missing target or unmatched edit in any table."""
    missing = [line for table in sorted(Path(__file__).parent.glob("mutants_*.py")) for line in missing_targets(table)]
    if missing:
        return missing
    from tests.properties.mutants import ALL_MUTANTS  # imported late: a failing import would hide the missing targets

    stale = []
    for mutant in ALL_MUTANTS:
        try:
            resolve(mutant)
        except StaleMutant as error:
            stale.append(str(error))
    return stale
