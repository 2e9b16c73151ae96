"""Block Kit's rules as tables. `problems` lists everything Slack would refuse, with JSON pointers.

Limits are the documented ones, plus two undocumented ones: about 13,200 characters of block text per message
(`msg_blocks_too_long`), and 4,000 bytes of text in chat.update.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deploy.sandbox.slack.workspace.refusal import JSON

Surface = Literal["message", "modal", "home"]
ALL = frozenset({"message", "modal", "home"})
MESSAGE = frozenset({"message"})
MOST_BLOCKS: dict[Surface, int] = {"message": 50, "modal": 100, "home": 100}
BLOCK_TEXT_TOGETHER = 13_200
MARKDOWN_TOGETHER = 12_000


@dataclass(frozen=True, slots=True)
class Text:
    """Limits of a text object; `plain`: plain_text only; `bare`: a string instead of an object."""

    most: int
    plain: bool = False
    required: bool = False
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Many:
    """Limits of a list and its allowed items."""

    most: int
    of: frozenset[str] = frozenset()
    least: int = 1
    required: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    texts: dict[str, Text] = field(default_factory=dict)
    lists: dict[str, Many] = field(default_factory=dict)
    ones: dict[str, frozenset[str]] = field(default_factory=dict)
    where: frozenset[str] = ALL
    needs: tuple[str, ...] = ()


SELECTS = frozenset(
    {"static_select", "multi_static_select", "users_select", "multi_users_select", "conversations_select", "channels_select"}
)
CHOICES = frozenset({"radio_buttons", "checkboxes"})
TEXTS = frozenset({"plain_text_input", "number_input", "email_text_input", "url_text_input", "rich_text_input"})
PICKERS = frozenset({"datepicker", "timepicker", "datetimepicker"})
CLICKED = frozenset({"button", "overflow"}) | SELECTS | CHOICES | PICKERS
INPUTS = TEXTS | SELECTS | CHOICES | PICKERS | {"file_input"}
EXTRA = frozenset({"icon_button", "feedback_buttons"})
OBJECTS = frozenset({"mrkdwn", "plain_text"})
RICH = frozenset({"rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote"})

ID = Text(255, bare=True)
PLACEHOLDER = Text(150, plain=True)
OPTIONS = Many(100, frozenset({"option"}), required=False)

# fmt: off
BLOCKS: dict[str, Schema] = {
    "section":         Schema({"text": Text(3000)}, {"fields": Many(10, OBJECTS, required=False)}, {"accessory": CLICKED | {"image"}}),
    "header":          Schema({"text": Text(150, plain=True, required=True)}),
    "context":         Schema({}, {"elements": Many(10, OBJECTS | {"image"})}),
    "actions":         Schema({}, {"elements": Many(25, CLICKED)}),
    "context_actions": Schema({}, {"elements": Many(5, frozenset({"feedback_buttons", "icon_button"}))}, where=MESSAGE),
    "divider":         Schema(),
    "image":           Schema({"alt_text": Text(2000, required=True, bare=True), "image_url": Text(3000, bare=True), "title": Text(2000, plain=True)}),
    "markdown":        Schema({"text": Text(MARKDOWN_TOGETHER, required=True, bare=True)}, where=MESSAGE),
    "rich_text":       Schema({}, {"elements": Many(1000, RICH, least=0)}),
    "table":           Schema({}, {"rows": Many(100)}, where=MESSAGE),
    "input":           Schema({"label": Text(2000, plain=True, required=True), "hint": Text(2000, plain=True)}, {}, {"element": INPUTS}, needs=("element",)),
    "file":            Schema(where=MESSAGE, needs=("external_id",)),
    "video":           Schema({"alt_text": Text(2000, required=True, bare=True), "title": Text(200, plain=True, required=True)}, needs=("video_url",)),
    "task_card":       Schema({"title": Text(3000, required=True, bare=True)}, where=MESSAGE, needs=("task_id",)),
    "plan":            Schema({"title": Text(3000, required=True, bare=True)}, where=MESSAGE),
    "alert":           Schema({"text": Text(200, required=True)}),
    "card":            Schema({"title": Text(150), "subtitle": Text(150), "body": Text(200)}, {"actions": Many(3, CLICKED, required=False)}, where=MESSAGE),
    "carousel":        Schema({}, {"elements": Many(10, frozenset({"card"}))}, where=MESSAGE),
    "container":       Schema({"title": Text(150)}, where=MESSAGE),
}
ELEMENTS: dict[str, Schema] = {
    "button":              Schema({"text": Text(75, plain=True, required=True), "value": Text(2000, bare=True), "url": Text(3000, bare=True)}),
    "overflow":            Schema({}, {"options": Many(5, frozenset({"option"}))}),
    "static_select":       Schema({"placeholder": PLACEHOLDER}, {"options": OPTIONS, "option_groups": Many(100, required=False)}),
    "multi_static_select": Schema({"placeholder": PLACEHOLDER}, {"options": OPTIONS, "option_groups": Many(100, required=False)}),
    "radio_buttons":       Schema({}, {"options": Many(10, frozenset({"option"}))}),
    "checkboxes":          Schema({}, {"options": Many(10, frozenset({"option"}))}),
    "plain_text_input":    Schema({"placeholder": PLACEHOLDER, "initial_value": Text(3000, bare=True)}),
    "number_input":        Schema({"placeholder": PLACEHOLDER}, needs=("is_decimal_allowed",)),
    "image":               Schema({"alt_text": Text(2000, required=True, bare=True), "image_url": Text(3000, bare=True)}),
    "feedback_buttons":    Schema(needs=("positive_button", "negative_button")),
    "icon_button":         Schema({"text": Text(75, plain=True, required=True), "value": Text(2000, bare=True)}, needs=("icon",)),
    "option":              Schema({"text": Text(75, required=True), "value": Text(150, required=True, bare=True), "description": Text(75)}),
    "mrkdwn":              Schema({"text": Text(3000, required=True, bare=True)}),
    "plain_text":          Schema({"text": Text(3000, required=True, bare=True)}),
}
CONFIRM = {"title": Text(100, plain=True, required=True), "text": Text(300, required=True), "confirm": Text(30, plain=True), "deny": Text(30, plain=True)}
# fmt: on


def problems(blocks: Any, surface: Surface, at: str = "/blocks") -> list[str]:
    """Return why Slack would refuse these blocks; empty if it accepts them."""
    if not isinstance(blocks, list):
        return [error("must be an array", at)]
    found = [error(f"no more than {MOST_BLOCKS[surface]} items allowed", at)] if len(blocks) > MOST_BLOCKS[surface] else []
    for n, block in enumerate(blocks):
        found += _block(block, surface, f"{at}/{n}")
    return found + _twice(blocks, at)


def too_long_together(blocks: Sequence[JSON]) -> bool:
    return sum(len(text) for block in blocks for text in _strings(block)) > BLOCK_TEXT_TOGETHER


def error(what: str, at: str) -> str:
    return f"[ERROR] {what} [json-pointer:{at}]"


def _block(block: Any, surface: Surface, at: str) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in BLOCKS:
        yield error(f"unsupported type: {kind}", f"{at}/type")
        return
    shape = BLOCKS[kind]
    if surface not in shape.where:
        yield error(f"unsupported type: {kind}", f"{at}/type")
    yield from _text(block, "block_id", ID, at)
    yield from _shape(block, shape, at)
    if kind in SPECIAL:
        yield from SPECIAL[kind](block, at)


def _shape(thing: JSON, shape: Schema, at: str) -> Iterator[str]:
    for name in shape.needs:
        if thing.get(name) is None:
            yield error(f"missing required field: {name}", at)
    for name, text in shape.texts.items():
        yield from _text(thing, name, text, at)
    for name, many in shape.lists.items():
        yield from _list(thing, name, many, at)
    for name, allowed in shape.ones.items():
        if thing.get(name) is not None:
            yield from _element(thing[name], allowed, f"{at}/{name}")


def _text(thing: JSON, name: str, rule: Text, at: str) -> Iterator[str]:
    value = thing.get(name)
    if value is None:
        if rule.required:
            yield error(f"missing required field: {name}", at)
    elif rule.bare:
        yield from _length(value, rule, f"{at}/{name}")
    elif not isinstance(value, dict) or value.get("type") not in OBJECTS:
        yield error("must be a text object", f"{at}/{name}")
    elif rule.plain and value["type"] != "plain_text":
        yield error("must be a plain_text object", f"{at}/{name}/type")
    else:
        yield from _length(value.get("text"), rule, f"{at}/{name}/text")


def _length(value: Any, rule: Text, at: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield error("must be a string", at)
    elif not value:
        yield error("must be more than 0 characters", at)
    elif len(value) > rule.most:
        yield error(f"must be less than {rule.most + 1} characters", at)


def _list(thing: JSON, name: str, rule: Many, at: str) -> Iterator[str]:
    items, here = thing.get(name), f"{at}/{name}"
    if items is None:
        if rule.required:
            yield error(f"missing required field: {name}", at)
        return
    if not isinstance(items, list):
        yield error("must be an array", here)
        return
    if len(items) > rule.most:
        yield error(f"no more than {rule.most} items allowed", here)
    if len(items) < rule.least:
        yield error(f"no fewer than {rule.least} items allowed", here)
    for n, item in enumerate(items if rule.of else []):
        yield from _element(item, rule.of, f"{here}/{n}")


def _element(element: Any, allowed: frozenset[str], at: str) -> Iterator[str]:
    if not isinstance(element, dict):
        yield error("must be an object", at)
        return
    kind = "option" if allowed == {"option"} else element.get("type")
    if kind not in allowed:
        yield error(f"unsupported type: {kind}", f"{at}/type")
        return
    yield from _text(element, "action_id", ID, at)
    yield from _shape(element, ELEMENTS.get(kind, Schema()), at)
    if element.get("style") not in (None, "primary", "danger") and kind == "button":
        yield error("must be one of: primary, danger", f"{at}/style")
    if isinstance(confirm := element.get("confirm"), dict):
        yield from _shape(confirm, Schema(CONFIRM), f"{at}/confirm")


def _section(block: JSON, at: str) -> Iterator[str]:
    if block.get("text") is None and not block.get("fields"):
        yield error("missing required field: text or fields", at)
    for n, item in enumerate(block.get("fields") or []):
        if isinstance(item, dict) and isinstance(item.get("text"), str) and len(item["text"]) > 2000:
            yield error("must be less than 2001 characters", f"{at}/fields/{n}/text")


def _image(block: JSON, at: str) -> Iterator[str]:
    if not block.get("image_url") and not block.get("slack_file"):
        yield error("missing required field: image_url or slack_file", at)


def _table(block: JSON, at: str) -> Iterator[str]:
    for n, row in enumerate(block.get("rows") or []):
        if not isinstance(row, list):
            yield error("must be an array", f"{at}/rows/{n}")
        elif len(row) > 20:
            yield error("no more than 20 items allowed", f"{at}/rows/{n}")


def _task(block: JSON, at: str) -> Iterator[str]:
    if block.get("status", "pending") not in STATUSES:
        yield error("must be one of: pending, in_progress, complete, error", f"{at}/status")


def _plan(block: JSON, at: str) -> Iterator[str]:
    for n, task in enumerate(block.get("tasks") or []):
        if not isinstance(task, dict) or task.get("type") != "task_card":
            yield error("must be a task_card", f"{at}/tasks/{n}/type")
        else:
            yield from _block(task, "message", f"{at}/tasks/{n}")


STATUSES = frozenset({"pending", "in_progress", "complete", "error"})
SPECIAL: dict[str, Callable[[JSON, str], Iterator[str]]] = {
    "section": _section,
    "image": _image,
    "table": _table,
    "task_card": _task,
    "plan": _plan,
}


def _twice(blocks: list[Any], at: str) -> list[str]:
    """Return duplicate ids, a second table, and too much markdown."""
    found, seen = [], set[str]()
    known = [block for block in blocks if isinstance(block, dict)]
    for n, block in enumerate(known):
        if (block_id := block.get("block_id")) and block_id in seen:
            found.append(error(f"`block_id` `{block_id}` already exists", f"{at}/{n}/block_id"))
        seen.add(block_id or "")
        ids = [element["action_id"] for element in elements_of(block) if element.get("action_id")]
        found += [error(f"`action_id` `{i}` already exists", f"{at}/{n}") for i in dict.fromkeys(ids) if ids.count(i) > 1]
    if sum(block.get("type") == "table" for block in known) > 1:
        found.append(error("only_one_table_allowed", at))
    if sum(len(str(block.get("text"))) for block in known if block.get("type") == "markdown") > MARKDOWN_TOGETHER:
        found.append(error(f"markdown must be less than {MARKDOWN_TOGETHER + 1} characters together", at))
    return found


def elements_of(block: JSON) -> list[JSON]:
    """Return all interactive elements of a block."""
    inside = [*(block.get("elements") or []), *(block.get("actions") or []), block.get("accessory"), block.get("element")]
    cards = [element for card in inside if isinstance(card, dict) and card.get("type") == "card" for element in elements_of(card)]
    return [element for element in inside if isinstance(element, dict) and element.get("type") in CLICKED | INPUTS | EXTRA] + cards


def _strings(thing: Any) -> Iterator[str]:
    match thing:
        case {"type": "plain_text" | "mrkdwn" | "text" | "markdown", "text": str(text)}:
            yield text
        case dict():
            for value in thing.values():
                yield from _strings(value)
        case list():
            for value in thing:
                yield from _strings(value)


VIEW = {"private_metadata": Text(3000, bare=True), "callback_id": ID, "external_id": ID}
TITLES = {"title": Text(24, plain=True, required=True), "submit": Text(24, plain=True), "close": Text(24, plain=True)}


def view_problems(view: JSON) -> list[str]:
    """Return why Slack would refuse this modal or home view."""
    kind = view.get("type")
    if kind not in ("modal", "home"):
        return [error("must be one of: modal, home", "/view/type")]
    rules = {name: rule for name, rule in VIEW.items() if view.get(name) != ""}
    found = list(_shape(view, Schema(rules | (TITLES if kind == "modal" else {})), "/view"))
    found += problems(view.get("blocks"), kind, "/view/blocks")
    asks = any(isinstance(block, dict) and block.get("type") == "input" for block in view.get("blocks") or [])
    if kind == "modal" and asks and view.get("submit") is None:
        found.append(error("missing required field: submit", "/view"))
    return found
