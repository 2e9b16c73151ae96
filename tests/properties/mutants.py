"""All seeded bugs, their killers, and docs/assurance.md's table of them."""

from collections.abc import Callable

from tests.properties import mutants_actions, mutants_customers, mutants_doors, mutants_incident, mutants_ledger
from tests.properties.mutants_actions import ACTION_MUTANTS
from tests.properties.mutants_customers import CUSTOMER_MUTANTS
from tests.properties.mutants_doors import DOOR_MUTANTS
from tests.properties.mutants_incident import INCIDENT_MUTANTS
from tests.properties.mutants_ledger import MUTANTS
from tests.properties.mutants_reasoning import REASONING_MUTANTS
from tests.properties.mutation import Mutant

SAFETY_MUTANTS: tuple[Mutant, ...] = (*MUTANTS, *ACTION_MUTANTS, *INCIDENT_MUTANTS, *DOOR_MUTANTS, *CUSTOMER_MUTANTS)
ALL_MUTANTS: tuple[Mutant, ...] = (*SAFETY_MUTANTS, *REASONING_MUTANTS)
KILLERS: tuple[tuple[tuple[Mutant, ...], Callable[[Mutant], str]], ...] = (
    (MUTANTS, mutants_ledger.kill),
    (ACTION_MUTANTS, mutants_actions.kill),
    (INCIDENT_MUTANTS, mutants_incident.kill),
    (DOOR_MUTANTS, mutants_doors.kill),
    (CUSTOMER_MUTANTS, mutants_customers.kill),
)


def kill(mutant: Mutant) -> str:
    """Return the killer's complaint about a safety mutant, or "" if it survives."""
    return next(kill for table, kill in KILLERS if mutant in table)(mutant)


def table() -> str:
    """Return the safety mutants as a Markdown table."""
    rows = ["| seeded bug | breaks | killed by |", "|---|---|---|"]
    return "\n".join([*rows, *(f"| {row.name} | {row.breaks} | {killer_of(row)} |" for row in SAFETY_MUTANTS)])


def killer_of(mutant: Mutant) -> str:
    if mutant in INCIDENT_MUTANTS:
        return "the machine of incidents"
    if mutant in DOOR_MUTANTS:
        return "the stories of the doors"
    if mutant.story is None:
        return "the machine"
    if mutant in CUSTOMER_MUTANTS:
        return f"the story `{mutant.story.__name__}`"
    return mutant.story.__name__.removeprefix("test_").replace("_", " ")
