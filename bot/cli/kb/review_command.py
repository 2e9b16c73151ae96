"""`rackmedic kb review`: review a build. Each answer is stored at once."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click
import yaml

from bot.app.site_files import load_site_taxonomy
from bot.cli.command_runtime import print_text
from bot.cli.kb.built_folder import (
    BuiltItem,
    BuiltItemKind,
    ReviewDecision,
    ReviewVerdict,
    append_decision,
    find_cause_problems,
    find_check_problems,
    find_entry_problems,
    load_built_items,
    load_decisions,
)
from bot.settings import Settings
from kb.redact import redact_to_line, show_invisible
from kb.taxonomy.taxonomy import Taxonomy

# kinds with a label that the reviewer may change
INCIDENT_KINDS: Final[tuple[BuiltItemKind, ...]] = ("labelled", "doubtful")
MAX_PAGE_CHARS: Final = 1_200  # characters shown of a page
MAX_CAUSE_CHARS: Final = 2_000  # characters of a typed cause
HELP_TEXT: Final = """a  accept it unchanged
1, 2, 3  accept it under the label with that number
l LABEL  accept it under another label
c TEXT  enter the cause if it is missing
e  edit it in $EDITOR, then decide
r  refuse it: it is not used
s  skip it: it comes again next time
q  stop here; everything decided so far is kept"""


@dataclass(frozen=True, slots=True)
class ReviewDialog:
    """The reviewer's terminal. `ask`: None at end of input; `edit`: None if not saved."""

    say: Callable[[str], None]
    ask: Callable[[str], str | None]
    edit: Callable[[str], str | None]


@dataclass(slots=True)
class _ReviewSession:
    settings: Settings
    folder: Path
    taxonomy: Taxonomy
    talk: ReviewDialog
    new: dict[str, str]  # causes of this build, not refused: label -> title

    def review_items(self, items: Sequence[BuiltItem]) -> None:
        for number, item in enumerate(items, 1):
            if not self._review_item(item, f"{number} of {len(items)}"):
                return

    def _review_item(self, item: BuiltItem, place: str) -> bool:
        """Return False to stop."""
        entry = dict(item.entry)
        self.talk.say("\n".join(_format_item_lines(item, entry, place, self._known_titles)))
        while (answer := self.talk.ask(_format_choices(item))) is not None:
            word, _, rest = answer.strip().partition(" ")
            match word.lower():
                case "q":
                    return False
                case "s":
                    return True
                case "r":
                    return self._refuse_item(item)
                case "e" | "c" as choice_key if f"[{choice_key}]" in _format_choices(item):
                    entry = self._edit_entry(item, entry) if choice_key == "e" else self._set_cause(entry, rest)
                case choice if (label := self._choose_label(item, entry, choice, rest)) is not None:
                    if self._accept_item(item, entry | ({"label": label} if label else {})):
                        return True
                case _:
                    self.talk.say(HELP_TEXT)
        return False

    def _choose_label(self, item: BuiltItem, entry: Mapping[str, Any], choice: str, rest: str) -> str | None:
        """Return the label, empty if none, or None if not accepted."""
        if choice == "a":
            return str(entry.get("label", ""))
        if item.kind not in INCIDENT_KINDS:
            return None
        if choice in ("1", "2", "3") and int(choice) <= len(item.near):
            return item.near[int(choice) - 1]
        if choice == "l" and rest:
            return self._resolve_label(rest.strip())
        return None

    def _resolve_label(self, typed: str) -> str | None:
        if typed in self._known_labels:
            return typed
        like = get_close_matches(typed, self._known_labels, n=3, cutoff=0.4)
        self.talk.say(f"{show_invisible(typed)} is no label" + (f"; near it: {', '.join(like)}" if like else ""))
        return None

    def _accept_item(self, item: BuiltItem, entry: dict[str, Any]) -> bool:
        problems = self._find_problems(item, entry)
        for problem in problems:
            self.talk.say(f"not accepted: {problem}")
        return not problems and self._record_decision(item, "accept", entry if item.kind != "page" else {})

    def _find_problems(self, item: BuiltItem, entry: Mapping[str, Any]) -> list[str]:
        match item.kind:
            case "page":
                return []
            case "cause":
                return find_cause_problems(entry, self.settings.kb_dir)
            case "check":
                return find_check_problems(entry, self.settings.check_programs)
        return (
            find_entry_problems([entry], self._known_labels)
            if entry.get("root_cause")
            else ["the cause is missing: enter it with `c TEXT`"]
        )

    def _refuse_item(self, item: BuiltItem) -> bool:
        if item.kind == "cause":
            self.new.pop(item.id, None)
        return self._record_decision(item, "refuse", {})

    @property
    def _known_labels(self) -> list[str]:
        return [*self.taxonomy.leaves, *self.new]

    @property
    def _known_titles(self) -> Mapping[str, str]:
        return {**self.taxonomy.titles, **self.new}

    def _set_cause(self, entry: dict[str, Any], said: str) -> dict[str, Any]:
        cause = str(redact_to_line(said, MAX_CAUSE_CHARS))
        self.talk.say(f"cause: {show_invisible(cause)}" if cause else "say it on the same line: c TEXT")
        return entry | ({"root_cause": cause} if cause else {})

    def _edit_entry(self, item: BuiltItem, entry: dict[str, Any]) -> dict[str, Any]:
        """Return the edited entry, or the old one if unusable."""
        text = self.talk.edit(yaml.safe_dump(entry, allow_unicode=True, sort_keys=False, width=120))
        if text is None:
            return entry
        try:
            after = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError) as error:
            self.talk.say(f"not taken over, it is no YAML: {' '.join(str(error).split())[:200]}")
            return entry
        name = "label" if item.kind == "cause" else "id"
        if not isinstance(after, dict) or after.get(name) != item.id:
            self.talk.say(f"not taken over: the fields of one entry are wanted, and its {name} stays {item.id}")
            return entry
        self.talk.say("changed; `a` accepts it")
        return {str(key): value for key, value in after.items()}

    def _record_decision(self, item: BuiltItem, does: ReviewVerdict, entry: Mapping[str, Any]) -> bool:
        append_decision(self.folder, ReviewDecision(item.id, item.kind, does, item.digest, entry))
        return True


