"""Find the causes that a report's writer suspects: "I think it is NCCL", "probably the switch"."""

import re

from graph.extraction.complaints import MAX_CHARS
from kb.history.label_ranking import LabelRanker
from kb.taxonomy.taxonomy import Taxonomy

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
