"""Base of pydantic models for files that people write, with readable messages. Pure."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError

Loc = tuple[str | int, ...]  # path into a document: mapping keys and list indices


def squash_blanks(text: str) -> str:
    """Collapse blanks, so that wrapping does not matter."""
    return " ".join(text.split())


Text = Annotated[str, AfterValidator(squash_blanks)]
Texts = tuple[Text, ...]
SomeTexts = Annotated[Texts, Field(min_length=1)]
Number = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]


class StrictModel(BaseModel):
    """A mapping of a file: these fields and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    removed_fields: ClassVar[Mapping[str, str]] = {}  # former fields, and what to write instead


def iter_complaints(why: ValidationError, model: type[BaseModel]) -> Iterator[tuple[Loc, str]]:
    """Yield place and sentence: `groups.train.port: port must be a whole number, not 'ssh'`."""
    for error in why.errors(include_url=False):
        if error["type"] == "too_short" and error["input"]:
            continue  # pydantic counts only the items that it accepted
        loc = tuple(step for step in error["loc"] if step != "[key]")
        model_loc = loc[:-1] if error["type"] in _MAPPING_ERRORS else loc
        location = ".".join(map(str, model_loc))
        for sentence in _format_error(error["type"], loc, error, _find_model_at(model, model_loc)):
            yield loc, f"{location}: {sentence}" if location else sentence


_MAPPING_ERRORS = ("missing", "extra_forbidden")  # problems of the mapping although pydantic reports a field
_KIND_TEXTS = {
    "string_type": "text",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}


def _format_error(kind: str, loc: Loc, error: Any, model: type[BaseModel]) -> tuple[str, ...]:
    if kind == "value_error":
        return tuple(map(str, cause.args)) if (cause := error["ctx"]["error"]).args else (str(cause),)
    return (_format_sentence(kind, loc, error, model),)


def _format_sentence(kind: str, loc: Loc, error: Any, model: type[BaseModel]) -> str:
    name = next((step for step in reversed(loc) if isinstance(step, str)), "")
    last, given_text, error_context = (loc[-1] if loc else ""), f"{error['input']!r:.80}", error.get("ctx") or {}
    if kind == "missing":
        return f"{last} is missing"
    if kind == "extra_forbidden":
        removed = model.removed_fields.get(str(last)) if issubclass(model, StrictModel) else None
        return f"{last} was removed: {removed}" if removed else f"unknown field {last}; {str(last)!r} is none of {_format_fields(model)}"
    if kind == "literal_error":
        return f"{name} {given_text} is none of {str(error_context['expected']).replace(' or ', ', ').replace(chr(39), '')}"
    if kind == "too_short":
        return f"{name} must be a {'mapping' if isinstance(error['input'], dict) else 'list'} that is not empty"
    if not loc:
        return f"expected a mapping of {_format_fields(model)}"
    must = f"be {_KIND_TEXTS[kind]}" if kind in _KIND_TEXTS else error["msg"].removeprefix("Input should ")
    return f"{name} must {must}, not {given_text}"


def _find_model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel]:
    for step in loc:
        inside = model.model_fields.get(step) if isinstance(step, str) else None
        model = (_find_model_in(inside.annotation) if inside else None) or model
    return model


def _format_fields(model: type[BaseModel]) -> str:
    return ", ".join(row.alias or name for name, row in model.model_fields.items())


def _find_model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _find_model_in(part))), None)
