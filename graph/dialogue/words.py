"""Ideas that cues consist of, each with its words and short phrases. A word may belong to several ideas."""

from collections.abc import Mapping
from typing import Final

# fmt: off
IDEAS: Final[Mapping[str, str]] = {
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
    "other": "other others else rest remaining neighbours neighbors siblings peers further additional",
    "every": "all every everything everyone everywhere each whole entire both fleet cluster",
    "thing": "it this that these those them they thing things one ones",
    "machine": "node nodes host hosts machine machines server servers box boxes gpus",
    "now": "now currently",
    # knowing
    "know": "know knew tell say said says mean means think",
    "sure": "sure certain confident confidence positive likely convinced sureness",
    "evidence": "evidence proof prove proves proven basis grounds indicates suggests source come_from comes_from",
    "explain": (
        "explain explanation elaborate reasoning because walk_me_through clarify rationale justify deduce conclude concluded conclusion "
        "do_not_get do_not_understand do_not_follow not_clear led based made_you walk_through claim"
    ),
    "cause": "cause causes caused culprit guilty blame fault root_cause diagnosis verdict finding findings problem issue",
    "ruled": (
        "ruled rule exclude excluded excluding discard discarded considered consider checked check suspect suspected eliminate eliminated "
        "dismissed against rule_out ruled_out not_been looked"
    ),
    "ok": (
        "okay fine healthy good well sane alive up right alright clean happy green normal unaffected usable reachable online available "
        "working functional"
    ),
    "bad": (
        "bad sick broken unhealthy wrong off odd affected weird strange ill trouble abnormal problematic suspicious dead down hit faulty "
        "failing issue issues problem problems hurt impacted involved red"
    ),
    "about": "about with of on for regarding concerning",
    "state": "state condition health shape doing looking looks look status",
    "show": (
        "show print paste post send give display see view share dump cat attach upload read pull_up get fetch let_me_see full tail find have "
        "want look_at"
    ),
    "output": (
        "output outputs printout raw log logs text dump result results readings stdout stderr lines line excerpt journal print printed say "
        "says said returned reported"
    ),
    "compare": (
        "compare comparison compared compares versus vs diff differ differs differences difference different side_by_side differently "
        "stack_up distinguish distinguishes unlike stand_out stands_out odd_one_out outlier outliers"
    ),
    "between": "between from to with against than and",
    "change": "change changed changes modified altered different new changelog move",
    "happen": (
        "happen happened happens happening seen see occur occurred occurs had have get know known did do done face faced encounter "
        "encountered"
    ),
    "before": (
        "before already previously earlier past ever history last_time recurring recurrence first_time prior similar often repeat repeatedly "
        "precedent precedents known_issue known_problem in_the_past last_month last_week last_year deja_vu again repeat_offender how_often "
        "how_many_times new_to_us once_before another_time"
    ),
    "often": "how_often how_many_times",
    "safe": (
        "safe risk risks risky dangerous danger harm harmful hurt safely ok_to okay_to fine_to wise advisable smart good_idea bad_idea "
        "bad_for problem_if lose loses break worth"
    ),
    "next": "next now then",
    "do": "do doing done does did",
    "advise": (
        "advise advice recommend recommendation recommended suggest suggestion suggestions suggested propose proposed plan options option "
        "in_my_place in_my_shoes if_you_were_me"
    ),
    "fix": "fix solve repair mend resolve remedy solution remedied workaround out_of_this rid",
    "step": "step steps action actions move moves",
    # deciding
    "approve": "approve approves approved approving approval approvals sign_off sign_this_off greenlight authorise authorize",
    "press": "press click hit push tap button approve",
    "effect": (
        "happen happens run runs execute executes executed do does consequence consequences effect effects entail involve impact happened die "
        "dies gets then mean means"
    ),
    "goahead": (
        "go_ahead do_it do_that proceed lgtm ship_it go_for_it make_it_so run_it execute_it thumbsup yes_do yes_run "
        "yes_please_do permission_granted sounds_good_do green_light send_it go_on_then looks_good_to_me granted you_may fire_away approved "
        "apply_it roll_with_it just_do go_go run_that do_so it_is_approved go_now lets_do_it let_us_do_it let_us_go do_it_please"
    ),
    "confirm": "confirm confirmed confirms confirming",
    "reject": "reject rejected deny denied decline declined disapprove thumbsdown veto",
    "yes": "yes okay sure thumbsup right correct",
    "required": "need needed needs required many enough missing quorum necessary take takes",
    # people
    "onit": (
        "on_it on_this on_that oncall owner owns own owning working handling handles handle investigating dealing responsible assigned "
        "assignee taken took taking has_this has_it got_this got_it picked_up picking_up picked_it_up picked_this_up pick_this_up pick_it_up "
        "care charge works looking_at look_at looking_into lead incident_commander driving dealing_with pick_up looking_after"
    ),
    "take": (
        "take taking takes took handle handling handles own claim mine will_look am_looking look_into pick_up picking_up take_over "
        "taking_over jump_on deal_with look_after grab got_this got_it have_this have_it take_care care"
    ),
    "assign": "assign reassign give hand pass delegate hand_over pass_on",
    "ticket": "ticket jira servicenow postmortem post_mortem",
    "human": (
        "human engineer colleague support oncall on_call expert technician ops sre real_person human_being specialist person technicians "
        "somebody_else"
    ),
    "handoff": (
        "hand_off handoff hand_over handover hand_it_over hand_it_off hand_this_over hand_this_off hand_that_over escalate escalation "
        "escalating hand_off_to page page_the_on_call page_the_oncall bring_in get_me call_in"
    ),
    "others": (
        "vendor vendors supplier suppliers manufacturer nvidia dell supermicro lenovo hpe datacenter data_center dc remote_hands field_engineer "
        "rma replacement replacements spare spares part parts shipment delivery someone_else somebody_else others third_party oem partner "
        "their_support vendor_support nvidia_support dell_support the_supplier new_gpu new_card new_cable new_optic new_node"
    ),
    # doing
    "summary": (
        "summary summarise summarize summaries sum_up sum_it_up sum_this_up summarised recap tldr tl_dr in_short in_brief overview write_up "
        "writeup write_this_up write_it_up digest brief_me briefly shorten gist in_a_nutshell nutshell short_version report catch_me_up"
    ),
    "recheck": (
        "recheck rescan retry refresh reexamine reassess reread look_again check_again try_again once_more another_look scan_again run_again "
        "test_again one_more_time again rerun fresh_look double_check second_look look_afresh verify one_more"
    ),
    "look": "check look look_at scan examine inspect test verify investigate probe have_a_look take_a_look see go_through",
    "only": (
        "only just solely nothing_but nothing_else exclusively limit restrict focus narrow ignore skip forget leave_out concentrate instead "
        "restricted stick_to stay_with"
    ),
    "also": "also too as_well include additionally add widen extend plus in_addition broaden expand go_wider wider more_nodes",
    "run": "run start launch perform execute kick_off do trigger try fire_up",
    "exam": "test tests check checks benchmark diagnostics diagnostic diag",
    "undo": (
        "undo revert roll_back roll_it_back roll_that_back rollback reverse undrain uncordon take_it_back put_back put_it_back put_them_back "
        "put_that_back bring_back bring_it_back unlock restore back_out undoing take_back enable_again reenable re_enable"
    ),
    "return": "return put bring give get hand",
    "service": "service rotation production pool scheduler back",
    # telling
    "actually": "actually in_fact turns_out turned_out really real culprit",
    "wrong": (
        "wrong incorrect mistaken false misdiagnosed inaccurate not_right not_correct not_true misdiagnosis nonsense rubbish off_base not_it"
    ),
    "fixed": (
        "fixed solved resolved working worked healed recovered gone sorted mended repaired disappeared cured passes passing works "
        "back_to_normal back_up went_away did_the_trick goes_away gone_away sorted_out"
    ),
    "again": "again now back",
    "still": "still remains persists persisting unchanged remain continues keeps",
    "broken": (
        "broken failing fails failed hanging hangs hung down happening crashing crashes crashed crash stuck dead slow bad wrong erroring "
        "there unhealthy dying dies broke flapping throttling problem unresolved unfixed error errors worse died occurring exactly_as_before "
        "did_nothing still_there came_back come_back"
    ),
    "helped": (
        "help helped helps change changed improve improved improvement better fix fixed solve solved work works working worked luck joy cured "
        "gone"
    ),
    "close": (
        "close closed closing resolve case_closed wrap_up mark_as_resolved mark_resolved mark_as_done archive false_alarm mark_as_closed "
        "mark_it_resolved mark_this_resolved mark_this_as mark_it_as mark_it_as_resolved mark_it_as_done close_out"
    ),
    "incident": "incident case issue ticket thread cases incidents tickets",
    "reopen": (
        "reopen open_again unclose open_it_again open_this_again open_this_up_again open_it_up_again open_that_again open_up_again reactivate"
    ),
    "stop": (
        "stop halt cancel abort enough stand_down cease knock_it_off quit call_it_off drop_it call_off call_that_off call_this_off "
        "hold_it_right_there hold_it_there hold_it_now hold_right_there hold_it freeze_right_there back_off cut_it_out give_it_a_rest "
        "hands_off end_the_search end_the_scan end_this_search end_your_search desist pack_it_in"
    ),
    "scan": (
        "looking scanning checking investigation checks scan search searching diagnosis diagnosing everything it this that running work "
        "what_you_are_doing investigating analysis poking poking_at poking_around poking_about messing messing_with messing_around fiddling "
        "fiddling_with tinkering tinkering_with meddling prodding digging digging_around nosing_around touching hunt hunting"
    ),
    "quiet": (
        "quiet mute silence silent snooze shut_up hush pipe_down shush pause stop_posting stop_talking stop_messaging stop_pinging "
        "stop_notifying do_not_post do_not_ping do_not_disturb leave_us_alone no_more_messages stop_writing stop_replying do_not_reply "
        "stop_spamming stop_commenting keep_it_down no_updates stop_updating butt_out no_more_updates do_not_message do_not_answer be_silent "
        "stop_answering no_messages no_more_posts do_not_write stop_notifications hold_off hold_your_horses hold_back"
    ),
    "status": (
        "status news update updates progress where_are_we how_far eta sitrep state_of_play where_do_we_stand situation standing any_luck done "
        "finished ready latest_status going_on state how_is_it_going how_are_things how_long whats_up up_to far doing found find so_far"
    ),
    "any": "any anything some something anyone",
    "helpcue": "help commands manual usage instructions cheatsheet cheat_sheet",
    "thanks": "thanks thank thank_you cheers appreciated appreciate merci danke gracias grateful kudos props many_thanks",
    "praise": (
        "great nice awesome cool perfect amazing excellent brilliant wonderful lovely fantastic impressive sweet neat super superb well_done "
        "good_job good_work good_bot nice_work great_job great_work nice_one nicely_done legend magic hero lifesaver helpful very_helpful "
        "the_best that_helped love_it great_stuff you_rock good_stuff saved_my_day saved_the_day day_saver"
    ),
    "greet": (
        "hello hi hey hiya howdy greetings good_morning good_evening good_afternoon good_night morning evening bye goodbye see_you later ciao "
        "welcome yo gm gn cya night"
    ),
    "joke": "haha lol lmao rofl joke hehe funny hahaha heh",
    "alive": "there awake alive around online listening",
    "human_q": "human robot ai bot machine real person llm gpt model program chatgpt claude",
    "access": "access see reach permissions rights watch monitor cover inventory allowed permission",
    "capable": "capable abilities capabilities features able",
    # what happened to machines
    "did": (
        "updated upgraded changed replaced swapped reseated rebooted restarted reset drained moved installed rolled_back patched deployed "
        "downgraded reverted cleaned plugged unplugged upgrade update power_cycled reconfigured migrated switched enabled disabled tightened "
        "removed added rerouted recabled bumped increased lowered killed cancelled canceled resubmitted reloaded reimaged rolled_out pushed "
        "tried rescheduled touched ran touch"
    ),
    "symptom": (
        "error errors erors fails failing failed hangs hang hung hanging crashed crashes crashing slow slower timeout timeouts dies died "
        "stuck throttling throttled dropped drops flapping flaps flap overheating hot missing lost gone unreachable unresponsive oom panicked "
        "panic rebooting offline segfault segfaults nan corrupted aborted aborts degraded beeping blinking smoking freezes froze frozen "
        "exception traceback down not_respond not_responding not_visible"
    ),
    "driverish": (
        "driver firmware kernel image container cuda nccl config configuration cable transceiver gpu psu fan switch port nic module bios os "
        "slurm version software hardware optics dimm riser chassis"
    ),
    "doubt": (
        "maybe might perhaps hope hopefully whether wonder wondering recommend mistake forget veto cancel_the_drain "
        "cancel_that_drain cancel_drain cancel_the_reboot cancel_that_reboot cancel_the_reset cancel_that_reset stop_the_drain stop_that_drain "
        "abort_the_drain abort_that_drain drop_the_drain"
    ),
    "wasclosed": "was_closed were_closed been_closed got_closed is_closed could_have should_have would_have close_to",
    # acts on machines
    "drain": "drain cordon",
    "reset": "reset",
    "reboot": "reboot restart power_cycle powercycle",
    "cancel": "cancel kill abort scancel terminate",
    "use": (
        "use restart resubmit resume continue reuse start schedule submit rerun train launch keep_going keep retry wait touch run relaunch "
        "requeue go_on keep_running keep_training carry_on work proceed pull swap replace unplug reseat"
    ),
    "job": "job jobs training run runs workload process processes",
    "manager": (
        "manager boss management lead director vp cto ceo exec execs executive executives leadership stakeholders stakeholder customer "
        "customers non_technical layman plain_english supervisor chief head_of mgmt upper_management managers bosses"
    ),
    "file": "file attachment download txt attached snippet",
    "picture": "picture image plot chart graph screenshot heatmap heat_map diagram png visual visualise visualize graphically drawing draw drawn",
    "timeline": "timeline timelines time_line chronology chronological sequence_of_events course_of_events order_of_events",
    "tree": "tree trees decision_tree fault_tree search_tree tree_of_causes taxonomy",
    "curve": "curve curves bandwidth_curve busbw_curve message_size message_sizes busbw_by_size",
    "well": "good fine okay healthy better normal running up back green alive over right clean alright great",
    "odd": "odd weird strange unusual abnormal wrong off suspicious",
    "verb": (
        "draw plot show print paste post send give display view share dump cat attach upload get fetch find explain elaborate clarify compare diff tell "
        "take assign reassign hand pass delegate escalate page open create make raise file bring call summarise summarize summary recap write "
        "brief draft recheck rescan retry refresh verify look check scan examine inspect test run start launch perform execute kick try limit "
        "focus ignore skip forget leave concentrate include add widen extend broaden expand also undo revert roll reverse undrain uncordon "
        "put return resume restore close resolve mark reopen stop halt cancel abort quit mute pause snooze drain cordon reset reboot restart "
        "power kill terminate free clean sync reload rebuild load turn switch disable enable configure step approve reject deny help list be "
        "keep shut let unlock bounce isolate quarantine do go use note pull trigger modprobe cleanup only just have_a_look fix throw restrict "
        "stick repeat end set cut stay wait"
    ),
    "domain": (
        "training finetuning fine_tuning cluster rack nodes gpu gpus card cards job jobs run runs model experiment epoch workload batch team "
        "customer version driver firmware kernel fault failure outage alert incident hardware software vendor diagnosis root_cause "
        "maintenance slurm scheduler kubernetes queue partition performance throughput bandwidth lines minutes spare answer answers reply "
        "help work cost time minute scope dc datacenter data_center technician technicians cage aisle bay room"
    ),
    "recent": "recently lately overnight last_night yesterday today earlier this_morning last_week last since this_week",
    "complain": (
        "complain complains complaining complained report reports reported reporting seeing sees hit_by hit experiencing having has have see"
    ),
    "outsider": "customers customer teams team users user tenants people colleagues jobs clusters",
    "acting": (
        "draining rebooting resetting restarting reloading killing cancelling canceling swapping replacing power_cycling pulling reseating "
        "unplugging rebooted drained restarted unplug swap replace pull reseat"
    ),
    "span": (
        "half_an_hour an_hour a_minute a_moment few_minutes couple_of_hours couple_of_minutes some_minutes a_while some_time few_hours hour "
        "minutes hours minute"
    ),
    "swapped": "swapped replaced reseated recabled replugged",
}
# fmt: on
_NEUTRAL_WORDS: Final = """
a a_bit able about actual actually again ago ah all already also am an and any anyway apparently are around as ask at back basically be
because been being believe best bit bold bot both buddy but by can case complaining cool could currently day days did do does down each
earlier early easiest else entire etc even evening ever exactly fair fastest fellow fine first folks for friday from fyi general generally
get give go going good got great guess guys had has have he hello helping her here hey hi him his hm hmm holding honest honestly hopefully
hour hours how however i if in interesting into is it its just kind kindly know last lately later left let lets like list little lol look
looks lot make man many mate may maybe me mean meanwhile midnight might min mins minute minutes moment monday month months more morning
much my need new next nice night no noon not note now of off oh okay on one ones only onto or our ours out over overall overnight part per
perhaps place please possibly probably put question quick quickest quickly quite rackmedic rather really recently reckon relevant right
roughly sadly same saturday say second see seem seems shall she should side simple since so some somewhere soon sorry sort still stuff
such sunday sure take talking team tell than thank thanks that the their them then there therefore these they thing things think this
those though thursday till times to today tomorrow tonight too tried true try trying tuesday uh um under understood unfortunately until up
upon us very via want was we wednesday week weekend weeks well were what when where whether which while who whole why will with wonder
wondering word words would years yes yesterday yet yo you your yours
"""
NEUTRAL: Final = frozenset(_NEUTRAL_WORDS.split())  # Words that contradict no reading.
_WEAK_WORDS: Final = """
'be' 'do' 'get' 'have' 'in' 'is' 'let' 'make' 'need' 'now' 'on' 'put' 'to' 'want' 'work' ME about any be before between can do domain
effect every good happen have how i if know look machine next not now other service should show state status take thing use verb we well
when yes you
"""
WEAK: Final = frozenset(_WEAK_WORDS.split())  # Ideas and words that say little alone.
_ELSEWHERE_WORDS: Final = """
beer bike birthday book books branch breakfast budget build building builds bus cake calendar candidate car cat chair chairs ci club
coffee commit concert contract deck dentist deployment desk dinner doctor dog door drink drinks eat eating eggs elevator expense expenses
fever flight flights floor food football fridge friend friends frontend game github gitlab gym hire hiring holiday holidays home hotel hr
husband intern interns interview interviews invoice invoices keyboard keynote kid kids kitchen laptop lunch mail marathon marketing match
meeting meetings menu merge merging money monthly movie music newsletter offer offers office onboarding parking party password pay phone
pizza poll pr presentation price prices printer pto quote quotes rain refund repo repository restaurant retro review room router salary
sales school serial shift shirt shoes slide slides snacks song sprint standup summer survey sushi taxi tea unit vacation vacations wandb
weather website weekly wife wifi window winter
"""
# Words of office and private life, which mark an unrelated message.
ELSEWHERE: Final = frozenset(_ELSEWHERE_WORDS.split())
