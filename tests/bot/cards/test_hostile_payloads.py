"""Every reader of a click or form answers any payload with a value or an actionable refusal, never with another
exception.
"""

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bot
from bot.cards.buttons import BadForm
from bot.refusal import Refusal

pytestmark = pytest.mark.slow


Read = Callable[[Mapping[str, Any]], object]
DEEP = 20_000
NESTED = ("[" * DEEP, '{"a":' * DEEP, "[" * DEEP + "]" * DEEP, '{"incident":' + "[" * DEEP + "]" * DEEP + "}")
ODD = (
    *("", "\0" * 2000, "\ud800", "null", "[]", "{}", '"x"', "1e999"),
    *('{"incident": null}', '{"each": [[1], 2]}', '{"each": []}', '{"about": "' + "[" * 9000 + '"}'),
)
KEYS = ("actions", "view", "state", "values", "value", "action_id", "private_metadata", "selected_option", "block_id")


def readers() -> Iterator[tuple[str, Read]]:
    """Yield every function of the cards packages that takes only a payload."""
    for found in pkgutil.walk_packages(bot.__path__, f"{bot.__name__}."):
        if "cards" not in found.name.split("."):
            continue
        module = importlib.import_module(found.name)
        for name, made in vars(module).items():
            if inspect.isfunction(made) and made.__module__ == found.name and [*inspect.signature(made).parameters] == ["payload"]:
                yield f"{found.name}.{name}", made


EVERY = dict(readers())


def carrying(value: Any, action: str) -> dict[str, Any]:
    """Return a click and form payload with this value in every field that our cards use."""
    fields = {
        name: {name: {"value": value, "selected_option": {"value": value}}} for name in ("words", "reason", "cause", "hosts", "label")
    }
    return {
        "actions": [{"action_id": action, "value": value, "block_id": value, "selected_option": {"value": value}}],
        "view": {"private_metadata": value, "callback_id": action, "state": {"values": fields}},
    }


def answered(read: Read, payload: Mapping[str, Any]) -> None:
    with suppress(Refusal, BadForm):
        read(payload)


def actions_of(read: Read) -> tuple[str, ...]:
    """Return the action and form ids among a module's constants."""
    module = inspect.getmodule(read)
    texts = (value for name, value in vars(module).items() if name.isupper() and isinstance(value, str))
    tables = (key for name, value in vars(module).items() if name.isupper() and isinstance(value, Mapping) for key in value)
    return ("", *dict.fromkeys((*texts, *(key for key in tables if isinstance(key, str)))))


def test_every_card_with_a_reader_is_among_them() -> None:
    assert {where.rsplit(".", 1)[1] for where in EVERY} >= {
        *("parse_card_click", "parse_edit_form", "parse_reject_form", "parse_close_form", "parse_diagnosis_click"),
        *("parse_tell_form", "parse_let_in_click", "parse_lesson_form", "parse_provider_click", "parse_tracker_form"),
        *(
            "parse_feedback_form",
            "parse_return_click",
            "parse_menu_choice",
            "parse_host_choice",
            "parse_ticket_click",
            "parse_tenant_click",
        ),
    }


@pytest.mark.parametrize("where", EVERY)
def test_values_nested_without_end_and_full_of_nuls_are_answered(where: str) -> None:
    for action in actions_of(EVERY[where]):
        for value in (*NESTED, *ODD, *(json.dumps({"about": value, "vote": "useful"}) for value in NESTED), None, 3, ["x"], {"x": 1}):
            answered(EVERY[where], carrying(value, action))


junk = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from((*ODD, *NESTED))),
    lambda kids: st.one_of(st.lists(kids, max_size=3), st.dictionaries(st.sampled_from(KEYS), kids, max_size=4)),
    max_leaves=8,
)


@pytest.mark.parametrize("where", EVERY)
@given(payload=st.dictionaries(st.sampled_from(("actions", "view", "user", "state")), junk, max_size=3))
def test_payloads_of_any_shape_are_answered(where: str, payload: dict[str, Any]) -> None:
    answered(EVERY[where], payload)
