"""Decide whether a text asks about hosts or about a job that runs on them. Pure.

A question about a host is answered with that host first; in job trouble the accused host comes first.
"""

import re

from graph.extraction.reports import ParsedReport

MAX_CHARS = 4000  # Characters read per text.
_JOB_PATTERN = re.compile(
    r"\b(?:jobs?|training|trainings?|runs?|ranks?|nccl|all-?reduce|collectives?|epochs?|steps?|workload)\b", re.IGNORECASE
)
_HOST_PATTERN = r"(?:the )?(?:hosts? |nodes? |machines? |servers? |box )?[`*'\"]?[A-Za-z][A-Za-z0-9._\[\],-]{0,80}[\d\]][`*'\"]?"
_CONDITION_PATTERN = r"(?:healthy|ok(?:ay)?|fine|all ?right|good|well|sane|up|alive|sick|broken|bad)"
_QUESTION_PATTERN = re.compile(
    r"(?:^|[.!?,:;\n]|@[\w-]{1,40}|\b(?:and|but|so|please|you|know|me|tell|if|whether))\s{0,3}"
    r"(?:is|are|was|how(?:'s| is| are| about)|what(?:'s| is)? (?:about|with|wrong with|up with|the (?:state|status|health) of)|"
    rf"check(?: on| out)?|look (?:at|into)|anything (?:wrong|odd|off|new) (?:with|on)|status of|state of|health of)\s{{1,3}}{_HOST_PATTERN}|"
    rf"\b(?:if|whether) {_HOST_PATTERN} (?:is|are)\b|{_HOST_PATTERN} {_CONDITION_PATTERN} ?\?",
    re.IGNORECASE,
)


def is_host_health_question(text: str) -> bool:
    """Return whether the text asks how a host is, as in "is gpu-002 healthy?"."""
    return bool(_QUESTION_PATTERN.search(text[:MAX_CHARS]))


def find_asked_hosts(text: str, read: ParsedReport) -> tuple[str, ...]:
    """Return the hosts that the text asks about; none where it is about a job."""
    if is_host_health_question(text) or not (read.job or "nccl_timeout" in read.symptoms or _JOB_PATTERN.search(text[:MAX_CHARS])):
        return read.hosts
    return ()
