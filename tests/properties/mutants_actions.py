"""Safety bugs in the steps of the action graph; the story beside each must catch it."""

import asyncio

from fakeredis import FakeAsyncRedis

from graph.execution.action_effects import _check_by_boot, _verify_fault_present, claim_action
from tests.graph import test_fault as stories
from tests.properties.mutation import Edit, Mutant, run_mutant, unchanged

ACTION_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the fault is not read again",
        "I11",
        (Edit(claim_action, "await _verify_fault_present(seen, ports)"),),
        stories.test_what_is_mended_before_the_start_is_not_treated,
    ),
    Mutant(
        "a fault that could not be looked at counts as there",
        "I11",
        (Edit(_verify_fault_present, "current_fault.answer == 'unseen'", "False"),),
        stories.test_what_cannot_be_looked_at_does_not_start,
    ),
    Mutant(
        "a line of the log stands for every boot",
        "I11",
        (Edit(_check_by_boot, "boot != fault.boot_id", "False"),),
        stories.test_a_line_of_the_log_is_no_fault_of_another_boot,
    ),
)


def complaint(mutant: Mutant) -> str:
    """Run the mutant's story on an empty store and return its complaint, or ""."""

    async def tell() -> None:
        assert mutant.story
        async with FakeAsyncRedis() as redis:
            await mutant.story(redis)

    try:
        asyncio.run(tell())
    except BaseException as error:  # pytest's own failures are no Exceptions
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}"
    return ""


def kill(mutant: Mutant) -> str:
    """Return the story's complaint about the mutant, or "" if it survives."""
    return run_mutant(mutant, lambda: complaint(mutant))


def control(mutant: Mutant) -> str:
    """Return the story's complaint about the product without the bug."""
    return run_mutant(unchanged([mutant]), lambda: complaint(mutant))
