"""Cues for talk with the bot: stop, quiet, status, help, manners, and typed approvals, which approve nothing."""

from collections.abc import Mapping
from typing import Final

from graph.dialogue.intents import Intent
from graph.dialogue.rules.row import CueRow

# fmt: off
RULES: Final[Mapping[Intent, CueRow]] = {
    Intent.STOP: CueRow(
        "stop =; stop scan =; > stop; > stop scan; 'leave' thing 'alone'; stop look =; > stop look|scan; you can stop; enough stop =; stop "
        "thing; stop now =; cancel thing =; > stop every; 'leave' machine|every 'alone'; 'no' 'more' exam|scan|look; stop every; stop who "
        "onit; stop 'stop'; stop scan machine; stop machine",
        covers=0.8,
        unless="not if ?",
        never="quiet HOST job REMEDY 'posting'",
    ),
    Intent.PAUSE: CueRow(
        "quiet; > quiet; quiet TIME; quiet thing; > 'be' 'quiet'|'silent'; > 'no' 'messages'|'updates'|'more' TIME; 'stop' "
        "'posting'|'replying'; keep quiet; you quiet; 'quiet' TIME; 'hold_off'; 'hold'|'wait'|'silence' TIME =; 'wait' TIME; > 'give' ME "
        "TIME; 'give' ME span; 'back' 'come' TIME|span; not 'ping'|'page'|'message'|'write' TIME; 'hold' TIME; quiet span",
        covers=0.55,
        unless="?",
        never="job REMEDY HOST machine driverish",
    ),
    Intent.STATUS: CueRow(
        "status; ? status; ? any status; where we|you be ?; 'how' 'far'; what you do; ? 'done'|'finished'|'ready'; 'eta'; what happen now ?; "
        "what 'going' 'on'; 'status' =; 'whats' 'up'; what know 'far'; ? fixed; ? still broken; what you 'found'|'find'; ? thing "
        "ok|fixed|broken; 'found' any; ? we ok|fixed; 'how' thing 'going'|'look'|'be'; what state; how 'go'|'goes'|'going'; status ?; ? you "
        "'found'|'find'; 'any' 'luck'; what 'current' status; any status 'new'; 'how' 'long'; what we know; 'anything'|'any' 'new'; ? you "
        "'done'; what be 'happening'; any 'news'; ? have you 'found'; ? be fixed; what be 'up'; 'how' thing 'looking'; still "
        "'looking'|'working'|'checking'|'running'|'searching' ?; 'got' any; 'so' = ?; ? any 'progress'; 'found' any ?; where stand; show "
        "'update'; show ME 'update'; what 'waiting'; what 'blocking'; what 'impact'; how status; ? any 'happening'|'happen'; any status =; > "
        "status; status status =; ? job 'lost'|'dead'|'gone'|'saved'|'alive'; where be thing 'at'; 'where' thing 'at'",
        covers=0.55,
        weight=0.8,
        never="can REMEDY HOST approve other compare before change AUDIENCE ticket",
    ),
    Intent.HELP: CueRow(
        "helpcue =; ? helpcue; what can i|we 'ask'|'say'; what can you 'do'; what can you =; 'how' 'use' you|thing; 'how' i 'use' you; "
        "'list'|show helpcue; what you capable; what helpcue; > helpcue; 'how' thing 'work' ?; what 'questions'; 'how' i 'talk' you; what you "
        "'understand'; help ME =; what 'else' can you 'do'; what 'kind' 'ask'; what 'things' 'ask'; 'which' helpcue; what helpcue you know; "
        "'which' 'commands'; what can you do ME; be a helpcue; what can say; what can i|we 'type'|'write'; 'which' helpcue 'there'; 'what' "
        "helpcue 'there'; 'what' helpcue again",
        covers=0.55,
        never="thanks approve press fix not 'executed' 'execute' 'run' CHECK",
    ),
    Intent.THANKS: CueRow(
        "thanks; praise =; praise thing; praise you; praise; thanks praise; 'that' 'helped'; 'appreciated'|'appreciate'; thing 'helped'; "
        "praise 'work'|'job'",
        covers=0.55,
        unless="?",
    ),
    Intent.SMALL_TALK: CueRow(
        "greet =; greet; joke =; 'how' be you ?; you alive ?; 'joke'; 'how' you 'feeling'|'doing' ?; joke; greet human; 'tell' 'joke'; greet "
        "bot; 'how' be you 'today'",
        covers=0.6,
        never="HOST",
    ),
    Intent.META: CueRow(
        "who be you; what be you; you human_q ?; what you access; can you access; can 'access' CAUSE|machine; you 'read'|'see'|'listen'; what "
        "can you access; 'which' machine you access|see; 'how' you 'work'; who 'made'|'built'|'wrote'|'runs'|'owns' you; what human_q you; "
        "you access ?; 'your' 'name'; where you run; 'introduce' you; about you =; what data you; you 'trust'|'store'|'remember' ?; you real; "
        "? you REMEDY 'yourself'|'automatically'|'own'; can you REMEDY 'yourself'; 'which' human_q you; what can you see; can you 'yourself'; "
        "do you 'read'|'see'|'watch'|'listen'; you 'chatgpt'; where you 'get'|'data'; where 'data' 'from' you; you 'root'|'sudo'; you "
        "'execute'|'run' 'commands'; can you 'commands' machine; who 'built' you; can you change 'own'|'yourself'",
        covers=0.5,
        weight=0.9,
        never="HOST CHECK output ruled 'found' greet joke sure",
    ),
    Intent.TYPED_APPROVAL: CueRow(
        "goahead =; approve =; goahead; approve thing|REMEDY|HOST; i approve; reject =; reject thing|REMEDY; yes goahead; yes REMEDY = !?; "
        "approve; goahead REMEDY; not approve; yes 'run' thing; > approve; yes 'run' =; approve REMEDY; i|we reject; thumbsup "
        "'run'|REMEDY|fix; 'run' thing =; yes 'do' thing =; yes 'drain'|'reset'|'reboot'; 'looks'|'look' 'fine'|'good' goahead; "
        "ok 'run' thing; > reject; 'go' =; 'go' 'for' =; 'fine' REMEDY 'go'; 'approved' 'by'; i 'fine' REMEDY; 'looks' 'good' "
        "'ship'; thumbsup goahead; confirm =; yes confirm =; confirm goahead; confirm REMEDY; i confirm =; confirm thing = !HOST; ok confirm =",
        covers=0.6,
        unless="? if",
        never="who output 'expenses' 'again'",
    ),
}
# fmt: on
