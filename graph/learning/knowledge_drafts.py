"""Third and fourth pass over an export: draft leaves for new causes, checks for typed commands and pages of lasting facts.

Drafts have the format of a site's folder and come from untrusted text. No drafted clue is decisive, so a build can order
checks but never prove a cause.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from graph.learning.cause_discovery import NewCause, find_shared_words
from graph.learning.rule_labelling import LabelledRow
from kb.taxonomy.taxonomy import CATEGORIES, Taxonomy
from tools.checks.check_types import Check

CLUE_WEIGHT: Final = 3.0
MIN_CLUE_SHARE = 2 / 3  # Share of a cause's threads that quote a clue
MAX_OTHER_SHARE = 0.1  # largest share of other threads that may quote it
MIN_COMMAND_THREADS: Final = 2  # Threads with a command before it is drafted as a check.
MAX_PAGE_SENTENCES: Final = 40
_PLAIN_VALUE_PATTERN: Final = re.compile(r"[A-Za-z0-9_.:-]{1,60}")


def draft_leaves(
    new_causes: Sequence[NewCause], threads: Sequence[LabelledRow], taxonomy: Taxonomy, checks: Mapping[str, Check]
) -> dict[str, Any]:
    """Return category → content of a taxonomy file."""
    files: dict[str, Any] = {}
    for cause in new_causes:
        category, branch, name = cause.label.split(".", 2)
        file = files.setdefault(category, {"category": category, "branches": {}, "leaves": {}})
        if f"{category}.{branch}" not in taxonomy.branches:
            file["branches"][branch] = branch.replace("_", " ").capitalize()
        file["leaves"][f"{branch}.{name}"] = _draft_leaf(cause, threads, taxonomy, checks)
    return {category: {key: part for key, part in file.items() if part} for category, file in files.items() if category in CATEGORIES}


def draft_checks(threads: Sequence[LabelledRow], known_checks: Mapping[str, Check]) -> list[dict[str, Any]]:
    """Return a check for each read-only command that people typed in several threads and that no check runs.

    The check's output is shown unparsed.
    """
    command_counts = Counter(command for thread in threads for command in thread.used.commands)
    check_by_id: dict[str, dict[str, Any]] = {}
    for command, count in command_counts.items():
        check_id = re.sub(r"[^a-z0-9]+", "_", command.lower()).strip("_")[:32].rstrip("_")
        if count < MIN_COMMAND_THREADS or not re.fullmatch(r"[a-z][a-z0-9_]{1,31}", check_id):
            continue
        if check_id in known_checks or check_id in check_by_id:
            continue
        check_by_id[check_id] = {
            "id": check_id,
            "asks": f"What does {command} say? People of {count} past incidents typed it.",
            "command": command.split(),
            "timeout": 20,
            "cap_bytes": 65536,
            "facts": [{"key": f"site.{check_id}", "kind": "str", "regex": "^(?P<value>.{1,200})$"}],
        }
    return [check_by_id[check_id] for check_id in sorted(check_by_id)]


def draft_pages(threads: Sequence[LabelledRow], taxonomy: Mapping[str, str]) -> dict[str, str]:
    """Return the text of a page of lasting facts for each label, by page name. `taxonomy` has titles by label."""
    threads_by_label: dict[str, list[LabelledRow]] = {}
    for thread in threads:
        if thread.verdict == "labelled" and thread.used.lasting:
            threads_by_label.setdefault(thread.label, []).append(thread)
    return {
        f"threads-{_slugify_label(label)}": _render_page(label, taxonomy.get(label, label), label_threads)
        for label, label_threads in sorted(threads_by_label.items())
    }


def find_common_checks(threads: Iterable[LabelledRow]) -> dict[str, tuple[str, int, int]]:
    """Return label or branch → (most used check, threads with it, all threads)."""
    counts_by_check: dict[str, Counter[str]] = {}
    thread_counts: Counter[str] = Counter()
    for thread in threads:
        if thread.verdict == "labelled":
            for name in (thread.label, thread.label.rpartition(".")[0]):
                thread_counts[name] += 1
                counts_by_check.setdefault(name, Counter()).update(thread.used.looks)
    return {name: (*checks.most_common(1)[0], thread_counts[name]) for name, checks in sorted(counts_by_check.items()) if checks}


def _draft_leaf(cause: NewCause, threads: Sequence[LabelledRow], taxonomy: Taxonomy, checks: Mapping[str, Check]) -> dict[str, Any]:
    similar_labels = [thread.others[0] for thread in cause.threads if thread.others]
    similar_leaves = [taxonomy.leaves[label] for label in similar_labels if label in taxonomy.leaves]
    symptoms = [symptom for symptom, _ in Counter(symptom for thread in cause.threads for symptom in thread.used.symptoms).most_common(3)]
    clue = _draft_clue(cause, threads, checks)
    return {
        "title": cause.title,
        "description": " ".join(dict.fromkeys(thread.root_cause for thread in cause.threads[:3])),
        "scope": _find_most_common(leaf.scope for leaf in similar_leaves) or "node",
        "owner": _find_most_common(leaf.owner for leaf in similar_leaves) or "provider",
        "symptoms": symptoms or ["vague"],
        "words": find_shared_words(cause.threads) or [cause.title.lower()],
        **(clue or {"only_words": True}),
        "next_step": _draft_next_step(cause),
        "share": round(min(0.05, max(0.002, len(cause.threads) / max(len(threads), 1))), 4),
        "share_from": f"{len(cause.threads)} of {len(threads)} incidents of one build",
        "sources": list(dict.fromkeys(thread.url or thread.id for thread in cause.threads))[:5],
    }


def _draft_clue(cause: NewCause, threads: Sequence[LabelledRow], checks: Mapping[str, Check]) -> dict[str, Any]:
    """Return a clue for an error that most of the cause's threads and few others quote, with the check that shows it.

    Return an empty mapping if there is none.
    """
    own_ids = {thread.id for thread in cause.threads}
    error_counts = Counter(error for thread in cause.threads for error in thread.used.errors)
    other_threads = [thread for thread in threads if thread.id not in own_ids]
    for error, times in sorted(error_counts.items(), key=lambda error_and_count: (-error_and_count[1], error_and_count[0])):
        key, _, value = error.partition("=")
        check_name = next((name for name, check in checks.items() if key in check.establishes and not check.exclusive), "")
        other_count = sum(error in thread.used.errors for thread in other_threads)
        is_typical = times >= max(2, MIN_CLUE_SHARE * len(cause.threads)) and other_count <= MAX_OTHER_SHARE * len(other_threads)
        if not check_name or not is_typical or not _PLAIN_VALUE_PATTERN.fullmatch(value):
            continue
        condition = f"value == {value}" if value.isdigit() else f"value == '{value}'"
        clue = {"id": "quoted", "key": key, "when": condition, "weight": CLUE_WEIGHT, "says": f"{value}, as {times} past incidents quote"}
        return {
            "evidence": [clue],
            "checks": [check_name],
            "remedies": ["none"],
            "customer_words": "This was seen before; our people look at it.",
        }
    return {}


def _draft_next_step(cause: NewCause) -> str:
    command_counts = Counter(command for thread in cause.threads for command in thread.used.commands).most_common(1)
    instruction = next((sentence for thread in cause.threads for sentence in thread.used.told), "")
    if command_counts and command_counts[0][1] >= MIN_COMMAND_THREADS:
        return f"Look at what {command_counts[0][0]} says."
    return instruction or f"Compare it with {', '.join(thread.id for thread in cause.threads[:3])}; no look of ours shows it."


def _render_page(label: str, title: str, threads: Sequence[LabelledRow]) -> str:
    facts = dict.fromkeys((sentence, thread.id) for thread in threads for sentence in thread.used.lasting)
    thread_by_sentence = dict.fromkeys((sentence, thread.id) for thread in threads for sentence in thread.used.told)
    header = [
        "---",
        f"title: {' '.join(title.split())}: what threads say",
        f"labels: {label}",
        f"source: {len(threads)} past incidents",
        "---",
    ]
    fact_lines = [f"- {sentence} ({thread_id})" for sentence, thread_id in list(facts)[:MAX_PAGE_SENTENCES]]
    check_lines = [f"- {sentence} ({thread_id})" for sentence, thread_id in list(thread_by_sentence)[: MAX_PAGE_SENTENCES // 2]]
    if check_lines:
        check_lines = ["", "Where people looked:", "", *check_lines]
    return "\n".join([*header, *fact_lines, *check_lines]) + "\n"


def _slugify_label(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def _find_most_common(names: Iterable[str]) -> str:
    counts = Counter(names)
    return min(counts, key=lambda name: (-counts[name], name)) if counts else ""