def review_folder(settings: Settings, folder: Path, talk: ReviewDialog, *, as_json: bool, again: bool = False) -> int:
    """Review undecided items, or all with `again`; with JSON only summarise. Raises Refusal."""
    taxonomy = load_site_taxonomy(settings.kb_dir)
    items = load_built_items(folder, taxonomy.leaves)
    before = {} if again else load_decisions(folder, items)
    waiting = [one for one in items if (one.kind, one.id) not in before]
    if not as_json:
        causes = {one.id: str(one.entry.get("title")) for one in items if one.kind == "cause" and _is_not_refused(one, before)}
        _ReviewSession(settings, folder, taxonomy, talk, causes).review_items(waiting)
    print_text(_format_summary(folder, items, as_json=as_json))
    return 0


def _is_not_refused(item: BuiltItem, known: Mapping[tuple[BuiltItemKind, str], ReviewDecision]) -> bool:
    decision = known.get((item.kind, item.id))
    return decision is None or decision.does != "refuse"


def _format_summary(folder: Path, items: Sequence[BuiltItem], *, as_json: bool) -> str:
    decisions = load_decisions(folder, items)
    decision_counts = Counter(one.does for one in decisions.values())
    undecided = [one.id for one in items if (one.kind, one.id) not in decisions]
    if as_json:
        numbers = {"items": len(items), "accepted": decision_counts["accept"], "refused": decision_counts["refuse"]}
        return json.dumps({"schema": 1, "folder": str(folder), **numbers, "undecided": undecided})
    on = f"`rackmedic kb review {folder}` continues" if undecided else f"`rackmedic kb apply {folder}` takes it over"
    return f"{decision_counts['accept']} accepted, {decision_counts['refuse']} refused, {len(undecided)} to decide. {on}."


def _format_choices(item: BuiltItem) -> str:
    if item.kind == "page":
        return "[a]ccept  [r]efuse  [s]kip  [q]uit  [?] > "
    if item.kind not in INCIDENT_KINDS:
        return "[a]ccept  [e]dit  [r]efuse  [s]kip  [q]uit  [?] > "
    return "[a]ccept  [1-3] or [l]abel  [c]ause  [e]dit  [r]efuse  [s]kip  [q]uit  [?] > "


def _format_item_lines(item: BuiltItem, entry: Mapping[str, Any], place: str, titles: Mapping[str, str]) -> list[str]:
    head = f"\n{place} · {item.kind} · {item.id}"
    if item.kind == "page":
        return [head, *map(show_invisible, (str(entry["title"]), str(entry["text"])[:MAX_PAGE_CHARS]))]
    if item.kind not in INCIDENT_KINDS:
        return [head, *map(show_invisible, yaml.safe_dump(entry, allow_unicode=True, sort_keys=False, width=120).rstrip().split("\n"))]
    speaker_note = f" ({item.said_by})" if item.said_by else ""
    rows = {
        "what": entry.get("title"),
        "seen": entry.get("description"),
        "cause": f"“{entry['root_cause']}”{speaker_note}" if entry.get("root_cause") else "not stated",
        "fix": entry.get("resolution"),
        "from": entry.get("source_url"),
        "why": item.why,
    }
    label = str(entry.get("label", ""))
    near_lines = [f"  {number} {one}  {titles[one]}" for number, one in enumerate(item.near[:3], 1) if one in titles]
    label_text = f"label  {label}  {titles.get(label, '')}  {item.sure}"
    return [
        head,
        *(f"{name:<6} {show_invisible(str(value))}" for name, value in rows.items() if value),
        show_invisible(label_text),
        *near_lines,
    ]


# The review dialog over a terminal or piped input.


def open_terminal_dialog() -> ReviewDialog:
    return ReviewDialog(print_text, _ask_line, lambda text: click.edit(text, extension=".yaml"))


def _ask_line(prompt: str) -> str | None:
    print_text(prompt, end="", err=True, flush=True)
    line = sys.stdin.readline()
    if not line:
        print_text(err=True)
    return line.rstrip("\n") if line else None
