"""Cues about people: taking, assigning, waiting, hand-off, and summaries for others."""

from collections.abc import Mapping
from typing import Final

from graph.dialogue.intents import Intent
from graph.dialogue.rules.row import CueRow

# fmt: off
RULES: Final[Mapping[Intent, CueRow]] = {
    Intent.TAKE: CueRow(
        "i take thing|incident; i take; i onit; 'mine' =; i 'got'|'have' thing; 'assign'|'reassign' thing|incident ME; 'give' thing ME =; "
        "'on' 'it' =; i 'own' thing|incident; let ME take; 'dibs'; 'claim' thing|incident; 'put' ME 'owner'|'down'|'on'; i look thing; "
        "'taking' thing|incident =; 'taking' 'over' =; i can take; leave ME thing|one; leave thing ME; i 'got'|'have' thing =; i take 'care'; "
        "i 'do' thing =; take i =; 'mine' . =; i be onit; thing 'for' 'mine'; i look into; > 'assign' ME; leave thing 'with' ME; 'i' 'got' "
        "thing; i look thing|'one'; 'ill' take thing; 'put' 'my' 'name'; 'claiming' thing; i take 'after' thing; 'taking' thing; i 'look' "
        "'after' thing",
        covers=0.8,
        unless="not if ?",
        never="PERSON human did",
    ),
    Intent.ASSIGN: CueRow(
        "assign PERSON; assign thing|incident PERSON; PERSON take thing|incident; PERSON take; 'over' 'to' PERSON; PERSON 'please' take|look; "
        "PERSON 'owner'|'owns'; 'make' PERSON 'owner'; PERSON 'will'|'should' take; PERSON onit; let PERSON take; PERSON 'can' take|look; "
        "thing 'for' PERSON; PERSON 'own'|'owns'|'has'; 'ask' PERSON look|take|handle; PERSON 'going' 'own'|take; put PERSON 'on'|'owner'; "
        "'to' PERSON thing; 'go' PERSON; PERSON 'look'|'take'|'check'; 'belongs'|'goes' PERSON",
        covers=0.65,
        unless="not if",
    ),
    Intent.WAITS: CueRow(
        "'waiting'|'waits'|'wait' others; 'blocked' others; i|we|thing 'waiting'|'waits'|'wait' others; 'waiting'|'wait' 'on' others; "
        "i|we 'waiting'|'wait' 'on' others; thing|incident 'on' 'hold'; 'put' thing|incident 'hold'; 'put' thing|incident 'on' 'hold'; "
        "'park' thing|incident; 'on' 'hold' others; others 'comes'|'coming'|'arrives'|'ordered' 'waiting'; 'mark' thing|incident 'waiting'",
        covers=0.7,
        unless="not if ?",
        never="REMEDY 'rather' 'than' 'instead' 'should' did",
    ),
    Intent.HAND_OFF: CueRow(
        "handoff; handoff human; 'get'|'need'|'want'|'call'|'involve'|'bring' human; > 'open'|'create'|'make'|'raise'|'file'|'cut'|'turn' "
        "ticket; > 'open'|'create'|'make'|'raise'|'file'|'cut'|'turn' 'ticket'; 'escalate'; handoff ticket; 'let' human take; 'talk'|'speak' "
        "human|'somebody'|'someone'|'anybody'|'anyone'; make|'turn' thing ticket; human take; 'needs' human; i|we|thing 'need'|'needs' human; "
        "assign human|team; 'ticket' human|team >; > 'ticket' 'out' 'of' thing; 'rather' human; 'pass' human; 'pass' thing 'oncall'|'on'; > "
        "'give'|'pass' thing 'somebody'|'someone'; > 'raise'|'open'|'create' ticket team|human; > 'raise'|'open'|'create' ticket",
        covers=0.7,
        unless="not if ?",
        never="PERSON",
    ),
    Intent.SUMMARY: CueRow(
        "summary; summary AUDIENCE; 'update'|explain|'write'|'version'|'words'|'text'|'something' AUDIENCE; > summary; > know AUDIENCE; what "
        "know AUDIENCE; what should know AUDIENCE; 'draft'|'write'|'paste'|'copy' AUDIENCE|'ticket'; show AUDIENCE; 'friendly' AUDIENCE; "
        "'one'|'a' 'sentence'|'paragraph'; 'one' 'line'; 'catch' ME; 'short'|'quick' 'version'; 'in' 'short'; AUDIENCE "
        "'understands'|'understand'; something 'paste'|'copy'; 'sentence' AUDIENCE; 'bring' ME 'speed'; what 'tell' AUDIENCE; "
        "'sentences'|'sentence' 'page'; show 'sentences'; 'text' 'page'",
        covers=0.55,
        never="approve",
    ),
}
# fmt: on
