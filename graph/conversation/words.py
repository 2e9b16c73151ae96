"""The words that cues are made of: each idea with the words and short phrases that people have for it. Tables; a word may stand under several ideas."""

from collections.abc import Mapping
from typing import Final

# fmt: off
ENGLISH: Final[Mapping[str, str]] = {
    # asking
    "who": "who whom whose anyone anybody someone somebody",
    "what": "what which",
    "why": "why how_come what_for reason reasons",
    "how": "how",
    "when": "when since until",
    "where": "where",
    "be": "is are was were be been being am",
    "can": "can could may might allowed able permitted authorised authorized",
    "should": "should shall ought must",
    "if": "if unless whenever once in_case assuming suppose provided when as_soon_as",
    "not": "not no never neither nor without nothing none",
    "nay": "no nope",
    "you": "you your yourself rackmedic bot",
    "i": "i me my mine myself",
    "we": "we us our ours",
    "other": "other others else rest remaining neighbours neighbors siblings peers",
    "every": "all every everything everyone everywhere each whole entire both fleet cluster",
    "thing": "it this that these those them they thing things one ones",
    "machine": "node nodes host hosts machine machines server servers box boxes gpus",
    "now": "now currently",
    # knowing
    "know": "know knew see saw tell say said says mean means think",
    "sure": "sure certain confident confidence positive likely convinced sureness",
    "evidence": "evidence proof prove proves proven basis grounds indicates suggests",
    "explain": "explain explanation elaborate reasoning because walk_me_through clarify rationale justify deduce conclude concluded conclusion",
    "cause": "cause causes caused culprit guilty blame fault root_cause diagnosis verdict finding findings problem issue",
    "ruled": (
        "ruled rule exclude excluded discard discarded considered consider checked check suspect suspected eliminate eliminated dismissed "
        "against"
    ),
    "ok": "okay fine healthy good well sane alive up right alright clean happy green normal unaffected",
    "bad": "bad sick broken unhealthy wrong off odd affected weird strange ill trouble red abnormal problematic suspicious dead down",
    "about": "about with of on for regarding concerning",
    "state": "state condition health shape doing looking looks look status",
    "show": "show print paste post send give display see view share dump cat attach upload read pull_up get fetch let_me_see want full tail",
    "output": "output outputs printout raw log logs text dump result results reading readings stdout stderr lines line excerpt journal",
    "compare": "compare comparison compared versus vs diff differ differs differences difference different side_by_side differently same",
    "between": "between from to with against than and",
    "change": "change changed changes happened happen new different modified differs altered",
    "happen": "happen happened happens happening seen see occur occurred had have get known",
    "before": (
        "before already previously earlier past ever history last_time recurring recurrence again first_time prior similar often repeat "
        "repeatedly precedent known_issue"
    ),
    "often": "how_often how_many_times",
    "safe": (
        "safe risk risky risks dangerous danger harm harmful hurt safely okay fine wise advisable smart good_idea bad_idea problem break "
        "lose loses kill interrupt"
    ),
    "next": "next now then",
    "do": "do doing done does did",
    "advise": "advise recommend recommendation recommended suggest suggestion suggested propose advice proposed plan options option",
    "fix": "fix solve repair mend resolve remedy solution remedied workaround",
    "step": "step steps action actions move",
    # deciding
    "approve": "approve approves approved approving approval approvals sign_off sign_this_off greenlight authorise authorize",
    "press": "press click hit push tap button approve",
    "effect": "happen happens run runs execute executes executed do does consequence consequences effect effects entail involve impact",
    "goahead": (
        "go_ahead do_it proceed lgtm ship_it go_for_it make_it_so run_it execute_it thumbsup confirmed confirm yes_do yes_run yes_please_do "
        "please_do permission_granted sounds_good_do green_light send_it go_on_then looks_good_to_me granted you_may fire_away approved "
        "apply_it roll_with_it just_do"
    ),
    "reject": "reject rejected deny denied decline declined disapprove thumbsdown veto",
    "yes": "yes okay sure thumbsup right correct",
    "required": "need needed needs required many enough missing quorum necessary take takes",
    # people
    "onit": (
        "on_it on_this on_that on_call oncall owner owns own owning working handling handles handle looking investigating dealing "
        "responsible assigned assignee taken took taking picked_up picking_up care charge works look_at looking_at look_into lead "
        "incident_commander driving"
    ),
    "take": "take taking have got grab handle own claim mine will_look am_looking look_into pick_up picking_up take_over jump_on",
    "assign": "assign reassign give hand pass delegate take handle look ask put",
    "ticket": "ticket jira issue case",
    "human": "human person people someone somebody engineer colleague support oncall on_call expert team technician ops sre real_person",
    "handoff": (
        "hand_off handoff hand_over handover hand_it_over hand_it_off hand_this_over hand_this_off hand_that_over escalate escalation "
        "escalating give_this_to give_it_to raise_to pass_it_on pass_this_on pass_this_to pass_it_to kick_this_to bring_in get_me page"
    ),
    # doing
    "summary": (
        "summary summarise summarize summaries sum_up summarised recap tldr tl_dr in_short in_brief overview write_up writeup digest "
        "brief_me briefly shorten gist in_a_nutshell nutshell short_version report"
    ),
    "recheck": (
        "recheck rescan re_scan retry refresh reexamine reassess reread look_again check_again try_again once_more another_look scan_again "
        "run_again test_again again rerun fresh_look double_check second_look look_afresh repeat verify"
    ),
    "look": "check look look_at scan examine inspect test verify investigate probe have_a_look take_a_look",
    "only": "only just solely nothing_but nothing_else exclusively limit restrict focus narrow ignore skip forget leave_out concentrate instead",
    "also": "also too as_well include additionally add widen extend plus in_addition broaden expand another",
    "run": "run start launch perform execute kick_off do trigger try fire_up",
    "exam": "test tests check checks benchmark diagnostics diagnostic diag",
    "undo": (
        "undo revert roll_back rollback reverse undrain uncordon take_it_back put_back put_it_back put_them_back put_that_back bring_back "
        "bring_it_back return_to_service back_in_service back_into_service back_to_service back_into_rotation back_in_rotation "
        "back_into_production back_to_production re_enable reenable unlock resume back_in_the_pool back_into_the_pool into_service restore"
    ),
    "return": "return put bring give get hand",
    "service": "service rotation production pool scheduler back",
    # telling
    "actually": (
        "actually in_fact turns_out turned_out turns_out_to rather really real instead wrong incorrect mistaken mistake misdiagnosed nope "
        "no false correction not"
    ),
    "wrong": "wrong incorrect mistaken false misdiagnosed inaccurate not_right not_correct not_true misdiagnosis nonsense rubbish off_base",
    "fixed": (
        "fixed solved resolved works working worked healed recovered gone back sorted good healthy better mended repaired running okay fine "
        "up normal disappeared cured over green again passes passing alive"
    ),
    "again": "again now back",
    "still": "still remains persists persisting unchanged remain continues keeps",
    "broken": (
        "broken failing fails failed hanging hangs hung down happening crashing crashes stuck dead slow bad wrong erroring same persists "
        "there unhealthy dying dies broke flapping throttling problem unresolved unfixed"
    ),
    "helped": (
        "help helped helps change changed changes difference improve improved improvement better fix fixed solve solved work works working "
        "worked luck joy cured gone"
    ),
    "close": (
        "close closed closing resolve case_closed wrap_up mark_as_resolved mark_resolved mark_as_done shut archive false_alarm "
        "mark_as_closed mark_it_resolved mark_this_resolved mark_this_as mark_it_as"
    ),
    "incident": "incident case issue ticket thread",
    "reopen": "reopen re_open open_again unclose open_it_again open_this_again open_this_up_again open_it_up_again reactivate",
    "stop": "stop halt cancel abort enough stand_down cease knock_it_off quit call_it_off drop_it",
    "scan": (
        "looking scanning checking investigation checks scan search searching diagnosis diagnosing everything it this that running work "
        "what_you_are_doing investigating analysis"
    ),
    "quiet": (
        "quiet mute silence silent snooze shut_up hush pipe_down shush pause stop_posting stop_talking stop_messaging stop_pinging "
        "stop_notifying not_post do_not_post do_not_ping do_not_disturb leave_us_alone no_more_messages stop_replying do_not_reply "
        "stop_spamming stop_commenting keep_it_down no_updates stop_updating butt_out hold_your_tongue"
    ),
    "status": (
        "status news update updates progress going_on where_are_we how_far eta whats_up sitrep state_of_play where_do_we_stand situation "
        "standing any_luck done finished ready latest stand going"
    ),
    "any": "any anything some something",
    "helpcue": "help commands manual usage instructions cheatsheet cheat_sheet",
    "thanks": "thanks thank thank_you cheers appreciated appreciate merci danke gracias grateful kudos props",
    "praise": (
        "great nice awesome cool perfect amazing excellent brilliant wonderful lovely fantastic impressive sweet neat super superb "
        "well_done good_job good_work good_bot nice_work great_job nice_one nicely legend rock magic hero lifesaver helpful"
    ),
    "greet": (
        "hello hi hey hiya howdy greetings good_morning good_evening good_afternoon good_night morning evening bye goodbye see_you later "
        "ciao welcome yo gm gn cya night"
    ),
    "joke": "haha lol lmao rofl joke hehe funny hahaha heh",
    "alive": "there awake alive around online listening",
    "human_q": "human robot ai bot machine real person llm gpt model program chatgpt claude",
    "access": "access see reach look permissions rights know data inventory channels allowed watch monitor cover",
    "capable": "capable abilities capabilities features able",
    # what happened to machines
    "did": (
        "updated upgraded changed replaced swapped reseated rebooted restarted reset drained moved installed rolled_back patched deployed "
        "downgraded reverted cleaned plugged unplugged power_cycled reconfigured migrated switched enabled disabled tightened removed added "
        "rerouted recabled bumped increased lowered killed cancelled canceled resubmitted reloaded reimaged upgrade_to rolled_out pushed "
        "renamed merged started failed hung died crashed noticed saw tried rescheduled"
    ),
    "symptom": (
        "error errors fails failing failed hangs hang hung hanging crashed crashes crashing slow slower timeout timeouts dies died stuck "
        "throttling throttled dropped drops flapping overheating hot missing lost gone unreachable unresponsive oom panicked panic "
        "rebooting rebooted down offline segfault nan corrupted aborted degraded beeping blinking red smoking freezes froze frozen "
        "exception traceback"
    ),
    "driverish": (
        "driver firmware kernel image container cuda nccl config configuration cable transceiver gpu psu fan switch port nic module bios os "
        "slurm version software hardware optics dimm riser chassis"
    ),
    # acts on machines
    "drain": "drain cordon",
    "reset": "reset",
    "reboot": "reboot restart power_cycle powercycle",
    "cancel": "cancel kill abort scancel terminate",
    "use": "use restart resubmit resume continue reuse start schedule submit rerun train launch keep retry proceed wait touch run",
    "job": "job jobs training run runs workload process processes",
    "manager": (
        "manager boss management lead director vp cto ceo exec execs executive executives leadership stakeholders stakeholder customer "
        "customers non_technical layman plain_english supervisor chief head_of mgmt upper_management"
    ),
    "file": "file attachment download txt attached snippet",
    "picture": "picture image plot chart graph screenshot heatmap heat_map diagram png visual visualise visualize graphically drawing",
}
# fmt: on
FILLER: Final = frozenset(
    [
        "a",
        "an",
        "the",
        "to",
        "of",
        "on",
        "in",
        "at",
        "for",
        "from",
        "by",
        "and",
        "or",
        "but",
        "so",
        "then",
        "as",
        "with",
        "please",
        "just",
        "really",
        "quite",
        "very",
        "bit",
        "kind",
        "sort",
        "maybe",
        "perhaps",
        "well",
        "oh",
        "ah",
        "hm",
        "hmm",
        "hmmm",
        "um",
        "uh",
        "it",
        "this",
        "that",
        "these",
        "those",
        "them",
        "they",
        "their",
        "its",
        "there",
        "here",
        "i",
        "me",
        "my",
        "we",
        "us",
        "our",
        "you",
        "your",
        "he",
        "she",
        "his",
        "her",
        "him",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "being",
        "am",
        "do",
        "does",
        "did",
        "have",
        "has",
        "had",
        "will",
        "would",
        "can",
        "could",
        "may",
        "might",
        "should",
        "shall",
        "let",
        "want",
        "need",
        "like",
        "know",
        "think",
        "tell",
        "going",
        "get",
        "got",
        "go",
        "also",
        "too",
        "okay",
        "now",
        "hey",
        "hi",
        "hello",
        "team",
        "folks",
        "guys",
        "all",
        "up",
        "out",
        "if",
        "any",
        "some",
        "more",
        "much",
        "many",
        "right",
        "even",
        "still",
        "ever",
        "yet",
        "ask",
        "wonder",
        "wondering",
        "quick",
        "quickly",
        "question",
        "one",
        "ones",
        "thing",
        "things",
        "please",
        "kindly",
        "mate",
        "buddy",
        "man",
        "rackmedic",
        "bot",
        "about",
        "into",
        "than",
        "because",
        "while",
        "again",
        "same",
        "such",
        "ours",
        "actually",
        "honestly",
        "note",
        "what",
        "which",
        "who",
        "how",
        "when",
        "where",
        "why",
        "not",
        "no",
        "yes",
        "sorry",
        "anyway",
        "though",
        "mean",
        "say",
        "looks",
        "look",
        "see",
        "seems",
        "seem",
        "give",
        "put",
        "make",
        "take",
        "back",
        "over",
        "off",
        "down",
        "around",
        "first",
        "last",
        "only",
        "just",
    ]
)
"""Words that say nothing against any reading."""
