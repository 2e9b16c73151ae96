"""Every id of a button, select or form that a card module of the product names in a constant."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import ModuleType

import bot


def list_action_ids() -> frozenset[str]:
    """Return the ids of all buttons and selects: what `BUTTONS`, `SELECT_ACTIONS` and each `…ACTION_ID` hold."""
    return frozenset(_iter_ids("ACTION_ID", "BUTTONS", "SELECT_ACTIONS"))


def list_form_ids() -> frozenset[str]:
    return frozenset(_iter_ids("CALLBACK_ID"))


def _iter_ids(*endings: str) -> Iterator[str]:
    for module in _iter_card_modules():
        for name, value in vars(module).items():
            if name.endswith(endings):
                yield from value if isinstance(value, Mapping) else (value,)


def _iter_card_modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(bot.__path__, "bot."):
        if "cards" in found.name.split("."):
            yield importlib.import_module(found.name)
