"""Find what people see, hear or smell at a machine (smoke, noise, water, lights), which no check can confirm or deny."""

import re
from typing import Final

MAX_REPORTS = 6
MAX_REPORT_CHARS = 160
_SENSED: Final = re.compile(
    r"\b(?:"
    r"smok(?:e|es|ing|ed|y)\b(?! ?-?tests?)|smell(?:s|ing|ed|y)?|smelt|stinks?|stank|od(?:o|ou)rs?|stench|fumes?|"
    r"burn(?:s|t|ing|ed)\b|on fire|fire alarms?|flames?|caught fire|catch(?:es|ing)? fire|"
    r"spark(?:s|ing|ed)\b|arcing|scorch\w{0,3}|singed|charred|melt(?:s|ed|ing)|molten|"
    r"nois(?:e|es|y)\b(?= |$)|rattl(?:e|es|ing)|grind(?:s|ing)|whin(?:es|ing)|buzz(?:es|ing)|hum(?:s|ming)|squeal(?:s|ing)|screech\w{0,3}|hiss(?:es|ing)|"
    r"crackl(?:es|ing)|clicking (?:sounds?|noises?)|(?:weird|strange|odd|funny|loud|awful|terrible|bad) (?:sounds?|clicks?|clicking|hum|whine)|"
    r"sounds? (?:weird|strange|odd|funny|loud|awful|terrible|wrong)|"
    r"sounds? like (?:an? )?(?:jet|plane|turbine|vacuum|hair ?dryer|drill|grinder|siren|gravel|coffee|dying|scream\w{0,3})|loud(?:er|ly)? (?:bang|pop)|"
    r"(?:bang|pop)(?:s|ped|ping)? loudly|vibrat(?:es|ing|ion|ions)|beep(?:s|ing|ed)?|"
    r"(?:alarms?|sirens?|buzzers?) (?:is |are |keeps? )?(?:sound|ring|go|beep|on)\w{0,4}|"
    r"water|wet|flood(?:ed|ing)?|drip(?:s|ping|ped)?|puddles?|spill(?:s|ed|ing)?|spilt|condensation|moisture|coolant|leak(?:s|ing|ed|y)?|"
    r"(?:led|leds|lights?|lamps?|indicators?)\b[^.!?\n]{0,40}\b(?:amber|orange|red|yellow|blink\w{0,4}|flash(?:es|ing)|dark)|"
    r"(?:amber|orange|red|yellow|blinking|flashing) (?:\w{1,12} ){0,2}(?:led|leds|lights?|lamps?|indicators?)|"
    r"hot to (?:the )?touch|too hot to touch|red[- ]hot|glow(?:s|ing)|"
    r"bent pins?|cracked|dented|corro(?:ded|sion)|rust(?:y|ed)?|"
    r"(?:was|got|been) dropped|fell (?:over|down|to the floor|out of the rack)|tipped over|earthquake|lightning|mice|rats?|rodents?|insects?|ants"
    r")\b",
    re.IGNORECASE,
)
_OF_PROGRAMS: Final = re.compile(
    r"\b(?:memory|mem|ram|fd|file descriptors?|handles?|sockets?|data|information|test set|label|connections?|threads?|goroutines?|vram)[ -]leak\w{0,3}|"
    r"\bleak\w{0,3} (?:\w{1,10} )?(?:memory|handles?|sockets?|fds?|descriptors?|connections?|ram|vram|data)|"
    r"\bwater ?marks?|\bburn(?:ed|t|s|ing)? (?:in|rate|through)\b|"
    r"\bgpu[-_ ]?burn\w{0,3}|\bsmoke[ -]?test\w{0,3}|\bnois(?:e|y) (?:gradients?|loss|curve|metrics?|schedule|neighbou?rs?)|"
    r"\b(?:stopped|quit|started|gave up|go(?:es|ing)? for a|out for a) smok(?:e|ing)\b|"
    r"\b(?:gradient|loss|label|gaussian|log) noise|"
    r"\bjob was dropped|\bpackets? (?:was|were|got|been) dropped|\b(?:was|were|got|been) dropped (?:by|from) the (?:network|fabric|switch)|\bred[- ]?hat\b",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(
    r"\b(?:no|not|never|without|isn['’]?t|doesn['’]?t|don['’]?t|didn['’]?t|wasn['’]?t|neither|nor)\s+(?:\w{1,12}\s+){0,2}$", re.IGNORECASE
)
_ASKS: Final = re.compile(
    r"^\W*(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|who|what|which|why|how|when|where|any)\b", re.IGNORECASE
)
_PART: Final = re.compile(r"[^.!?;\n]{1,400}[.!?;\n]?")
_LONGEST: Final = 8000


def find_physical_reports(text: str) -> tuple[str, ...]:
    """Return the sentences that report such a perception, as written."""
    reports: list[str] = []
    for part in _PART.finditer(_OF_PROGRAMS.sub(" ", text[:_LONGEST])):
        statement = part[0].strip()
        if _is_question(statement):
            continue
        if any(not _DENIED.search(statement[: sensed.start()]) for sensed in _SENSED.finditer(statement)):
            reports.append(" ".join(statement.split())[:MAX_REPORT_CHARS])
    return tuple(dict.fromkeys(reports))[:MAX_REPORTS]


def _is_question(sentence: str) -> bool:
    """Return whether a sentence only asks: “is there smoke?”, but not “it smells of smoke, is that bad?”."""
    return sentence.endswith("?") and bool(_ASKS.match(sentence))
