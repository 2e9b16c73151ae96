"""Answer about files and pasted lines; a file named like a check is still not a host's output."""

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
# intents that a question about a file may have been parsed as
MAY_ASK: Final = frozenset({
    Intent.SHOW_OUTPUT, Intent.EXPLAIN, Intent.WHY_NOT, Intent.HOST_STATE, Intent.GROUP_STATE, Intent.CHANGED_SINCE, Intent.HAPPENED_BEFORE,
    Intent.STATUS, Intent.META, Intent.NOT_UNDERSTOOD,
})  # fmt: skip
_ANY: Final = re.compile(
    r"\b(?:attach(?:ed|ments?)|uploads?|uploaded|pasted|(?:files?|logs?|lines?|blocks?) (?:that |which )?(?:i|we|he|she|they) (?:sent|gave|posted|added)|"
    r"(?:my|our) (?:files?|paste))\b",
    re.IGNORECASE,
)


def find_named_attachments(context: AnswerContext) -> tuple[Attachment, ...]:
    """Return the files that a question names, or all if it asks about uploads."""
    if context.incident.kind not in ("ask", "why", "status") or context.message.intent not in MAY_ASK:
        return ()
    text = context.message.text[:MAX_CHARS]
    attachments = list_attachments(context)
    named_attachments = tuple(
        attachment for attachment in attachments if re.search(rf"(?<![\w.-]){re.escape(attachment.name)}(?![\w-])", text, re.IGNORECASE)
    )
    return named_attachments or (attachments if _ANY.search(text) else ())


def list_attachments(context: AnswerContext) -> tuple[Attachment, ...]:
    """Return all attachments so far, each text once, latest first."""
    attachments = [
        Attachment.model_validate(attachment) for message in context.incident.messages for attachment in message.get("attachments", ())
    ]
    return tuple({(attachment.name, attachment.sha256): attachment for attachment in reversed(attachments)}.values())


async def show_attached(context: AnswerContext, files: Sequence[Attachment]) -> TurnResult:
    """Answer with the findings of each file, or why it was not read."""
    lines = [line for attachment in files[:MAX_FILES] for line in _render_attachment(context, attachment)]
    more = [f"… and {len(files) - MAX_FILES} more; ask for one by its name."] if len(files) > MAX_FILES else []
    return build_answer(context, [*lines, *more], most=MAX_FILES * (MAX_LINES_PER_FILE + 2))


def _render_attachment(context: AnswerContext, attachment: Attachment) -> list[str]:
    head = f"{clean_text(attachment.name, 80)} (handed in)"
    if attachment.unread:
        return [f"{head}: not read, {UNREAD_REASONS[attachment.unread]}."]
    own_facts = [fact for fact in context.incident.facts if not fact.host and fact.sha256 == attachment.sha256 and fact.status is Status.OK]
    file_facts = [fact for fact in context.assessment.uploaded_facts if fact.sha256 == attachment.sha256]
    unknown = [fact for fact in own_facts if fact.key in (NOT_UNDERSTOOD_KEY, "check.foreign")]
    lines = [f"  {clean_text(fact.line or format_uploaded_fact(fact, context.incident))}" for fact in file_facts[:MAX_LINES_PER_FILE]]
    lines += [f"  not understood: {clean_text(line)}" for fact in unknown for line in _get_lines(fact)][: MAX_LINES_PER_FILE - len(lines)]
    if not own_facts:
        return [f"{head}: nothing of it is kept; attach it again."]
    kinds = len({(fact.key, repr(fact.value)) for fact in file_facts})
    findings = f"{kinds} kind{'s' * (kinds != 1)} of trouble" if file_facts else "no trouble that I know"
    rest = f"; {sum(fact.value for fact in unknown if isinstance(fact.value, int))} lines not understood" if unknown else ""
    remainder = f"; {len(file_facts) - MAX_LINES_PER_FILE} more" if len(file_facts) > MAX_LINES_PER_FILE else ""
    return [f"{head}: {findings}{remainder}{rest}.", *lines]


def _get_lines(fact: Fact) -> Sequence[str]:
    return fact.attrs.get("lines") or (fact.line,)
