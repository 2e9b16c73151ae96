"""Cues for questions: about hosts, causes, history, safety and approvals."""

from collections.abc import Mapping
from typing import Final

from graph.dialogue.intents import Intent
from graph.dialogue.rules.row import CueRow

# fmt: off
RULES: Final[Mapping[Intent, CueRow]] = {
    Intent.HOST_STATE: CueRow(
        "? HOST; ? HOST about|state|ok|bad; HOST state; > know|look HOST state|ok|about; ? DEVICE ok|bad|about; > know HOST; ? HOST bad "
        "cause; state HOST =; > know whether|'if' HOST ok|bad; > HOST odd any; ? what know HOST; how HOST; what 'up' HOST; what about HOST; ? "
        "HOST also|still ok|bad; ? HOST symptom; ? 'same' cause HOST; ? look HOST; ? HOST 'part'; know about HOST >; any HOST ?; ? 'reach' "
        "HOST; you 'reach' HOST; > confirm HOST ok|bad",
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
    Intent.SHOW_PICTURE: CueRow(
        "show timeline; timeline =; timeline PICTURE; > timeline; timeline ?; timeline incident; show tree; tree =; > tree; tree PICTURE; "
        "tree cause; show curve; curve =; > curve; curve PICTURE; curve CHECK; curve ?; what 'rule'|'ruled'|'excluded'|'eliminated'; "
        "show 'ruled'|'excluded'|'eliminated'; what cause 'rule'|'ruled'|'excluded'|'eliminated'; 'list' 'ruled'|'excluded'; timeline 'so' 'far'",
        covers=0.55,
        never="CAUSE TIME change why HOSTS",
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
}
# fmt: on
