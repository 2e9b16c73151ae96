"""By which words each intent is known: rows of cues, with `;` between. A cue is a few terms that must all be said, in any order.

A term is an idea of `words`, an alternative (`a|b`), a thing that is named (`HOST`, `CAUSE`, …), a literal word in quotes (`'mine'`),
or the mood of the sentence: `?` a question, `>` a request, `.` a statement. `!` before a term forbids it; `=` asks that nothing else is said.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from graph.conversation.intents import Intent


class CueRow(NamedTuple):
    """`covers`: the share of the sentence that must be words of the cue, names, or words that say nothing. What acts wants "
    "nearly all of it."""

    cues: str
    covers: float
    weight: float = 1.0
    """Less than one gives way to others."""
    unless: str = ""
    """Moods in which it is not meant: in a negation (`not`), a condition (`if`), or a question about it (`?`). What has any "
    "acts, and is no"
    read where somebody else's words are quoted."""
    never: str = ""
    """Terms with which it is not meant."""


# fmt: off
RULES: Final[Mapping[Intent, CueRow]] = {
    Intent.HOST_STATE: CueRow(
        "? HOST; ? HOST about|state|ok|bad; HOST state; > know|look HOST state|ok|about; ? DEVICE ok|bad|about; > know HOST; ? HOST bad "
        "cause; state HOST =; > know whether|'if' HOST ok|bad; > HOST odd any; ? what know HOST; how HOST; what 'up' HOST; what about HOST; ? "
        "HOST also|still ok|bad; ? HOST symptom; ? 'same' cause HOST; ? look HOST; ? HOST 'part'; know about HOST >; any HOST ?; ? 'reach' "
        "HOST; you 'reach' HOST",
        covers=0.45,
        never="compare before change use output REMEDY 'should'",
    ),
    Intent.GROUP_STATE: CueRow(
        "? HOSTS; ? GROUP; GROUP state; ? other|every ok|bad|state|about; ? other|every machine; how other|every; state "
        "other|every|HOSTS|GROUP; what about other|every; ? any other machine|HOST bad|ok|symptom; ? other symptom|bad; ? any other odd; "
        "'many' machine ok|bad|symptom; ? machine ok|bad every; 'which' machine ok|bad|symptom; > show|know every|other machine|HOSTS state; "
        "? 'only' thing machine|HOST; ? 'only' HOST|machine bad; how 'group' GROUP; ? machine bad; ? 'just' thing machine bad every; ? other "
        "bad; what other machine; what other 'like'; ? every bad; any other machine ?; ? 'only' 'one' bad; what about machine; ? other|every "
        "ok; ? 'only'|'just' HOST 'more'; ? 'just' HOST other; > machine ok|bad; > 'list' machine; state machine ?; who other bad; how other "
        "machine; what state HOSTS; other be ok; other they ok; other be bad; 'which' thing ok|bad; 'overview' every|machine|GROUP; ? other "
        "machine bad",
        covers=0.55,
        never="compare before change use output REMEDY 'approve' outsider",
    ),
    Intent.SHOW_OUTPUT: CueRow(
        "show CHECK; show output; ? what CHECK; what CHECK know|output; CHECK output; CHECK HOST =; show output CHECK; where output|CHECK; "
        "show CHECK HOST; show evidence output; show PICTURE|FILE CHECK|output; > output FILE|PICTURE; CHECK FILE|PICTURE; CHECK about HOST "
        "=; what CHECK HOST; show CHECK FILE|PICTURE; i|we show CHECK|output; what output CHECK; 'raw' output; > show|'want' PICTURE|FILE; "
        "'let' show CHECK|output; CHECK PICTURE|FILE; can show CHECK|output; what be CHECK HOST; > PICTURE; can PICTURE; PICTURE HOST",
        covers=0.45,
        never="EXCLUSIVE change compare recheck ruled 'teams' 'customers' 'users'",
    ),
    Intent.EXPLAIN: CueRow(
        "why =; why ?; why CAUSE; explain; how know|sure; ? evidence; show evidence; ? sure; what know CAUSE|XID; what 'makes' "
        "know|sure|'say'; what evidence; evidence =; evidence CAUSE|cause; where evidence; why cause|HOST|thing; what be XID; what "
        "'mean'|'means'; what cause; what cause be; how explain|'found'|'find'|'reach'|'arrive'|'figure'|'determine'|'work'|'come' "
        "explain|thing; evidence ?; what 'exactly' bad|odd; what be bad; > explain; why do you 'think'; how sure; on evidence 'blame'; where "
        "'number'|'percent'|'confidence'; where 'come' 'from'; what be 'happening' here; XID =; what 'cause' thing; 'root' cause ?; you sure; "
        "do explain; what bad 'with' thing; what explain you; explain what ?; what be CAUSE; what CAUSE 'mean'|'means'; > explain cause; what "
        "'led' you; any evidence ?; when 'first'|'start'|'started'|'begin'|'began' thing|cause; 'which' "
        "'port'|'ports'|'link'|'links'|'gpu'|'device'|'devices'; where you 'see'|'saw'|'find'|'found' thing|cause; where 'did' 'see'",
        covers=0.4,
        never="AUDIENCE approve press helped",
    ),
    Intent.WHY_NOT: CueRow(
        "why not CAUSE; ? what about CAUSE; ? can be CAUSE; ? ruled CAUSE; ? not CAUSE; ruled CAUSE ?; ? be CAUSE; how about CAUSE; sure not "
        "CAUSE; what 'against' CAUSE; ? can CAUSE; ? not be CAUSE; ? CAUSE cause; ruled not CAUSE; why ruled CAUSE; ? CAUSE; 'maybe' CAUSE ?; "
        "? CAUSE 'related'|'involved'|'possible'; can be CAUSE ?; ? have ruled CAUSE; why not thing|you CAUSE; i sure CAUSE why; so not CAUSE "
        "?; ruled CAUSE; 'could' be CAUSE; 'might' be CAUSE; why you 'say' 'no' CAUSE; what 'if' CAUSE; can exclude CAUSE; 'exclude' CAUSE; "
        "how know not CAUSE; CAUSE ok ?; ? 'chance' CAUSE; ? 'suspect' CAUSE; is not CAUSE; 'if' CAUSE what; why be not thing",
        covers=0.5,
        never="other HOST safe change",
    ),
    Intent.COMPARE: CueRow(
        "compare HOST; compare HOSTS; compare ?; > compare; compare other|every; what compare HOST; how compare; compare between; 'same' ? "
        "HOSTS; 'same' ? HOST other|machine; 'vs'|'versus' HOST; CHECK compare HOSTS; what HOSTS not 'have'; 'special' HOST; compare CHECK "
        "HOST|HOSTS; 'same' CHECK HOSTS|other ?; how HOST compare; what be compare HOST; 'apart' HOST; 'different' HOSTS ?; 'difference' "
        "HOSTS; ? 'same' CHECK|CAUSE HOSTS; different between HOSTS; 'healthy' different HOST; what compare machine; what 'different' "
        "machine; compare HOST other|machine; HOSTS 'against'; ? 'same' driverish every; compare machine ?",
        covers=0.5,
        never="TIME",
    ),
    Intent.CHANGED_SINCE: CueRow(
        "what change TIME|when; ? what change; ? any change; what 'new'; what happen TIME; ? change TIME; what happen when; any change "
        "TIME|when; ? any 'new' TIME|when; what 'different' TIME|when|now|before; 'changelog'|'timeline'; show change; what 'last' "
        "'hour'|'hours'|'minutes'|'night'|'day'; what 'miss'|'missed'; 'missed'|'miss' i; what do i 'miss'|'missed'; what be change; ? have "
        "change; what you 'found' when; ? change HOST; what happen 'while'; any change; ? did change; what be 'new' TIME; ? "
        "'updated'|'changed' TIME; 'different' 'from' 'before'; what happen 'last'; ? something|anything 'updated'|'changed'|'change'; any "
        "'updates'|'update' when; ? 'updates' TIME; happen 'while' ?; any happen 'while'; what happen HOST TIME; ? did recent; who did "
        "thing|machine|HOST|driverish; ? who did CAUSE|HOST|machine|thing; ? any 'update'|'upgrade'|did recent|when|TIME; ? any did "
        "TIME|when; ? driverish 'update'|'upgrade'; ? did driverish|CAUSE; what happen 'meanwhile'",
        covers=0.55,
        never="HOSTS REMEDY approve job",
    ),
    Intent.HAPPENED_BEFORE: CueRow(
        "? happen before; 'often' happen; ? 'first' 'time'; 'history' HOST|cause|CAUSE|thing; 'similar' incident; ? 'similar'; ? know "
        "incident before; ? 'similar' incident|happen|cause; ? 'last' 'time'; when 'last' happen; 'last' 'time' happen; ? 'ever' happen; ? "
        "'recurring'|'repeat'|'history'|'precedent'|'precedents'; show before incident; 'past' incident; ? thing 'known' cause; ? happen "
        "incident before; what happen|do 'last' 'time'; happen before ?; before happen thing; ? 'same' thing 'last'|'before'; how_many_times "
        "happen; many 'times' happen; 'how' 'often'; ? 'like' thing before; ? not happen before; ? we happen thing before; 'times' HOST "
        "happen; we 'had' thing; happen thing 'lot' ?; 'old' 'new' ?; ? happen 'lot'; 'again' 'same' before ?; 'had' thing "
        "'weeks'|'days'|'months'|'week'|'month'; 'old' 'new' cause; ? who|any other complain; other outsider complain; who other complain "
        "thing; ? other outsider cause|symptom; ? complain 'too'|other thing|CAUSE; ? before know; 'many' 'times' HOST symptom|broken|bad; "
        "show 'similar' incident; 'similar' incident before",
        covers=0.5,
        never="approve press change output found 'if' REMEDY 'diagnosis'",
    ),
    Intent.SAFE_TO: CueRow(
        "? safe; ? can use; ? can i|we use|REMEDY; ? should use|REMEDY; ? should i|we use|REMEDY; ? safe use|REMEDY|job|HOST; any "
        "'risk'|'danger'|'risks' ?; safe use|REMEDY|job; ? REMEDY; what 'if' i|we REMEDY|use; ? 'lose'|'break'|'hurt' REMEDY|use|job; "
        "'risky'|'dangerous' ?; ? ok use HOST|job|machine; ? 'okay' use|REMEDY; ? 'ok' use|REMEDY; what effect REMEDY; ? use HOST; can use "
        "HOST|machine|job ?; ? 'good'|'bad' 'idea'; ? safe REMEDY; > know safe; safe ?; ? 'may' use|REMEDY; ? use 'again'; okay use other ?; "
        "? ok use other|machine; can i|we use; ? 'will' 'die' 'again'; 'wise' REMEDY|use; ? 'wait'; what 'happens'|'happen' job REMEDY; ? "
        "'good' use; ? REMEDY safe; 'harmful'|'destroy' REMEDY ?; ? 'fine' use|'leave'; ? 'let' 'run'; ? 'kill' job; ? acting "
        "'kill'|'hurt'|'break'|'affect'|'lose'; what happen|effect acting; ? safe acting; any 'risk'|'risks'|'danger' acting; ? okay|ok "
        "acting; ? can acting; any 'risk'|'risks' REMEDY|use; ? REMEDY 'affect'|'affected'; who 'affected' REMEDY|acting",
        covers=0.55,
        never="approve 'eat' how",
    ),
    Intent.WHAT_NOW: CueRow(
        "what now =; what next; what should i|we do; what i|we do; ? next step; step next; ? advise; how fix; how i|we fix; what advise; what "
        "fix; advise =; ? should i|we do; 'now' what; what should 'happen'; ? can i|we do; what step; what 'plan'; 'plan' ?; ? fix; what need "
        "do|fix; 'and' 'now' ? =; what should do; > know what do; you advise; need do ?; show fix|step|'plan'; how proceed; how get "
        "'back'|'running'|'out'; what 'options'|'option'; what 'you' 'do' 'would'; ? i|we need do; do any fix; how get HOST 'back'; and 'now' "
        "?; what be 'my' next; what should i|we do about; any advise; so what advise; how i|we do; who|what next step; ? can be fixed; can "
        "'fixed' ?; how 'proceed'; what should we do 'about'; what 'recommend'; what 'left' do; what 'remains'; what 'left' =; what 'way' "
        "fix; 'okay' 'and' =; 'and' = !HOST",
        covers=0.5,
        never="approve press AUDIENCE ticket 'so_far' REMEDY",
    ),
    Intent.ON_APPROVE: CueRow(
        "what effect approve|press; 'if' approve|press ?; what 'if'|'when' approve|press; what effect 'button'|'card'|'action'; approve "
        "effect ?; what 'exactly' 'run'|'execute'|'execute'|'executed'; what 'command'|'commands'; 'command'|'commands' effect; what approve "
        "effect; what 'button' do; what 'would'|'will' you 'run'|'execute'; > explain|know 'if'|'when' approve|press; explain "
        "approve|'button'|'action'|'card'; ? approve effect; 'after' approve ?; 'after'|'once' approve|press what; what 'would'|'will' "
        "'run'|'execute' HOST|thing; 'once' approve ?; what effect 'if' 'yes'; 'before' press what; what effect press; what 'executed'; what "
        "'gets' 'run'|'executed'; what do approve; what 'approving' i; what i approve; ? approve 'kill'|'stop'|'restart'|REMEDY; effect "
        "'click'|'press'|'button'; > explain approve|press effect; what 'will'|'would' fix do; 'if' we 'say' yes; ? approve "
        "'reversible'|'undone'|'reverted'; ? 'die'|'lose' approve; ? approve job; what 'if' we yes",
        covers=0.45,
        never="who 'list'",
    ),
    Intent.WHO_MAY_APPROVE: CueRow(
        "who approve; ? can i|we|PERSON approve; required approve ?; who can|should press; 'whose' approve; ? 'allowed' approve; "
        "'approvers'|'approver'; who 'has'|'have' approve; 'how' 'many' approve; 'how' 'many' 'people' approve|press; who required approve; "
        "who 'ask' approve; who sign|'sign'|'signs'; who can approve|press; ? approve required; can i approve ?; ? i approve 'enough'; ? who "
        "approve|press; ? can any approve|press; 'many' approve; ? required 'two' approve; who 'permission'; ? 'only' 'admins' approve|press; "
        "'people' can approve; 'rights'|'permission'|'permissions' approve; ? 'able' approve; who 'need' approve; who can =; who else can =; "
        "who 'allowed' =; ? required 'two' 'people'; 'people' 'right' yes; ? can approve",
        covers=0.45,
        never="'happens' job 'die'",
    ),
    Intent.WHO_IS_ON_IT: CueRow(
        "? who onit; who 'responsible'|'owner'|'assigned'; 'owner' ?; 'owner' =; 'assignee'; who 'has'|'have'|'got' thing; ? PERSON onit; ? "
        "'being' onit; ? human onit; who 'in' 'charge'; who 'taking'|'took'|'takes' thing|incident; ? who onit already; who 'on' "
        "thing|incident; who be 'on'; who 'care'; who onit HOST|incident; who do thing; any human onit ?; ? "
        "'anybody'|'anyone'|'somebody'|'someone' 'on' thing; who care; who 'has' 'one'; ? 'anyone'|'anybody'|'somebody' "
        "'on'|'look'|'looking'; ? thing 'handled'|'assigned'; 'anybody'|'anyone' 'taking' 'look'; who 'talk'|'ask'|'contact'|'call'|'reach' "
        "thing|about; 'who'|'whose'|'whom' onit",
        covers=0.5,
        never="approve press 'coffee' 'datacenter' did other",
    ),
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
    Intent.HAND_OFF: CueRow(
        "handoff; handoff human; 'get'|'need'|'want'|'call'|'involve'|'bring' human; > 'open'|'create'|'make'|'raise'|'file'|'cut'|'turn' "
        "ticket; > 'open'|'create'|'make'|'raise'|'file'|'cut'|'turn' 'ticket'; 'escalate'; handoff ticket; 'let' human take; 'talk'|'speak' "
        "human; make|'turn' thing ticket; human take; 'needs' human; i|we|thing 'need'|'needs' human; assign human|team; 'ticket' human|team "
        ">; > 'ticket' 'out' 'of' thing; 'rather' human; 'pass' human; 'pass' thing 'oncall'|'on'; > 'give'|'pass' thing "
        "'somebody'|'someone'; > 'raise'|'open'|'create' ticket team|human; > 'raise'|'open'|'create' ticket",
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
    Intent.STOP: CueRow(
        "stop =; stop scan =; > stop; > stop scan; 'leave' thing 'alone'; stop look =; > stop look|scan; you can stop; enough stop =; stop "
        "thing; stop now =; cancel thing =; > stop every; 'leave' machine|every 'alone'; 'no' 'more' exam|scan|look; stop every; stop who "
        "onit; stop 'stop'",
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
        "'run'|REMEDY|fix; 'run' thing =; yes 'do' thing =; yes 'drain'|'reset'|'reboot'; 'looks'|'look' 'fine'|'good' goahead; confirmed "
        "goahead; ok 'run' thing; > reject; 'go' =; 'go' 'for' =; 'fine' REMEDY 'go'; 'approved' 'by'; i 'fine' REMEDY; 'looks' 'good' "
        "'ship'; thumbsup goahead",
        covers=0.6,
        unless="? if",
        never="who output 'expenses' 'again'",
    ),
}
# fmt: on
