"""Rendered values as stable, readable text: cards and dialogs as YAML, generated ids replaced."""

import re
from typing import Any

import yaml

from bot.cards.blocks import Block, Card

# ids and digests that are generated anew on each run
_GENERATED = (
    (re.compile(r"apr-[0-9a-f]{12}(?![0-9a-f])"), "apr-<id>"),
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])"), "<sha256>"),
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{16}…"), "<sha256…>"),
)


class _Dumper(yaml.SafeDumper):
    """YAML dumper that writes multi-line texts as blocks."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _write_text)


def stable(text: str) -> str:
    """Return the text without generated ids, trailing blanks and missing final newline."""
    for pattern, word in _GENERATED:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")) + "\n"


def as_yaml(shown: Card | Block | list[Block]) -> str:
    """Return a card, a dialog or blocks as YAML."""
    value = {"text": shown.text, "blocks": list(shown.blocks)} if isinstance(shown, Card) else shown
    return stable(yaml.dump(_plain(value), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=140))


def _plain(value: Any) -> Any:
    """Return the value with Slack's text objects as their text."""
    if isinstance(value, dict):
        if value.get("type") in ("plain_text", "mrkdwn") and "text" in value:
            return value["text"]
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
