"""Block Kit's rules as tables. `find_problems` lists all that Slack would refuse, with JSON pointers.

Limits are the documented ones, plus two undocumented ones: about 13,200 characters of block text per message
(`msg_blocks_too_long`), and 4,000 bytes of text in chat.update.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deploy.sandbox.slack.workspace.refusal import JSON

Surface = Literal["message", "modal", "home"]
ALL_SURFACES = frozenset({"message", "modal", "home"})
MESSAGE_ONLY = frozenset({"message"})
MAX_BLOCKS: dict[Surface, int] = {"message": 50, "modal": 100, "home": 100}
MAX_BLOCK_TEXT_CHARS = 13_200
MAX_MARKDOWN_CHARS = 12_000


@dataclass(frozen=True, slots=True)
class TextRule:
    """Limits of a text object; `plain`: plain_text only; `is_string`: a string instead of an object."""

    max_count: int
    plain: bool = False
    required: bool = False
    is_string: bool = False


@dataclass(frozen=True, slots=True)
class ListRule:
    """Limits of a list and its allowed items."""

    max_count: int
    item_types: frozenset[str] = frozenset()
    min_count: int = 1
    required: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of a block or an element: text objects, lists, single elements, and where it may stand."""

    texts: dict[str, TextRule] = field(default_factory=dict)
    lists: dict[str, ListRule] = field(default_factory=dict)
    elements: dict[str, frozenset[str]] = field(default_factory=dict)
    surfaces: frozenset[str] = ALL_SURFACES
    required: tuple[str, ...] = ()


SELECTS = frozenset(
    {"static_select", "multi_static_select", "users_select", "multi_users_select", "conversations_select", "channels_select"}
)
CHOICES = frozenset({"radio_buttons", "checkboxes"})
TEXTS = frozenset({"plain_text_input", "number_input", "email_text_input", "url_text_input", "rich_text_input"})
PICKERS = frozenset({"datepicker", "timepicker", "datetimepicker"})
CLICKABLE = frozenset({"button", "overflow"}) | SELECTS | CHOICES | PICKERS
INPUTS = TEXTS | SELECTS | CHOICES | PICKERS | {"file_input"}
CONTEXT_ELEMENTS = frozenset({"icon_button", "feedback_buttons"})
TEXT_OBJECTS = frozenset({"mrkdwn", "plain_text"})
RICH_TEXT_PARTS = frozenset({"rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote"})

ID_RULE = TextRule(255, is_string=True)
PLACEHOLDER = TextRule(150, plain=True)
OPTIONS = ListRule(100, frozenset({"option"}), required=False)

