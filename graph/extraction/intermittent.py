"""Detect reports of intermittent trouble, which a single check may miss. Pure."""

import re

_INTERMITTENT_PATTERN = re.compile(
    r"\b(?:sometimes|intermittent(?:ly)?|now and (?:then|again)|occasional(?:ly)?|sporadic(?:ally)?|random(?:ly)?|flap(?:s|ped|ping|py)?|"
    r"from time to time|on and off|off and on|once in a while|every now and|comes? and goes?|up and down|at times|non-?deterministic(?:ally)?|"
    r"unstable|flaky|every (?:few|couple of|other|\d{1,3}) ?(?:s|m|h|sec|min|hour|second|minute|step|iteration|epoch)\w{0,6}|"
    r"keeps? (?:dropping|flapping|coming back|bouncing|resetting)|again and again|one in (?:\w{1,6})|"
    r"ab und zu|manchmal|gelegentlich|sporadisch|zeitweise|hin und wieder|von zeit zu zeit|immer (?:mal )?wieder|"
    r"alle (?:paar|\d{1,3}) (?:sekunden|minuten|stunden)|zufällig|unregelmäßig)\b"
)
_NOT_INTERMITTENT_PATTERN = re.compile(
    r"\brandom (?:seed|init|weights|number|crop|sampl\w{1,4})|\b(?:not|never|n't|isn.t) (?:intermittent|sporadic|random|flapping)"
)
MAX_CHARS = 4000


def is_intermittent(text: str) -> bool:
    return _INTERMITTENT_PATTERN.search(_NOT_INTERMITTENT_PATTERN.sub(" ", text[:MAX_CHARS].lower())) is not None
