"""What a block to paste says of the driver of the customer's machines. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from bot.cards.customers.view import Known
from tools.fact import Fact, Status

DRIVER, CUDA = "driver.version", "driver.cuda_version"


def with_drivers(known: Known, facts: Iterable[Fact], own: Collection[str]) -> Known:
    """The same with the oldest driver of the cause's hosts, of all their `own` where it is no host's: what runs on that runs everywhere."""
    read = [fact for fact in facts if fact.key in (DRIVER, CUDA) and fact.status is Status.OK and not fact.stale and fact.host in own]

    def filled(label: str, hosts: Sequence[str]) -> Mapping[str, str]:
        slots = {
            slot: min(values, key=_number)
            for slot, key in (("driver", DRIVER), ("cuda", CUDA))
            if (
                values := [str(fact.value) for fact in read if fact.key == key and fact.host in (hosts or own) and _number(str(fact.value))]
            )
        }
        return {**slots, **known(label, hosts)}

    return filled


def _number(version: str) -> tuple[int, ...]:
    """Empty where it is no plain version."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts) else ()
