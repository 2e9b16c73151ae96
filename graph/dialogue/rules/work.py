"""Cues for work: recheck, narrow, widen, exclusive checks, remedies and undo."""

from collections.abc import Mapping
from typing import Final

from graph.dialogue.intents import Intent
from graph.dialogue.rules.row import CueRow

# fmt: off
RULES: Final[Mapping[Intent, CueRow]] = {
    Intent.RECHECK: CueRow(
        "recheck; > recheck; recheck =; > look HOST; recheck HOST; > look 'again'; > look thing 'again'; look thing|every|HOST 'again'; > "
        "'run' CHECK; look HOST = !?; > can recheck; > look CHECK|DEVICE HOST; > look CHECK; 'again' please =; > 'again'; can recheck HOST; > "
        "look 'at' HOST; > look recheck; look HOST 'again'|'once'; 'again' look HOST; recheck thing; > 'scan'|look HOST recheck; > 'another' "
        "scan|look|check; > 'run' thing 'again'; > 'repeat' exam|scan|look; > 'do' scan|look|exam 'again'; > 'run' scan|exam 'again'; swapped "
        "= !HOST; i|we swapped = !HOST; swapped thing =; driverish|CAUSE should be well; driverish|CAUSE should be 'up' 'now'",
        covers=0.6,
        unless="not if",
        never="EXCLUSIVE also broken change still 'history' other compare output 'happened' 'open' 'healthy' 'good' 'fine' 'use'",
    ),
    Intent.NARROW: CueRow(
        "job JOB = !?; only HOST; > only HOST; machine HOST =; only thing HOST; 'ignore'|'skip'|'forget' other|every; only look HOST; only "
        "about HOST; 'concerned'|'affected'|'concerns' HOST only; > 'focus'|'concentrate'|'limit' HOST|GROUP; > only GROUP; only HOST =; > "
        "'leave'|'take' 'out' HOST|other; i|we only 'care' HOST; 'leave' HOST 'out'; 'ignore'|'skip'|'exclude' HOST; only HOST "
        "'matters'|'matter'|'relevant'; 'machine' HOST =; 'hosts'|'host'|'nodes'|'node' HOST =; only 'talking' HOST; 'restrict' HOST; "
        "'narrow' 'down' HOST; > 'stick'|'stay' HOST",
        covers=0.55,
        unless="if ?",
        never="symptom did XID approve",
    ),
    Intent.WIDEN: CueRow(
        "> also HOST; > look also HOST; look HOST also; > 'include'|'add' HOST|GROUP|other|machine; > look other|every|GROUP also; > look "
        "other|GROUP machine; > look every machine; > 'widen'|'extend'|'broaden'|'expand'; also HOST =; > look HOST also; > look every|other; "
        "also look HOST|other|every; > look GROUP; > also other|GROUP|every; 'and' also HOST =; 'into' 'account' HOST; > 'extend' HOST; "
        "'include' HOST|other|every; also 'look' machine; look every|other machine also; > 'throw' HOST; > 'scan' other|every; > look "
        "'more'|'additional'|'further' machine|other; > 'go' 'wider'; 'wider' =; > 'more' machine =; > look every machine|'group'; > look "
        "'at' 'whole' 'group'",
        covers=0.55,
        unless="not if ?",
        never="symptom broken did",
    ),
    Intent.RUN_CHECK: CueRow(
        "> 'run'|'start'|'do'|'launch'|'perform'|'execute'|'kick' EXCLUSIVE; > EXCLUSIVE HOST; > EXCLUSIVE; > run EXCLUSIVE HOST; > exam "
        "EXCLUSIVE; EXCLUSIVE =; EXCLUSIVE HOST =; EXCLUSIVE HOSTS; i|we 'want'|'need'|'like' EXCLUSIVE; run EXCLUSIVE; can run EXCLUSIVE; > "
        "'get'|'try' EXCLUSIVE",
        covers=0.5,
        unless="not if ?",
        never="curve",
    ),
    Intent.WISH_REMEDY: CueRow(
        "> REMEDY; > REMEDY HOST; > REMEDY DEVICE; i|we 'want'|'need' REMEDY; 'want' HOST REMEDY; REMEDY = !?; REMEDY HOST = !?; > can "
        "REMEDY; 'needs' REMEDY HOST; > 'put'|'take' HOST REMEDY; i|we should REMEDY; > CHECK REMEDY; REMEDY job; > 'get' HOST "
        "'drained'|'rebooted'|'reset'; > 'get' REMEDY; 'want'|'need' HOST 'drained'|'rebooted'|'reset'",
        covers=0.6,
        unless="not if ?",
        never="RESUME change undo 'rather' 'than' 'instead' doubt",
    ),
    Intent.UNDO: CueRow(
        "undo; undo =; > undo HOST; > return service; > HOST service; RESUME; > RESUME; RESUME HOST =; i|we 'want'|'need' undo; > undo "
        "drain|REMEDY; > 'put'|'bring'|'give'|'get' HOST 'back'; 'put'|'bring' thing 'back'; return HOST service; HOST 'back' service; undo "
        "thing; RESUME HOST; undo what you 'did'; 'back' drain; 'back' REMEDY undo; > 'let' job 'run' HOST 'again'; > 'let' job use HOST",
        covers=0.6,
        unless="not if ?",
    ),
}
# fmt: on
