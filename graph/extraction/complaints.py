"""What a report complains of: slowness that a check can measure, intermittent trouble, suspected causes, physical signs. Pure."""

import re
from collections.abc import Collection
from typing import Final

from kb.history.label_ranking import LabelRanker
from kb.taxonomy.taxonomy import Taxonomy

# Complaints that an exclusive check can measure: "slow all_reduce" names collectives, "something is wrong" names none.

# Alternative checks (the first with enough named hosts is used) and lower-case names of what they measure. Wrong
# results are a symptom of their own (`graph.engine.verdict`).
COMPLAINT_CHECKS: Final[tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]] = (
    (("nccl2", "ibbw", "nccl1"), re.compile(r"\b(?:all[_-]?(?:reduces?|gathers?|to[_-]?alls?)|reduce[_-]?scatters?|collectives?)\b")),
    (("nccl2", "ibbw", "nccl1"), re.compile(r"\b(?:bus ?bw|nccl[_ -]tests?)\b")),
    (
        ("ibbw",),
        re.compile(r"\bib_(?:write|read|send)_(?:bw|lat)\b|\brdma\b|\bgpu ?direct\b|\b(?:infiniband|ib) (?:bandwidth|throughput|speed)\b"),
    ),
    (("bw",), re.compile(r"\b(?:h2d|d2h|host[ -]to[ -]device|device[ -]to[ -]host|bandwidthtest|pcie (?:bandwidth|cop(?:y|ies)|speed))\b")),
    (("p2p",), re.compile(r"\b(?:p2p|peer[ -]to[ -]peer|nvlink (?:bandwidth|throughput|speed|cop(?:y|ies)))\b")),
    (("gemm",), re.compile(r"\b(?:gemms?|matmuls?|matrix mult\w{1,12}|t(?:era)?flops)\b")),
)


def find_measuring_checks(text: str, symptoms: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """Return the checks that measure what the report calls slow, each with its alternatives."""
    if "slow" not in symptoms:
        return ()
    words = text.lower()
    return tuple(dict.fromkeys(checks for checks, pattern in COMPLAINT_CHECKS if pattern.search(words)))


# Detect reports of intermittent trouble, which a single check may miss.

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


# Causes that the report's writer suspects: "I think it is NCCL", "probably the switch".

MAX_GUESSES = 3
MAX_LABELS = 4
MIN_SHARE = 1 / 3  # A label fits a guess if its likeness reaches this share of the best label's.
_ADVERB_PATTERN = (
    r"(?:really |still |rather |also |strongly |would |'d |'m |'re |was |were |am |are |do |kind of |pretty |quite |almost |just ){0,3}"
)
_CUE_PATTERN = re.compile(
    r"\b(?:"
    rf"(?:i|we|they|he|she|people|some|customer|user|team|everyone|everybody)\s?{_ADVERB_PATTERN}"
    r"(?:think|thinks|thought|suspect|suspects|suspected|suspecting|believe|believes|guess|guesses|assume|assumes|bet|blame|blames|blaming|reckon|fear|fears|"
    r"thinking|guessing|betting|sure|convinced|afraid)"
    r"|(?:my|our|their|his|her|first|best) (?:guess|bet|suspicion|theory|hunch|idea|suspect|hypothesis|feeling)(?: is| was| would be|:)?"
    r"|suspected (?:cause|culprit|root cause)(?: is|:)?|suspected|suspecting|suspect|blaming|root cause:?|caused by"
    r"|probably|presumably|apparently|supposedly|possibly|perhaps|maybe|most likely|likely|surely|certainly|obviously|clearly"
    r"|(?:looks?|smells?|feels?|seems?|sounds?) (?:very much |a lot |more |to me )?like|(?:seems?|appears?|looks?) to be"
    r"|(?:must|might|may|could|has to|got to|should) (?:only |well )?be|(?:is|could|might|may) (?:it|this|that)(?: maybe| perhaps| possibly)?(?: be)?"
    r")\b",
    re.IGNORECASE,
)
_LEAD_PATTERN = re.compile(
    r"[\s:,]{0,3}(?:(?:that|it|it's|its|is|this|this is|these|was|be|to|there is|there's|there|we have|about|on|by|of|due|because|again|some kind|"
    r"the cause|the culprit|the problem|the issue|'s|’s|it’s|an?|the|our|your|some|caused|related)\b[\s:,]{0,3}){0,8}",
    re.IGNORECASE,
)
_GUESS_PATTERN = re.compile(r"[^.,;:!?\n()]{2,60}")
_GUESS_END_PATTERN = re.compile(
    r"\b(?:but|because|since|although|though|and|while|when|which|that|as|again|after|before|on|fault|problem|issue)\b", re.IGNORECASE
)
_DENIAL_PATTERN = re.compile(
    r"\b(?:not|no|never|don't|doesn't|don’t|doesn’t|isn't|isn’t|wasn't|cannot|can't|can’t|without|nor)\b", re.IGNORECASE
)
_HEALTHY_PATTERN = re.compile(r"\b(?:fine|ok|okay|healthy|good|innocent|alright)$", re.IGNORECASE)
_MAX_DENIAL_CHARS = 14  # Characters before a cue in which a denial counts: "I don't think it is NCCL".


def find_suspected_causes(text: str, taxonomy: Taxonomy) -> tuple[str, ...]:
    """Return labels that fit the writer's guesses, best first."""
    nearest, labels = LabelRanker.build(taxonomy), dict[str, None]()
    for guess in find_guesses(text):
        ranked = nearest.rank_labels(guess, (), most=MAX_LABELS)
        labels |= {label: None for label, likeness in ranked if likeness >= MIN_SHARE * ranked[0][1]}
    return tuple(labels)


def find_guesses(text: str) -> tuple[str, ...]:
    """Return the words in which a text names suspected causes."""
    read, guesses = text[:MAX_CHARS].replace("’", "'"), dict[str, None]()
    for cue in _CUE_PATTERN.finditer(read):
        lead_match = _LEAD_PATTERN.match(read, cue.end())
        match = _GUESS_PATTERN.match(read, lead_match.end() if lead_match else cue.end())
        if match is None or _DENIAL_PATTERN.search(read, max(0, cue.start() - _MAX_DENIAL_CHARS), match.start()):
            continue
        guess = _GUESS_END_PATTERN.split(match[0], maxsplit=1)[0].strip()
        if guess and not _DENIAL_PATTERN.search(guess) and not _HEALTHY_PATTERN.search(guess):
            guesses[guess.lower()] = None
    return tuple(guesses)[:MAX_GUESSES]


# What people see, hear or smell at a machine (smoke, noise, water, lights), which no check can confirm or deny.

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


def _is_question(said: str) -> bool:
    """Return whether a sentence only asks: “is there smoke?”, but not “it smells of smoke, is that bad?”."""
    return said.endswith("?") and bool(_ASKS.match(said))