# fmt: off
BLOCKS: dict[str, Schema] = {
    "section":         Schema({"text": TextRule(3000)}, {"fields": ListRule(10, TEXT_OBJECTS, required=False)}, {"accessory": CLICKABLE | {"image"}}),
    "header":          Schema({"text": TextRule(150, plain=True, required=True)}),
    "context":         Schema({}, {"elements": ListRule(10, TEXT_OBJECTS | {"image"})}),
    "actions":         Schema({}, {"elements": ListRule(25, CLICKABLE)}),
    "context_actions": Schema({}, {"elements": ListRule(5, frozenset({"feedback_buttons", "icon_button"}))}, surfaces=MESSAGE_ONLY),
    "divider":         Schema(),
    "image":           Schema({"alt_text": TextRule(2000, required=True, is_string=True), "image_url": TextRule(3000, is_string=True), "title": TextRule(2000, plain=True)}),
    "markdown":        Schema({"text": TextRule(MAX_MARKDOWN_CHARS, required=True, is_string=True)}, surfaces=MESSAGE_ONLY),
    "rich_text":       Schema({}, {"elements": ListRule(1000, RICH_TEXT_PARTS, min_count=0)}),
    "table":           Schema({}, {"rows": ListRule(100)}, surfaces=MESSAGE_ONLY),
    "input":           Schema({"label": TextRule(2000, plain=True, required=True), "hint": TextRule(2000, plain=True)}, {}, {"element": INPUTS}, required=("element",)),
    "file":            Schema(surfaces=MESSAGE_ONLY, required=("external_id",)),
    "video":           Schema({"alt_text": TextRule(2000, required=True, is_string=True), "title": TextRule(200, plain=True, required=True)}, required=("video_url",)),
    "task_card":       Schema({"title": TextRule(3000, required=True, is_string=True)}, surfaces=MESSAGE_ONLY, required=("task_id",)),
    "plan":            Schema({"title": TextRule(3000, required=True, is_string=True)}, surfaces=MESSAGE_ONLY),
    "alert":           Schema({"text": TextRule(200, required=True)}),
    "card":            Schema({"title": TextRule(150), "subtitle": TextRule(150), "body": TextRule(200)},
                              {"actions": ListRule(3, CLICKABLE, required=False)}, surfaces=MESSAGE_ONLY),
    "carousel":        Schema({}, {"elements": ListRule(10, frozenset({"card"}))}, surfaces=MESSAGE_ONLY),
    "container":       Schema({"title": TextRule(150)}, surfaces=MESSAGE_ONLY),
}
ELEMENTS: dict[str, Schema] = {
    "button":              Schema({"text": TextRule(75, plain=True, required=True), "value": TextRule(2000, is_string=True), "url": TextRule(3000, is_string=True)}),
    "overflow":            Schema({}, {"options": ListRule(5, frozenset({"option"}))}),
    "static_select":       Schema({"placeholder": PLACEHOLDER}, {"options": OPTIONS, "option_groups": ListRule(100, required=False)}),
    "multi_static_select": Schema({"placeholder": PLACEHOLDER}, {"options": OPTIONS, "option_groups": ListRule(100, required=False)}),
    "radio_buttons":       Schema({}, {"options": ListRule(10, frozenset({"option"}))}),
    "checkboxes":          Schema({}, {"options": ListRule(10, frozenset({"option"}))}),
    "plain_text_input":    Schema({"placeholder": PLACEHOLDER, "initial_value": TextRule(3000, is_string=True)}),
    "number_input":        Schema({"placeholder": PLACEHOLDER}, required=("is_decimal_allowed",)),
    "image":               Schema({"alt_text": TextRule(2000, required=True, is_string=True), "image_url": TextRule(3000, is_string=True)}),
    "feedback_buttons":    Schema(required=("positive_button", "negative_button")),
    "icon_button":         Schema({"text": TextRule(75, plain=True, required=True), "value": TextRule(2000, is_string=True)}, required=("icon",)),
    "option":              Schema({"text": TextRule(75, required=True), "value": TextRule(150, required=True, is_string=True), "description": TextRule(75)}),
    "mrkdwn":              Schema({"text": TextRule(3000, required=True, is_string=True)}),
    "plain_text":          Schema({"text": TextRule(3000, required=True, is_string=True)}),
}
CONFIRM_TEXTS = {"title": TextRule(100, plain=True, required=True), "text": TextRule(300, required=True), "confirm": TextRule(30, plain=True), "deny": TextRule(30, plain=True)}
# fmt: on


def find_problems(blocks: Any, surface: Surface, at: str = "/blocks") -> list[str]:
    """Return why Slack would refuse these blocks; empty if it accepts them."""
    if not isinstance(blocks, list):
        return [format_problem("must be an array", at)]
    problems = []
    if len(blocks) > MAX_BLOCKS[surface]:
        problems.append(format_problem(f"no more than {MAX_BLOCKS[surface]} items allowed", at))
    for n, block in enumerate(blocks):
        problems += _check_block(block, surface, f"{at}/{n}")
    return problems + _find_message_problems(blocks, at)


def exceeds_text_limit(blocks: Sequence[JSON]) -> bool:
    return sum(len(text) for block in blocks for text in _iter_texts(block)) > MAX_BLOCK_TEXT_CHARS


def format_problem(what: str, at: str) -> str:
    return f"[ERROR] {what} [json-pointer:{at}]"


def _check_block(block: Any, surface: Surface, at: str) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in BLOCKS:
        yield format_problem(f"unsupported type: {kind}", f"{at}/type")
        return
    schema = BLOCKS[kind]
    if surface not in schema.surfaces:
        yield format_problem(f"unsupported type: {kind}", f"{at}/type")
    yield from _check_text(block, "block_id", ID_RULE, at)
    yield from _check_schema(block, schema, at)
    if kind in BLOCK_CHECKS:
        yield from BLOCK_CHECKS[kind](block, at)


