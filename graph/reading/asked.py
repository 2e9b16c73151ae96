"""Whom a text asks about: hosts for their own sake, or a job that happens to run on them. Pure.

Who asks about a host reads about that host first; in a job's trouble the guilty host comes first, whichever was named.
"""

import re

from graph.reading.reports import Understanding

LONGEST = 4000
"""Characters of a text that are read for what it asks."""
_JOB = re.compile(r"\b(?:jobs?|training|trainings?|runs?|ranks?|nccl|all-?reduce|collectives?|epochs?|steps?|workload)\b", re.IGNORECASE)
_HOST = r"(?:the )?(?:hosts? |nodes? |machines? |servers? |box )?[`*'\"]?[A-Za-z][A-Za-z0-9._\[\],-]{0,80}[\d\]][`*'\"]?"
_WELL = r"(?:healthy|ok(?:ay)?|fine|all ?right|good|well|sane|up|alive|sick|broken|bad)"
_QUESTION = re.compile(
    r"(?:^|[.!?,:;\n]|@[\w-]{1,40}|\b(?:and|but|so|please|you|know|me|tell|if|whether))\s{0,3}"
    r"(?:is|are|was|how(?:'s| is| are| about)|what(?:'s| is)? (?:about|with|wrong with|up with|the (?:state|status|health) of)|"
    rf"check(?: on| out)?|look (?:at|into)|anything (?:wrong|odd|off|new) (?:with|on)|status of|state of|health of)\s{{1,3}}{_HOST}|"
    rf"\b(?:if|whether) {_HOST} (?:is|are)\b|{_HOST} {_WELL} ?\?",
    re.IGNORECASE,
)


def asks_how_they_are(text: str) -> bool:
    """Whether it is asked how a host is, as in "is gpu-002 healthy?"."""
    return bool(_QUESTION.search(text[:LONGEST]))


def hosts_asked_about(text: str, read: Understanding) -> tuple[str, ...]:
    """The hosts that the text is about for their own sake; none where it speaks of a job."""
    if asks_how_they_are(text) or not (read.job or "nccl_timeout" in read.symptoms or _JOB.search(text[:LONGEST])):
        return read.hosts
    return ()
