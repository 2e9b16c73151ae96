"""What is to be simulated, before it is built: who the nodes are and what happens to them. Plain frozen values, made from a case or from clicks on a page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Happening:
    """A fault at a time. `at` is seconds from the plan's t0, negative before; `key` keeps its chances apart from others'."""

    fault: str
    nodes: tuple[str, ...]
    at: float
    gpus: tuple[int, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True, slots=True)
class Modifier:
    """A control (H…) or a difficulty (R…): `ID(key=value, …)@host`."""

    id: str
    args: Mapping[str, str] = field(default_factory=dict)
    host: str = ""

    def whole(self, name: str, default: int) -> int:
        """A whole-number argument; the default where it is missing or no number."""
        text = self.args.get(name, "")
        return int(text) if text.lstrip("-").isdigit() else default


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything `world.build` needs. `age`: seconds the cluster has run for since its clock started (a live one grows older)."""

    profile: str
    names: tuple[str, ...]
    seed: int
    happenings: tuple[Happening, ...] = ()
    modifiers: tuple[Modifier, ...] = ()
    job: str = ""
    age: float = 0.0

    def of(self, *ids: str) -> tuple[Modifier, ...]:
        """The modifiers with these ids."""
        return tuple(modifier for modifier in self.modifiers if modifier.id in ids)
