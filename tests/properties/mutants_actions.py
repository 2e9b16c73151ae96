"""Safety bugs seeded into a copy of the action graph's steps, each told the story that must notice it. All tables stand in SECURITY.md."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fakeredis import FakeAsyncRedis

from tests.graph import test_fault as stories
from tests.properties.mutants_customers import CUSTOMER_MUTANTS
from tests.properties.mutants_doors import DOOR_MUTANTS
from tests.properties.mutants_incident import INCIDENT_MUTANTS
from tests.properties.mutants_ledger import HEADER, MUTANTS, Mutant, Sources, row_of

ROOT = Path(__file__).parents[2] / "graph/actions"
PACKAGE = "mutant_actions"
MODULES = ("carry_out", "fault")

ACTION_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the fault is not read again",
        "I11",
        (("carry_out", "    await _still_there(seen, ports)\n", ""),),
        "test_what_is_mended_before_the_start_is_not_treated",
    ),
    Mutant(
        "a fault that could not be looked at counts as there",
        "I11",
        (("carry_out", 'if found.answer == "unseen":', "if False:"),),
        "test_what_cannot_be_looked_at_does_not_start",
    ),
    Mutant(
        "a line of the log stands for every boot",
        "I11",
        (("fault", "if boot != fault.boot_id:", "if False:"),),
        "test_a_line_of_the_log_is_no_fault_of_another_boot",
    ),
)


def changed(mutant: Mutant) -> dict[str, str]:
    """The sources with the bug in them. Each edit must fit exactly once, or the table is stale."""
    sources = {name: (ROOT / f"{name}.py").read_text() for name in MODULES}
    for module, before, after in mutant.edits:
        if (found := sources[module].count(before)) != 1:
            raise ValueError(f"{mutant.name}: {before!r} is {found} times in {module}, it must be there once")
        sources[module] = sources[module].replace(before, after)
    ours = "from graph.actions.fault import"
    return {name: text.replace(ours, f"from {PACKAGE}.fault import") for name, text in sources.items()}


@contextlib.contextmanager
def steps_of(mutant: Mutant) -> Iterator[Any]:
    """The mutant's `carry_out`, for as long as it is looked at."""
    finder = Sources(PACKAGE, changed(mutant))
    sys.meta_path.insert(0, finder)
    try:
        yield __import__(f"{PACKAGE}.carry_out", fromlist=["begin"])
    finally:
        sys.meta_path.remove(finder)
        finder.forget()


def tell(steps: Any, name: str) -> str:
    """One story on a fresh store; what it complains about, empty when it is content."""

    async def told() -> None:
        async with FakeAsyncRedis() as redis:
            await getattr(stories, name)(redis, steps)

    try:
        asyncio.run(told())
    except BaseException as why:  # pytest's own failures are no Exceptions
        if isinstance(why, KeyboardInterrupt):
            raise
        return f"{type(why).__name__}: {why}"
    return ""


def table() -> str:
    """All seeded bugs, as SECURITY.md shows them."""
    return "\n".join(
        [
            *HEADER,
            *map(row_of, (*MUTANTS, *ACTION_MUTANTS)),
            *(row.row() for row in INCIDENT_MUTANTS),
            *(row.row() for row in DOOR_MUTANTS),
            *(row.row() for row in CUSTOMER_MUTANTS),
        ]
    )


if __name__ == "__main__":
    print(table())
