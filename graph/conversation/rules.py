"""By which words each intent is known: rows of cues, with `;` between. A cue is a few terms that must all be in one sentence, in any order.

A term is an idea of `words`, an alternative (`a|b`), a thing that is named (`HOST`, `CAUSE`, …), a literal word in quotes (`'mine'`),
or the mood of the sentence: `?` a question, `>` a request, `.` a statement. `!` before a term forbids it; `=` asks that nothing else is said.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from graph.conversation.intents import Intent


class Rule(NamedTuple):
    """`covers`: the share of the sentence that must be words of the cue or words that say nothing. What acts wants nearly all of it."""

    cues: str
    covers: float = 0.5
    unless: str = ""
    """Moods in which it is not meant: in a negation (`not`), a condition (`if`), or a question about it (`?`)."""


# fmt: off
RULES: Final[Mapping[Intent, Rule]] = {
    Intent.HOST_STATE: Rule(
        "? HOST; ? HOST about|state|ok|bad; HOST state; > know|look HOST state|ok|about; ? DEVICE ok|bad|about",
        covers=0.6,
    ),
    Intent.GROUP_STATE: Rule(
        "? HOSTS; ? GROUP; ? other|every ok|bad|state|about|happen; ? other|every machine; how other|every; state other|every|HOSTS|GROUP; "
        "what about other|every; ? any other machine|HOST bad|ok|symptom; ? other symptom|bad; ? anything other bad|odd; ? how_many machine "
        "ok|bad|symptom; ? machine ok|bad every; ? 'which' machine ok|bad|symptom; show every|other machine|HOSTS state",
        covers=0.55,
    ),
    Intent.SHOW_OUTPUT: Rule(
        "show CHECK; show output; ? what CHECK; what CHECK know|output; CHECK output; CHECK HOST =; show output CHECK; ? can show "
        "CHECK|output; where output|CHECK; show CHECK HOST; show evidence output; show PICTURE|FILE; > output FILE|PICTURE; CHECK "
        "FILE|PICTURE; CHECK about =",
        covers=0.5,
    ),
    Intent.EXPLAIN: Rule(
        "why = !not; why ? !not !human_q; why CAUSE !not; explain; how know|sure|explain; ? what evidence; show evidence; ? sure !can; what "
        "know CAUSE|XID; what makes know|sure; what basis|evidence; evidence =; evidence CAUSE|cause; where evidence; why cause|HOST|thing "
        "!not; ? what be XID; ? what 'mean'; ? what cause; what cause be; how come; evidence ?; how "
        "'found'|'find'|'reach'|'arrive'|'figure'|'determine'|explain",
        covers=0.45,
    ),
    Intent.WHY_NOT: Rule(
        "why not CAUSE; ? what about CAUSE; ? can be CAUSE; ? ruled CAUSE; ? not CAUSE; ruled CAUSE ?; ? be CAUSE; how about CAUSE; ? sure "
        "not CAUSE; what 'against' CAUSE; sure not CAUSE; ? can CAUSE; ? not be CAUSE; ? CAUSE cause; ruled not CAUSE; why ruled CAUSE; ? "
        "CAUSE; 'maybe' CAUSE ?; why not CAUSE ?; ? CAUSE 'related'|'involved'|'possible'",
        covers=0.55,
    ),
    Intent.COMPARE: Rule(
        "compare HOST; compare HOSTS; compare ?; > compare; compare other|HOST|every; what compare HOST; how compare; compare between; same "
        "? other|HOSTS; 'vs'|'versus' HOST; CHECK compare HOSTS; what HOST not other|HOSTS; 'unlike'|'special' HOST",
        covers=0.5,
    ),
    Intent.CHANGED_SINCE: Rule(
        "what change TIME|when; ? what change; ? any change; what 'new'; what happen TIME; ? change TIME; what happen when|before; any "
        "change TIME|when; ? any 'new' TIME|when; what different TIME|when|now; 'changelog'|'timeline'; show change|'timeline'; what 'last' "
        "'hour'|'hours'|'minutes'|'night'|'day'; what do i miss|missed; 'missed'|'miss' i; what be change",
        covers=0.5,
    ),
    Intent.HAPPENED_BEFORE: Rule(
        "? happen before; ? before; before know|happen|seen; how_often happen; often happen; ? 'first' 'time'; 'history' "
        "HOST|cause|CAUSE|thing; similar incident; ? similar|'precedent'; ? know|happen incident before; ? 'similar' incident|happen|cause; "
        "? 'last' 'time'; when 'last' happen; 'last' 'time' happen; ? 'ever'; ? 'recurring'|'repeat'|'history'; show before incident; "
        "'past' incident; ? know incident|cause",
        covers=0.45,
    ),
    Intent.SAFE_TO: Rule(
        "? safe; ? can use|REMEDY|drain|reset|reboot|cancel; ? should use|REMEDY|drain|reset|reboot|cancel; ? safe use|REMEDY|job|HOST; any "
        "'risk'|'danger'|'risks' ?; safe use|REMEDY|job; ? can i|we use|REMEDY; ? REMEDY; what 'if' i|we REMEDY|use; ? should wait|REMEDY; "
        "'lose'|'break' ? REMEDY|use|job; 'risky'|'dangerous' ?; can i|we REMEDY|use ?; should i|we REMEDY|use ?; ? 'hurt' REMEDY|use",
        covers=0.5,
    ),
    Intent.WHAT_NOW: Rule(
        "what now =; what next; what should i|we do; what i|we do; ? next step; step next; ? advise; how fix; how i|we fix; what advise; "
        "what fix; advise =; ? should i|we do; now what; what should 'happen'; ? can i|we do; what step; what 'plan'; 'plan' ?; ? fix; "
        "where i|we go; what need do|fix; and now ? =; what should do; > know do; you advise; need do ?; show fix|step|'plan'; how proceed; "
        "how get 'back'|'running'; what 'options'|'option'",
        covers=0.5,
    ),
    Intent.ON_APPROVE: Rule(
        "what effect approve|press; if approve|press ?; what if|when approve|press; what effect you|thing ? 'run'|'execute'|'do' "
        "'button'|card|action; approve effect ?; what 'exactly' effect; what 'command'|'commands'; 'command'|'commands' ? "
        "run|execute|approve|press; what approve do|effect; what 'button' do; what 'will' you run|execute|do; > explain|know if|when "
        "approve|press; explain approve|'button'|'action'|'card'; ? approve effect; after approve ?; 'after'|'once' approve|press what",
        covers=0.5,
    ),
    Intent.WHO_MAY_APPROVE: Rule(
        "who approve; ? can approve; can i|we approve ?; how_many|required approve; required approve ?; who can|should press; whose "
        "approve; ? 'allowed' approve; 'approvers'|'approver'; who 'has'|'have' approve; how many approve|people|'votes'; who required; who "
        "ask approve; who 'sign'|'signs'; ? i|PERSON approve can; who can approve|press",
        covers=0.5,
    ),
    Intent.WHO_IS_ON_IT: Rule(
        "who onit; ? who onit; who be 'responsible'|'owner'|'assigned'; 'owner' ?; 'owner' =; 'whose'; who 'has'|'have'|'got' thing; "
        "'assignee'|'owner'; ? who do thing; who be onit; ? PERSON onit; ? 'being' onit; ? human onit; who 'in' 'charge'; who "
        "'taking'|'took'|'takes' thing|incident; who 'driving'|'drives'|'leads'; ? onit already; who 'on' thing|incident; who be on; who "
        "'has' incident; ? any onit",
        covers=0.5,
    ),
    Intent.TAKE: Rule(
        "i take thing|incident; i take; i onit; 'mine' =; i 'got' thing; i 'have' thing; assign ME; 'assign' ME; 'on' 'it' =; i "
        "will|'handle' take; take thing|incident > ME; i 'own' thing|incident; let ME take; 'dibs'; 'claim' thing|incident; put ME "
        "owner|down|on; i look; i be onit; 'taking' thing|incident =; 'taking' 'over' =; mine; 'put' ME; i 'll' take; i can take; leave "
        "thing ME",
        covers=0.8, unless="not if ?",
    ),
    Intent.ASSIGN: Rule(
        "assign PERSON; assign thing|incident PERSON; PERSON take thing|incident >; PERSON take; 'over' 'to' PERSON; PERSON 'please' "
        "take|look; PERSON 'owner'|'owns'; 'give'|'hand'|'pass' PERSON; 'make' PERSON owner; PERSON 'will'|'should' take; PERSON onit .; "
        "let PERSON take",
        covers=0.7, unless="not if ?",
    ),
    Intent.HAND_OFF: Rule(
        "handoff; handoff human; get|need|want human; > 'get'|'need'|'call'|'involve'|'bring' human; "
        "'open'|'create'|'make'|'raise'|'file'|'cut'|'turn' ticket >; 'need'|'want' human; 'escalate'; handoff ticket; 'let' human take; i "
        "'need'|'want'|'talk' human; 'talk' human; make|'turn' thing ticket",
        covers=0.75, unless="not if ?",
    ),
    Intent.SUMMARY: Rule(
        "summary; summary AUDIENCE; 'update'|explain|status|'write' AUDIENCE; > summary; > know AUDIENCE; what know AUDIENCE; "
        "'draft'|'write' AUDIENCE|ticket; show AUDIENCE; 'words' AUDIENCE; AUDIENCE 'version'|'update'|'friendly'; 'text' AUDIENCE; "
        "'something' AUDIENCE; 'postmortem'; 'one' 'sentence'|'line'|'paragraph'; 'catch' ME; 'short'|'quick' 'version'",
        covers=0.5,
    ),
    Intent.RECHECK: Rule(
        "recheck >; recheck =; > look HOST; recheck HOST; > look again; > look thing 'again'; look thing|every|HOST again !?; > run CHECK "
        "!EXCL; look HOST =; > can recheck; > look CHECK|DEVICE HOST; look CHECK HOST; > look CHECK !EXCL; > 'again' =",
        covers=0.7, unless="not if",
    ),
    Intent.NARROW: Rule(
        "job JOB = !?; only HOST !?; > only HOST; machine HOST = !?; only thing HOST; 'ignore'|'skip'|'forget' other|every|HOST >; only look HOST; 'only' "
        "about HOST .; 'concerned'|'affected'|'concerns' HOST only; > 'focus' HOST|GROUP; > 'only' GROUP; only HOST =; > 'limit' "
        "HOST|GROUP; > 'leave' 'out' HOST|other",
        covers=0.65, unless="if ?",
    ),
    Intent.WIDEN: Rule(
        "> also HOST; > look also HOST; look HOST also !?; > 'include'|'add' HOST|GROUP|other; > look other|every|GROUP also; > look "
        "other|GROUP machine; > look other|every machine; > 'widen'|'extend'|'broaden'|'expand'; also HOST = !?; > can look HOST also; > "
        "look every|other; > 'include' other|every; also HOST !? =; > look GROUP; > also other|GROUP|every",
        covers=0.65, unless="not if",
    ),
    Intent.RUN_CHECK: Rule(
        "> run EXCL; > EXCL HOST; > run EXCL HOST; EXCL HOST = !?; > run exam EXCL; > can run EXCL; > look EXCL; EXCL = !?; > do EXCL; > "
        "exam EXCL; i|we 'want'|'need' EXCL",
        covers=0.65, unless="not if ?",
    ),
    Intent.WISH_REMEDY: Rule(
        "> REMEDY; > REMEDY HOST; > REMEDY DEVICE; i|we 'want'|'need' REMEDY; 'want' HOST REMEDY; REMEDY = !?; REMEDY HOST = !?; > can "
        "REMEDY; needs REMEDY HOST .; > 'put'|'take' HOST REMEDY; should REMEDY .",
        covers=0.65, unless="not if ?",
    ),
    Intent.UNDO: Rule(
        "undo >; undo =; > undo HOST; > return service; > HOST service|RESUME; > RESUME; RESUME HOST =; i|we 'want'|'need' undo; > undo "
        "drain|REMEDY; > 'put' HOST back; > 'put' thing back; return HOST service !?",
        covers=0.65, unless="not if ?",
    ),
    Intent.CORRECT: Rule(
        "nay be CAUSE .; actually be CAUSE .; 'was' CAUSE . !TIME; not CAUSE . be; wrong .; you wrong; wrong CAUSE; nay CAUSE; nay wrong; "
        "'turned' CAUSE .; actually CAUSE .; cause be CAUSE .; cause CAUSE . be; wrong cause; not cause .; 'real' cause CAUSE; 'i' 'think' "
        "be CAUSE . not; 'it' be CAUSE . not; not right .; 'culprit' be CAUSE .; 'blame' CAUSE .",
        covers=0.55, unless="?",
    ),
    Intent.FIXED: Rule(
        "thing fixed . !not !still; fixed = !not !? !still; HOST fixed . !not !still; 'works' 'again'|'now' . !not !still; every fixed . "
        "!not !still !did; job fixed . !not !still; 'problem' fixed . !not !still; i|we fixed . !not !still; cause fixed . !not !still; "
        "machine fixed . !not !still",
        covers=0.75, unless="?",
    ),
    Intent.STILL_BROKEN: Rule(
        "still broken .; still not fixed .; not helped .; not fixed .; broken 'again' .; still = !?; still broken; 'same' "
        "cause|symptom|thing .; 'no' 'change' .; 'no' 'better' .; 'came'|'comes' 'back' .; thing broken 'again' .; still not .; still "
        "symptom .; job broken again .; 'again' symptom|broken .; 'no' 'improvement' .; 'no' 'luck' .; 'back' symptom|broken|cause .; "
        "'got'|'getting' 'worse' .; not work .; helped not .",
        covers=0.6, unless="?",
    ),
    Intent.CLOSE: Rule(
        "close >; close incident|thing; close =; close be CAUSE; you can close .|>; 'resolved' be CAUSE .; 'false' 'alarm'; close CAUSE; "
        "'mark' 'resolved'|'solved'|'fixed'|'done'|'closed'; 'case' 'closed'; we be 'done' here",
        covers=0.6, unless="not if ?",
    ),
    Intent.REOPEN: Rule(
        "reopen >; reopen =; reopen incident|thing; 'open' again >; 'open' incident|thing again >",
        covers=0.6, unless="not if ?",
    ),
    Intent.STOP: Rule(
        "stop =; stop scan =; > stop =; > stop scan; 'leave' thing 'be'|'alone'; 'do' not 'look'|'check'|'scan' =; stop look =; 'do' not "
        "look; > stop look|scan",
        covers=0.8, unless="if ?",
    ),
    Intent.PAUSE: Rule(
        "quiet; > quiet; quiet TIME; 'stop' "
        "'posting'|'talking'|'replying'|'messaging'|'writing'|'commenting'|'spamming'|'pinging'|'notifying'|'updating'; not "
        "'post'|'ping'|'reply'|'message'|'disturb'|'answer'|'write'|'comment'|'talk' >; 'pause' TIME; 'pause'; 'no' "
        "'updates'|'messages'|'more' TIME; 'leave' us 'alone'|'be'",
        covers=0.7, unless="?",
    ),
    Intent.STATUS: Rule(
        "status; ? status; ? any status; where we|you be ?; how far; what you do ?; ? 'done'|'finished'|'ready'; 'eta'; what happen 'now' "
        "?; what be 'going' 'on' ?; 'status' =; 'whats' 'up'; what know ?; ? fixed; ? still broken; what you 'found'|'find' ?; ? thing "
        "ok|fixed|broken; 'found' any ?; ? we ok|fixed; how thing 'going'|look|be; what state; how go; status ?; ? you 'found'|'find'; what "
        "'wrong' ?; what be 'happening'; 'any' 'luck'",
        covers=0.55,
    ),
    Intent.HELP: Rule(
        "helpcue =; ? helpcue; what can i|we 'ask'|'say'|know; what can you 'do'; how 'use' you|thing; how i 'use' you; list helpcue; show "
        "helpcue; what you capable; what helpcue; > helpcue; how thing 'work' ?; what 'questions'; how i 'talk' you; what you 'understand'; "
        "'help' ME =; what else can you 'do'",
        covers=0.65,
    ),
    Intent.THANKS: Rule(
        "thanks; praise =; praise thing; praise you; praise; thanks praise",
        covers=0.6,
    ),
    Intent.SMALL_TALK: Rule(
        "greet =; greet; joke =; how be you ?; you alive ?; 'joke'; how you 'feeling'|'doing' ?; 'how' 'going' you; yes =; joke",
        covers=0.7,
    ),
    Intent.META: Rule(
        "who be you ?; what be you ?; you human_q ?; what you access ?; can you access ?; you 'read'|'see'|'listen' ?; what can you access; "
        "which machine you access; how you 'work' ?; who 'made'|'built'|'wrote'|'runs'|'owns' you; what human_q you; you 'access'; 'your' "
        "'name'; how you 'know' 'our'; where you run ?; 'introduce' you; tell about you; what 'data' you; ? you "
        "'trust'|'store'|'remember'|'log'; you real; can you do|REMEDY 'yourself'|'automatically'|'alone'|'own'",
        covers=0.6,
    ),
    Intent.TYPED_APPROVAL: Rule(
        "goahead =; approve = !?; goahead; approve thing|REMEDY|HOST !?; i approve !? !can; reject =; reject thing|REMEDY; yes goahead; yes "
        "REMEDY = !?; approve . !who; goahead REMEDY; not approve; yes 'run' thing; > approve; yes run =; approve REMEDY !?; i|we reject; "
        "thumbsup run|REMEDY|fix; run thing = >",
        covers=0.65, unless="?",
    ),
}
# fmt: on
