"""Everyday English words one slip away from a known word, which the spelling corrector must keep."""

from typing import Final

_REAL_WORDS: Final = """
abel acre addiction admirable admits adoption albert alter ambition analysed analyses analysts analytics annually arise assisted attack
attacked attacker attained attracted auction audition authored authority bale batter bets bitter blocking boeing boring bringing broader
broker brooke buffet bumper burton butter calling cancer cases chance chances charged charges cheating cheeks cheering chicks chronic
clarity clashes clause cleaner cleared clicking clicks closer closes closet coaching coalition coincidence collecting collection commanded
commanding comments committing commute companies companion compassion compete competed competing compiled composed compote comrades
concealed conceded conceived concepts concerts concession concludes concussion condemned conference confined conform confusion consumer
contained continent continuous converted converting converts convicted conviction cooking corrected correction correctly countess counties
countless courts covert cracking crafting crawling crossing crushed crushing currency cursed curtain curved customary cycles dagger dancer
declared declines delicate denies destined detained detector diagnosed differing directed direction directly discharged discussed
dismissal divers diving dose downloaded driven drives drying enables exceeded exceeding except executing execution exemption expect
expected exploded exploding exploration export expresses extent faculty falling farewell faults feathers feeding fellow fictional filed
filing finishes fixtures flashing flies flipping forge forged forgot form fractures functions funding furnished gettin governed handing
hangover hardcore hardened headed heated heath hmmm impaired imported impression improper improves increases indicator indicators indicted
inform insect instructional instructors interacting investigative investor investors involves keller kindle lacked latter leader leaning
lest librarian listed lively locker locking lonely lookin losses lots louder lunch managed manages manuel massage masters messed messing
minded misses mistakes mister mourning movies multitude necessity norman nothin noticing noting occupied occupying offences offended
offenses opens outrage overhead overseas owing packed packing painted patches pearson persistent persona peters petition pilots pissing
pitched pointed polo posing position pots powder preceded preceding prediction president presidents printer probable processor processors
productive projection promised promoted prompted proposal proposes protection proved provider provides provoked pushes rally reactive
readiness reboots rebuilt recalled recorded recording recycled referred referring reflected reformed refuse regain regained relates
relation relaxed released relying remained remedies reminding removes repairing repeal repeated replaces replacing reportedly reporter
reporting repost requires requiring reserved resisted resort respected responsive restraint resulted retain retained retaining retains
retarded returning revealed reverend reversed rewarding roller rotating ruining safety scared scheduled schedules seeds senior seniors
sequence served serves shaped shareholder shareholders shares shaved shorter shower simulation sing sings slapped slowed snapped socialist
somethin sounding spanning spared spending spends spinning stabbing stable staffing stalking staple stared starring started starter
starting starving states stitch stitches strand struck stuart stunning subjected submarine subset suggesting summit superior supervised
supervision supper survives suspended suspicions swimming switches systems talkin tanks terminals theology theyre thinks thorough thought
threat three throughout thrust tired tough tracking trailing tread tuned turner turning unable uncommon upgrades uploaded verses victor
waiting wander wandering warp whatever wherever wording worker worlds
"""
REAL: Final = frozenset(_REAL_WORDS.split())
