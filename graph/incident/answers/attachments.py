"""Answer about uploaded files and pasted lines.

A file named like a check, such as `dmesg`, is not taken for a host's output.
"""

import re
from collections.abc import Sequence
from typing import Final

from graph.dialogue.intents import Intent
from graph.extraction.uploaded_files import UNREAD_REASONS
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
)
from graph.incident.answers.unproven import format_uploaded_fact
from graph.incident.turn_result import TurnResult
from graph.state import Attachment
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY
from tools.fact import Fact, Status

MAX_FILES = 6
MAX_LINES_PER_FILE = 4
MAX_CHARS = 400
# Intents that the classifier may give to a question about a file.
FILE_QUESTION_INTENTS: Final = frozenset({
    Intent.SHOW_OUTPUT, Intent.EXPLAIN, Intent.WHY_NOT, Intent.HOST_STATE, Intent.GROUP_STATE, Intent.CHANGED_SINCE, Intent.HAPPENED_BEFORE,
    Intent.STATUS, Intent.META, Intent.NOT_UNDERSTOOD,
})  # fmt: skip
_UPLOAD_PATTERN: Final = re.compile(
    r"\b(?:attach(?:ed|ments?)|uploads?|uploaded|pasted|(?:files?|logs?|lines?|blocks?) (?:that |which )?(?:i|we|he|she|they) (?:sent|gave|posted|added)|"
    r"(?:my|our) (?:files?|paste))\b",
    re.IGNORECASE,
)


def find_named_attachments(context: AnswerContext) -> tuple[Attachment, ...]:
    """Return the files that a question names, or all files if it asks about uploads in general."""
    if context.incident.kind not in ("ask", "why", "status") or context.message.intent not in FILE_QUESTION_INTENTS:
        return ()
    text = context.message.text[:MAX_CHARS]
    attachments = list_attachments(context)
    named_attachments = tuple(attachment for attachment in attachments if _is_name_in_text(attachment.name, text))
    return named_attachments or (attachments if _UPLOAD_PATTERN.search(text) else ())


def _is_name_in_text(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def list_attachments(context: AnswerContext) -> tuple[Attachment, ...]:
    """Return all attachments of the incident, each text once, latest first."""
    attachments = [
        Attachment.model_validate(attachment) for message in context.incident.messages for attachment in message.get("attachments", ())
    ]
    return tuple({(attachment.name, attachment.sha256): attachment for attachment in reversed(attachments)}.values())


async def show_attached(context: AnswerContext, files: Sequence[Attachment]) -> TurnResult:
    """Answer with the findings of each file, or why it was not read."""
    lines = [line for attachment in files[:MAX_FILES] for line in _render_attachment(context, attachment)]
    if len(files) > MAX_FILES:
        lines.append(f"… and {len(files) - MAX_FILES} more; ask for one by its name.")
    return build_answer(context, lines, max_lines=MAX_FILES * (MAX_LINES_PER_FILE + 2))


def _render_attachment(context: AnswerContext, attachment: Attachment) -> list[str]:
    heading = f"{clean_text(attachment.name, 80)} (handed in)"
    if attachment.unread:
        return [f"{heading}: not read, {UNREAD_REASONS[attachment.unread]}."]
    file_facts = [
        fact for fact in context.incident.facts if not fact.host and fact.sha256 == attachment.sha256 and fact.status is Status.OK
    ]
    if not file_facts:
        return [f"{heading}: nothing of it is kept; attach it again."]
    abnormal_facts = [fact for fact in context.assessment.uploaded_facts if fact.sha256 == attachment.sha256]
    unparsed_facts = [fact for fact in file_facts if fact.key in (NOT_UNDERSTOOD_KEY, "check.foreign")]
    lines = [f"  {clean_text(fact.line or format_uploaded_fact(fact, context.incident))}" for fact in abnormal_facts]
    lines = lines[:MAX_LINES_PER_FILE]
    unparsed_lines = [f"  not understood: {clean_text(line)}" for fact in unparsed_facts for line in _get_lines(fact)]
    lines += unparsed_lines[: MAX_LINES_PER_FILE - len(lines)]
    summary = "no trouble that I know"
    if abnormal_facts:
        kind_count = len({(fact.key, repr(fact.value)) for fact in abnormal_facts})
        summary = f"{kind_count} kind{'s' * (kind_count != 1)} of trouble"
    if len(abnormal_facts) > MAX_LINES_PER_FILE:
        summary += f"; {len(abnormal_facts) - MAX_LINES_PER_FILE} more"
    if unparsed_facts:
        unparsed_count = sum(fact.value for fact in unparsed_facts if isinstance(fact.value, int))
        summary += f"; {unparsed_count} lines not understood"
    return [f"{heading}: {summary}.", *lines]


def _get_lines(fact: Fact) -> Sequence[str]:
    return fact.attrs.get("lines") or (fact.line,)
