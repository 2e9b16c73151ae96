"""Find the causes that the author of a report suspects: "I think it is NCCL", "probably the switch"."""

import re

from graph.extraction.complaints import MAX_CHARS
from kb.history.label_ranking import LabelRanker
from kb.taxonomy.taxonomy import Taxonomy

MAX_GUESSES = 3
MAX_LABELS = 4
MIN_SHARE = 1 / 3  # a label fits a guess if it is at least this share as probable as the best one
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
_MAX_DENIAL_CHARS = 14  # characters before a cue in which a denial counts: "I don't think it is NCCL"


def find_suspected_causes(text: str, taxonomy: Taxonomy) -> tuple[str, ...]:
    """Return the labels that fit the author's guesses, best first."""
    ranker = LabelRanker.build(taxonomy)
    labels: list[str] = []
    for guess in find_guesses(text):
        ranked = ranker.rank_labels(guess, limit=MAX_LABELS)
        labels += [label for label, probability in ranked if probability >= MIN_SHARE * ranked[0][1]]
    return tuple(dict.fromkeys(labels))


def find_guesses(text: str) -> tuple[str, ...]:
    """Return the words in which a text names suspected causes."""
    text = text[:MAX_CHARS].replace("’", "'")
    guesses: list[str] = []
    for cue in _CUE_PATTERN.finditer(text):
        lead_match = _LEAD_PATTERN.match(text, cue.end())
        match = _GUESS_PATTERN.match(text, lead_match.end() if lead_match else cue.end())
        if match is None or _DENIAL_PATTERN.search(text, max(0, cue.start() - _MAX_DENIAL_CHARS), match.start()):
            continue
        guess = _GUESS_END_PATTERN.split(match[0], maxsplit=1)[0].strip()
        if guess and not _DENIAL_PATTERN.search(guess) and not _HEALTHY_PATTERN.search(guess):
            guesses.append(guess.lower())
    return tuple(dict.fromkeys(guesses))[:MAX_GUESSES]
