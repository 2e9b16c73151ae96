"""Cues for the course of an incident: corrected, fixed, still broken, closed, reopened."""

from collections.abc import Mapping
from typing import Final

from graph.dialogue.intents import Intent
from graph.dialogue.rules.row import CueRow

# fmt: off
RULES: Final[Mapping[Intent, CueRow]] = {
    Intent.CORRECT: CueRow(
        "nay be CAUSE; actually be CAUSE; 'was' CAUSE; not CAUSE be; wrong; you wrong; wrong CAUSE; nay CAUSE; nay wrong; actually CAUSE; "
        "cause be CAUSE; wrong cause; not cause; 'real' cause CAUSE; i 'think'|'know' be CAUSE not; not be CAUSE; 'not' 'right'|'correct'; "
        "'blame' CAUSE; 'culprit' be CAUSE; thing 'not' 'it' CAUSE|cause; cause CAUSE be; not CAUSE CAUSE; be CAUSE 'problem' not; cause not "
        "right; not CAUSE =; thing be CAUSE not; be CAUSE =; wrong thing CAUSE; nay thing be CAUSE",
        covers=0.55,
        unless="?",
        never="TIME did close still symptom DEVICE should 'back' 'in' swapped",
    ),
    Intent.FIXED: CueRow(
        "thing fixed; fixed =; HOST fixed; fixed 'again'|'now'; every|job|cause|machine fixed; i|we fixed; HOST 'back' =; well again; thing "
        "well 'now'|'again'; every|job|HOST well 'now'|'again'; 'back' 'to' 'normal'; 'running' 'again'|'fine'; every well now; job "
        "'running'; look well 'now'; 'good' 'now'; HOST be 'back'; job well again; thing gone; machine well 'again'; works again|now; every "
        "works|fixed; cause fixed; 'trick' 'did'; every|job|thing 'runs' 'again'; every|job|thing 'runs'; HOST be well again; we well again; "
        "job 'through'; every 'running'|works; 'no' 'more' symptom; HOST well again",
        covers=0.65,
        weight=0.8,
        unless="not if ?",
        never="still greet safe REMEDY goahead compare CHECK other doubt",
    ),
    Intent.STILL_BROKEN: CueRow(
        "still broken; still not fixed; not helped; not fixed; broken 'again'; still =; 'no' "
        "'change'|'better'|'improvement'|'luck'|'difference'; 'came'|'comes' 'back'; thing be 'back' = !HOST; still not; still symptom; "
        "'again' symptom|broken; 'back' broken|cause; 'got'|'getting'|'even'|'is' 'worse'; not 'work'|'working'; helped not; still bad; HOST "
        "still broken|bad|symptom; 'persists'; happening again; 'same' 'as' 'before' broken|symptom|cause; exactly_as_before; broken 'as' "
        "'before'; not 'any' better; cause 'still' 'there'; thing 'nothing' 'did'; 'same' thing =; cause 'back'|'returned'; thing happen "
        "'again' !?; HOST 'still' bad|broken; happen 'again' 'just'; 'still' =; 'same' cause|symptom|thing !HOST; 'same' cause|symptom HOST "
        "still|'again'",
        covers=0.55,
        weight=0.85,
        unless="?",
        never="XID if 'need'",
    ),
    Intent.CLOSE: CueRow(
        "close; > close; close incident|thing; close =; close be CAUSE; you can close; 'resolved' be CAUSE; 'false' 'alarm'; close CAUSE; "
        "'mark' 'resolved'|'solved'|'fixed'|'done'|'closed'; 'case' 'closed'; we 'done' 'here'; can we|you close thing|one|incident; i|we can "
        "close; close CAUSE 'cause'; close 'as'; 'be' CAUSE you can close; close cause CAUSE; 'set' thing close; > 'end' incident; 'end' "
        "incident CAUSE; close 'and' CAUSE; can 'be' close =",
        covers=0.65,
        weight=1.3,
        unless="not if ?",
        never="PERSON undo 'early' 'soon' doubt wasclosed",
    ),
    Intent.REOPEN: CueRow(
        "reopen; > reopen; reopen =; reopen incident|thing; > 'open' 'again'; 'open' incident|thing 'again'; i|we 'need'|'want' reopen; can "
        "we|you reopen; undo close; close 'early'|'soon'; 're' 'open'; 'close' undo",
        covers=0.6,
        weight=1.6,
        unless="not if",
        never="'is'",
    ),
}
# fmt: on