def _check_schema(part: JSON, schema: Schema, at: str) -> Iterator[str]:
    for name in schema.required:
        if part.get(name) is None:
            yield format_problem(f"missing required field: {name}", at)
    for name, text_rule in schema.texts.items():
        yield from _check_text(part, name, text_rule, at)
    for name, list_rule in schema.lists.items():
        yield from _check_list(part, name, list_rule, at)
    for name, allowed in schema.elements.items():
        if part.get(name) is not None:
            yield from _check_element(part[name], allowed, f"{at}/{name}")


def _check_text(thing: JSON, name: str, rule: TextRule, at: str) -> Iterator[str]:
    value = thing.get(name)
    if value is None:
        if rule.required:
            yield format_problem(f"missing required field: {name}", at)
    elif rule.is_string:
        yield from _check_length(value, rule, f"{at}/{name}")
    elif not isinstance(value, dict) or value.get("type") not in TEXT_OBJECTS:
        yield format_problem("must be a text object", f"{at}/{name}")
    elif rule.plain and value["type"] != "plain_text":
        yield format_problem("must be a plain_text object", f"{at}/{name}/type")
    else:
        yield from _check_length(value.get("text"), rule, f"{at}/{name}/text")


def _check_length(value: Any, rule: TextRule, at: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield format_problem("must be a string", at)
    elif not value:
        yield format_problem("must be more than 0 characters", at)
    elif len(value) > rule.max_count:
        yield format_problem(f"must be less than {rule.max_count + 1} characters", at)


def _check_list(thing: JSON, name: str, rule: ListRule, at: str) -> Iterator[str]:
    items = thing.get(name)
    list_at = f"{at}/{name}"
    if items is None:
        if rule.required:
            yield format_problem(f"missing required field: {name}", at)
        return
    if not isinstance(items, list):
        yield format_problem("must be an array", list_at)
        return
    if len(items) > rule.max_count:
        yield format_problem(f"no more than {rule.max_count} items allowed", list_at)
    if len(items) < rule.min_count:
        yield format_problem(f"no fewer than {rule.min_count} items allowed", list_at)
    for n, item in enumerate(items if rule.item_types else []):
        yield from _check_element(item, rule.item_types, f"{list_at}/{n}")


def _check_element(element: Any, allowed: frozenset[str], at: str) -> Iterator[str]:
    if not isinstance(element, dict):
        yield format_problem("must be an object", at)
        return
    kind = "option" if allowed == {"option"} else element.get("type")
    if kind not in allowed:
        yield format_problem(f"unsupported type: {kind}", f"{at}/type")
        return
    yield from _check_text(element, "action_id", ID_RULE, at)
    yield from _check_schema(element, ELEMENTS.get(kind, Schema()), at)
    if element.get("style") not in (None, "primary", "danger") and kind == "button":
        yield format_problem("must be one of: primary, danger", f"{at}/style")
    if isinstance(confirm := element.get("confirm"), dict):
        yield from _check_schema(confirm, Schema(CONFIRM_TEXTS), f"{at}/confirm")


def _check_section(block: JSON, at: str) -> Iterator[str]:
    if block.get("text") is None and not block.get("fields"):
        yield format_problem("missing required field: text or fields", at)
    for n, item in enumerate(block.get("fields") or []):
        if isinstance(item, dict) and isinstance(item.get("text"), str) and len(item["text"]) > 2000:
            yield format_problem("must be less than 2001 characters", f"{at}/fields/{n}/text")


def _check_image(block: JSON, at: str) -> Iterator[str]:
    if not block.get("image_url") and not block.get("slack_file"):
        yield format_problem("missing required field: image_url or slack_file", at)


def _check_table(block: JSON, at: str) -> Iterator[str]:
    for n, row in enumerate(block.get("rows") or []):
        if not isinstance(row, list):
            yield format_problem("must be an array", f"{at}/rows/{n}")
        elif len(row) > 20:
            yield format_problem("no more than 20 items allowed", f"{at}/rows/{n}")


def _check_task(block: JSON, at: str) -> Iterator[str]:
    if block.get("status", "pending") not in TASK_STATUSES:
        yield format_problem("must be one of: pending, in_progress, complete, error", f"{at}/status")


def _check_plan(block: JSON, at: str) -> Iterator[str]:
    for n, task in enumerate(block.get("tasks") or []):
        if not isinstance(task, dict) or task.get("type") != "task_card":
            yield format_problem("must be a task_card", f"{at}/tasks/{n}/type")
        else:
            yield from _check_block(task, "message", f"{at}/tasks/{n}")


TASK_STATUSES = frozenset({"pending", "in_progress", "complete", "error"})
BLOCK_CHECKS: dict[str, Callable[[JSON, str], Iterator[str]]] = {
    "section": _check_section,
    "image": _check_image,
    "table": _check_table,
    "task_card": _check_task,
    "plan": _check_plan,
}


def _find_message_problems(blocks: list[Any], at: str) -> list[str]:
    """Return duplicate ids, a second table, and too much markdown."""
    problems: list[str] = []
    block_ids: set[str] = set()
    valid_blocks = [block for block in blocks if isinstance(block, dict)]
    for n, block in enumerate(valid_blocks):
        block_id = block.get("block_id")
        if block_id and block_id in block_ids:
            problems.append(format_problem(f"`block_id` `{block_id}` already exists", f"{at}/{n}/block_id"))
        block_ids.add(block_id or "")
        action_ids = [element["action_id"] for element in list_elements(block) if element.get("action_id")]
        repeated_ids = [action_id for action_id, uses in Counter(action_ids).items() if uses > 1]
        problems += [format_problem(f"`action_id` `{action_id}` already exists", f"{at}/{n}") for action_id in repeated_ids]
    if sum(block.get("type") == "table" for block in valid_blocks) > 1:
        problems.append(format_problem("only_one_table_allowed", at))
    if sum(len(str(block.get("text"))) for block in valid_blocks if block.get("type") == "markdown") > MAX_MARKDOWN_CHARS:
        problems.append(format_problem(f"markdown must be less than {MAX_MARKDOWN_CHARS + 1} characters together", at))
    return problems


def list_elements(block: JSON) -> list[JSON]:
    """Return all interactive elements of a block."""
    parts = [*(block.get("elements") or []), *(block.get("actions") or []), block.get("accessory"), block.get("element")]
    children: list[JSON] = [part for part in parts if isinstance(part, dict)]
    interactive = [child for child in children if child.get("type") in CLICKABLE | INPUTS | CONTEXT_ELEMENTS]
    cards = [child for child in children if child.get("type") == "card"]
    return interactive + [element for card in cards for element in list_elements(card)]


def _iter_texts(thing: Any) -> Iterator[str]:
    match thing:
        case {"type": "plain_text" | "mrkdwn" | "text" | "markdown", "text": str(text)}:
            yield text
        case dict():
            for value in thing.values():
                yield from _iter_texts(value)
        case list():
            for value in thing:
                yield from _iter_texts(value)


VIEW_TEXTS = {"private_metadata": TextRule(3000, is_string=True), "callback_id": ID_RULE, "external_id": ID_RULE}
MODAL_TEXTS = {"title": TextRule(24, plain=True, required=True), "submit": TextRule(24, plain=True), "close": TextRule(24, plain=True)}


def find_view_problems(view: JSON) -> list[str]:
    """Return why Slack would refuse this modal or home view."""
    kind = view.get("type")
    if kind not in ("modal", "home"):
        return [format_problem("must be one of: modal, home", "/view/type")]
    rules = {name: rule for name, rule in VIEW_TEXTS.items() if view.get(name) != ""}
    problems = list(_check_schema(view, Schema(rules | (MODAL_TEXTS if kind == "modal" else {})), "/view"))
    problems += find_problems(view.get("blocks"), kind, "/view/blocks")
    has_input = any(isinstance(block, dict) and block.get("type") == "input" for block in view.get("blocks") or [])
    if kind == "modal" and has_input and view.get("submit") is None:
        problems.append(format_problem("missing required field: submit", "/view"))
    return problems
