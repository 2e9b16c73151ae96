"""Modals: a stack of at most three per person, opened with a fresh trigger."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from deploy.sandbox.slack.workspace.blockkit import find_view_problems, list_elements
from deploy.sandbox.slack.workspace.people import HOME_TEAM, App
from deploy.sandbox.slack.workspace.refusal import JSON, SlackRefusal
from deploy.sandbox.slack.workspace.workspace import Workspace, create_short_id

MAX_VIEWS = 3
MAX_VIEW_BYTES = 250_000


@dataclass
class Trigger:
    user: str
    expires: float
    used: bool = False


@dataclass
class Views:
    workspace: Workspace
    trigger_life: float = 3.0
    stacks: dict[str, list[JSON]] = field(default_factory=dict)
    _triggers: dict[str, Trigger] = field(default_factory=dict)

    def trigger(self, user: str) -> str:
        """Return a trigger_id, which opens one modal for this person within three seconds."""
        trigger_id = f"{secrets.randbelow(10**12)}.{secrets.randbelow(10**12)}.{secrets.token_hex(16)}"
        self._triggers[trigger_id] = Trigger(user, self.workspace.clock() + self.trigger_life)
        return trigger_id

    def redeem(self, trigger_id: str) -> str:
        trigger = self._triggers.get(trigger_id)
        if trigger is None:
            raise SlackRefusal("invalid_trigger_id")
        if trigger.used:
            raise SlackRefusal("exchanged_trigger_id")
        if self.workspace.clock() > trigger.expires:
            raise SlackRefusal("expired_trigger_id")
        trigger.used = True
        return trigger.user

    def open(self, trigger_id: str, view: JSON) -> JSON:
        validate_view(view, "modal")
        user = self.redeem(trigger_id)
        self.stacks[user] = []
        return self._push_view(user, self._build_view(view))

    def push(self, trigger_id: str, view: JSON) -> JSON:
        validate_view(view, "modal")
        return self.push_for(self.redeem(trigger_id), view)

    def push_for(self, user: str, view: JSON) -> JSON:
        stack = self.stacks.get(user) or []
        if not stack:
            raise SlackRefusal("not_found")
        if len(stack) >= MAX_VIEWS:
            raise SlackRefusal("push_limit_reached")
        return self._push_view(user, self._build_view(view, root=stack[0]["id"], previous=stack[-1]["id"]))

    def update(self, view: JSON, view_id: str = "", external_id: str = "", known_hash: str = "") -> JSON:
        validate_view(view, "modal")
        for user, stack in self.stacks.items():
            for n, old in enumerate(stack):
                if view_id == old["id"] or (external_id and external_id == old["external_id"]):
                    if known_hash and known_hash != old["hash"]:
                        raise SlackRefusal("hash_conflict")
                    ids = {key: old[key] for key in ("id", "root_view_id", "previous_view_id")}
                    stack[n] = self._build_view(view) | ids
                    self.workspace.journal.add("view", {"view": stack[n], "depth": len(stack)}, user=user)
                    return stack[n]
        raise SlackRefusal("not_found")

    def publish(self, user: str, view: JSON) -> JSON:
        validate_view(view, "home")
        home = self._build_view(view)
        self.workspace.publish(user, home)
        return home

    def top(self, user: str) -> JSON | None:
        stack = self.stacks.get(user) or []
        return stack[-1] if stack else None

    def find(self, user: str, view_id: str) -> JSON:
        home = self.workspace.homes.get(user)
        for view in [*(self.stacks.get(user) or []), *([home] if home else [])]:
            if view["id"] == view_id:
                return view
        raise SlackRefusal("view_not_found")

    def close(self, user: str, everything: bool = False) -> list[JSON]:
        """Close the top modal or all; return the closed views, top first."""
        stack = self.stacks.get(user) or []
        closed = stack[::-1] if everything else stack[-1:]
        self.stacks[user] = stack[: len(stack) - len(closed)]
        self.workspace.journal.add("view", {"view": self.top(user), "depth": len(self.stacks[user])}, user=user)
        return closed

    def _push_view(self, user: str, view: JSON) -> JSON:
        stack = self.stacks.setdefault(user, [])
        stack.append(view)
        self.workspace.journal.add("view", {"view": view, "depth": len(stack)}, user=user)
        return view

    def _build_view(self, view: JSON, root: str = "", previous: str | None = None) -> JSON:
        view_id = create_short_id("V")
        return {
            "id": view_id,
            "team_id": HOME_TEAM,
            "app_id": App.id,
            "app_installed_team_id": HOME_TEAM,
            "bot_id": App.bot_id,
            "type": view["type"],
            "title": view.get("title"),
            "submit": view.get("submit"),
            "close": view.get("close"),
            "blocks": add_missing_ids(view["blocks"]),
            "private_metadata": view.get("private_metadata", ""),
            "callback_id": view.get("callback_id", ""),
            "external_id": view.get("external_id", ""),
            "state": {"values": {}},
            "hash": f"{int(self.workspace.clock())}.{secrets.token_hex(4)}",
            "clear_on_close": bool(view.get("clear_on_close")),
            "notify_on_close": bool(view.get("notify_on_close")),
            "root_view_id": root or view_id,
            "previous_view_id": previous,
        }


def validate_view(view: Any, kind: str) -> None:
    if not isinstance(view, dict) or view.get("type") != kind:
        raise SlackRefusal("invalid_arguments", f"[ERROR] must be a {kind} [json-pointer:/view/type]")
    if problems := find_view_problems(view):
        raise SlackRefusal("invalid_arguments", *problems)
    if len(str(view).encode()) > MAX_VIEW_BYTES:
        raise SlackRefusal("view_too_large")


def add_missing_ids(blocks: list[JSON]) -> list[JSON]:
    """Return the blocks with missing ids generated, as Slack does."""
    completed = []
    for block in blocks:
        block = {**block, "block_id": block.get("block_id") or secrets.token_urlsafe(4)[:5]}
        for element in list_elements(block):
            element.setdefault("action_id", secrets.token_urlsafe(4)[:5])
        completed.append(block)
    return completed


def read_submission(view: JSON, values: JSON) -> tuple[JSON, dict[str, str]]:
    """Return a submission's `state.values`, and the client's own errors by block. `values` is keyed by action_id or
    block_id, plain or nested: {"reason": "not now"} or {"block": {"reason": "not now"}}.
    """
    state: JSON = {}
    errors: dict[str, str] = {}
    for block in view["blocks"]:
        for element in list_elements(block):
            if element["type"] in ("button", "overflow"):
                continue
            entry = build_element_state(element, choose_value(values, block["block_id"], element))
            state.setdefault(block["block_id"], {})[element["action_id"]] = entry
            error = find_input_error(block, element, entry) if block["type"] == "input" else ""
            if error:
                errors[block["block_id"]] = error
    return state, errors


def choose_value(values: JSON, block_id: str, element: JSON) -> Any:
    block_values = values.get(block_id)
    if isinstance(block_values, dict) and element["action_id"] in block_values:
        return block_values[element["action_id"]]
    if element["action_id"] in values:
        return values[element["action_id"]]
    return None if isinstance(block_values, dict) else block_values


def build_element_state(element: JSON, value: Any) -> JSON:
    """Return an element's state in the shape of its type."""
    kind = element["type"]
    match kind:
        case "static_select" | "radio_buttons":
            return {"type": kind, "selected_option": get_first(select_options(element, [value])) or element.get("initial_option")}
        case "multi_static_select" | "checkboxes":
            return {
                "type": kind,
                "selected_options": select_options(element, value) if value is not None else element.get("initial_options", []),
            }
        case "users_select" | "channels_select" | "conversations_select":
            name = "selected_" + kind.removesuffix("s_select")
            return {"type": kind, name: value or element.get("initial_" + kind.removesuffix("s_select"))}
        case "multi_users_select":
            return {"type": kind, "selected_users": value or element.get("initial_users", [])}
        case "datepicker" | "timepicker" | "datetimepicker":
            name = {"datepicker": "date", "timepicker": "time", "datetimepicker": "date_time"}[kind]
            return {"type": kind, f"selected_{name}": value or element.get(f"initial_{name}")}
        case _:
            text = value if value is not None else element.get("initial_value")
            return {"type": kind, "value": text or None}


def select_options(element: JSON, wanted: Any) -> list[JSON]:
    offered: list[JSON] = list(element.get("options", []))
    for group in element.get("option_groups", []):
        offered += group["options"]
    values = [option["value"] if isinstance(option, dict) else option for option in wanted]
    return [option for option in offered if option["value"] in values]


def get_first(blocks: list[JSON]) -> JSON | None:
    return blocks[0] if blocks else None


def find_input_error(block: JSON, element: JSON, entry: JSON) -> str:
    """Return the error of Slack's client before it calls the app, or ""."""
    entered = next((value for key, value in entry.items() if key != "type"), None)
    if not entered:
        return "" if block.get("optional") else "Please complete this required field."
    return next(iter(_check_lengths(element, entered)), "") if isinstance(entered, str) else ""


def _check_lengths(element: JSON, text: str) -> Iterator[str]:
    if len(text) < element.get("min_length", 0):
        yield f"Please use at least {element['min_length']} characters."
    if len(text) > element.get("max_length", 3000):
        yield f"Please use at most {element.get('max_length', 3000)} characters."
