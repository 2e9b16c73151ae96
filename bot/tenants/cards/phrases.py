"""All phrases for tenants except causes: a row per id, a column per language. A test proves the table complete.

Words for causes are in `kb.customers`. A missing language falls back to English.
"""

from collections.abc import Mapping

ENGLISH = "en"

PHRASES: Mapping[str, Mapping[str, str]] = {
    "received": {"en": "Received. I am looking at your machines.", "de": "Angekommen. Ich sehe mir Ihre Maschinen an."},
    "yours": {"en": "You can fix this yourselves", "de": "Das können Sie selbst beheben"},
    "ours": {"en": "A fault on our side", "de": "Ein Fehler auf unserer Seite"},
    "both": {
        "en": "A fault on our side, and one that you can fix yourselves",
        "de": "Ein Fehler bei uns, und einer, den Sie selbst beheben können",
    },
    "healthy": {"en": "Nothing is wrong with your machines", "de": "Ihren Maschinen fehlt nichts"},
    "healthy_next": {
        "en": "If the job still fails, attach its log or say what it prints; a person can look as well.",
        "de": "Wenn der Job weiter scheitert, hängen Sie sein Log an oder schreiben Sie, was er ausgibt; auch ein Mensch kann nachsehen.",
    },
    "asked": {"en": "I need to know more", "de": "Ich muss mehr wissen"},
    "people": {"en": "A person looks into it", "de": "Ein Mensch sieht es sich an"},
    "people_next": {
        "en": "I found no cause that I am sure of, and have handed everything to our people. They answer here.",
        "de": "Ich habe keine sichere Ursache gefunden und alles unseren Leuten gegeben. Sie antworten hier.",
    },
    "unseen_next": {
        "en": "I have checked nothing. Write here what is wrong, and on which machines or in which job: our people read it and answer here.",
        "de": (
            "Ich habe nichts angesehen. Schreiben Sie hier, was nicht geht, und auf welchen Maschinen oder in welchem Job: Unsere Leute lesen "
            "es und antworten hier."
        ),
    },
    "reminded": {
        "en": "Your answers are still missing. Without them, our people continue with what is known.",
        "de": "Ihre Antworten fehlen noch. Kommt keine, nehmen unsere Leute es mit dem auf, was da ist.",
    },
    "unanswered": {
        "en": "No answer came, so our people have it now, with all findings. If you know more, write it here: they read it.",
        "de": (
            "Es kam keine Antwort; darum haben es jetzt unsere Leute, mit allem, was gefunden wurde. Was Sie noch wissen, schreiben Sie hier: "
            "Sie lesen es."
        ),
    },
    "withdrawn": {
        "en": "You withdrew the report, and our people know. To continue, write here what is wrong.",
        "de": "Sie haben es zurückgenommen. Unsere Leute wissen es. Schreiben Sie hier, was nicht geht, und es geht weiter.",
    },
    "state_received": {"en": "Reported to our people; not taken yet.", "de": "Unseren Leuten gemeldet, noch hat es niemand."},
    "state_taken": {"en": "One of our people has it.", "de": "Jemand von unseren Leuten hat es."},
    "state_waiting": {
        "en": "One of our people has it and waits for a part or a supplier.",
        "de": "Jemand von unseren Leuten hat es und wartet auf andere: ein Ersatzteil, einen Lieferanten.",
    },
    "state_repairing": {"en": "It is being repaired.", "de": "Es wird repariert."},
    "state_proved": {
        "en": "Repaired, and proved by a test. You can use the machines again.",
        "de": "Repariert und durch einen Test nachgewiesen. Sie können die Maschinen wieder benutzen.",
    },
    "state_closed": {"en": "Closed.", "de": "Abgeschlossen."},
    "shows": {"en": "What shows it, from your own job:", "de": "Woran man es sieht, in Ihrem eigenen Job:"},
    "change": {"en": "Change:", "de": "Zu ändern:"},
    "works": {"en": "It worked when:", "de": "Es hat geholfen, wenn:"},
    "avoid": {"en": "Until then start without:", "de": "Bis dahin starten Sie ohne:"},
    "avoid_many": {
        "en": "Until then start without {count} of your machines. The list is too long for one line: ask here, and a person gives it to you.",
        "de": (
            "Bis dahin starten Sie ohne {count} Ihrer Maschinen; das sind mehr, als eine Zeile fasst: Fragen Sie hier, und ein Mensch gibt "
            "Ihnen die Liste."
        ),
    },
    "ticket": {"en": "Ticket", "de": "Vorgang"},
    "questions": {"en": "Please answer here, as far as you know:", "de": "Bitte antworten Sie hier, soweit Sie es wissen:"},
    "q_which": {
        "en": "Which job is it, or on which machines does it run?",
        "de": "Welcher Job ist es, oder auf welchen Maschinen läuft er?",
    },
    "q_log": {
        "en": "Can you attach the log of the first process that failed, from its start to the error?",
        "de": "Können Sie das Log des ersten Prozesses anhängen, der scheiterte, vom Start bis zum Fehler?",
    },
    "q_since": {
        "en": "When did it last work, and what did you change since (image, data, settings, number of machines)?",
        "de": "Wann lief es zuletzt, und was haben Sie seitdem geändert (Image, Daten, Einstellungen, Zahl der Maschinen)?",
    },
    "button_broken": {"en": "Still broken", "de": "Geht noch immer nicht"},
    "button_works": {"en": "It works again", "de": "Geht wieder"},
    "button_person": {"en": "Ask a person", "de": "Einen Menschen fragen"},
    "button_withdraw": {"en": "Withdraw", "de": "Zurücknehmen"},
    "sure_withdraw": {
        "en": "Our people are told that you no longer need this.",
        "de": "Unsere Leute erfahren, dass Sie das nicht mehr brauchen.",
    },
    "yes": {"en": "Yes", "de": "Ja"},
    "no": {"en": "Back", "de": "Zurück"},
    "from_people": {"en": "From our people:", "de": "Von unseren Leuten:"},
    "heard_broken": {"en": "Thank you. I am looking again.", "de": "Danke. Ich sehe noch einmal nach."},
    "again_before": {"en": "I checked again; nothing has changed:", "de": "Ich habe noch einmal nachgesehen; es steht wie zuvor:"},
    "again_nothing": {
        "en": "I looked again and found nothing new. If it still fails, let a person look.",
        "de": "Ich habe noch einmal nachgesehen und nichts Neues gefunden. Wenn es weiter scheitert, lassen Sie einen Menschen nachsehen.",
    },
    "heard_works": {"en": "Good. I check once more that it stays fixed.", "de": "Gut. Ich sehe noch einmal nach, ob es hält."},
    "enough": {
        "en": "I have answered a lot here in the last minutes and am quiet for a little. Mention me if it cannot wait.",
        "de": "Ich habe hier in den letzten Minuten viel geantwortet und bin kurz still. Erwähnen Sie mich, wenn es nicht warten kann.",
    },
    "heard_person": {"en": "Our people have been asked to look.", "de": "Unsere Leute sind gebeten, nachzusehen."},
    "unknown_hosts": {"en": "I know no such machine of yours: {names}.", "de": "Eine solche Maschine von Ihnen kenne ich nicht: {names}."},
    "unknown_job": {"en": "I know no such job of yours: {names}.", "de": "Einen solchen Job von Ihnen kenne ich nicht: {names}."},
    "could_not_look": {
        "en": "Some of your machines did not answer me: {names}.",
        "de": "Einige Ihrer Maschinen haben mir nicht geantwortet: {names}.",
    },
    "unread": {
        "en": "I could not read {names}. Attach it again as plain text, or the part around the first error.",
        "de": "Das konnte ich nicht lesen: {names}. Hängen Sie es noch einmal als reinen Text an, oder den Teil um den ersten Fehler.",
    },
    "wait_incidents": {
        "en": "Your report is kept. I work on {most} of your reports at once; this one starts when one of those is done.",
        "de": "Ihre Meldung ist da. Ich bearbeite {most} Ihrer Meldungen zugleich; diese beginnt, sobald eine davon erledigt ist.",
    },
    "wait_mentions": {
        "en": "Your message is kept. I checked {most} times for you within an hour; it continues automatically at {when}.",
        "de": "Ihre Nachricht ist da. Ich habe für Sie {most} Mal in einer Stunde nachgesehen; es geht um {when} von selbst weiter.",
    },
    "why": {"en": "Because of this:", "de": "Deswegen:"},
    "host_clear": {"en": "Nothing wrong found so far with {names}.", "de": "An {names} ist bisher nichts Auffälliges zu finden."},
    "host_not_asked": {
        "en": "{names}: not looked at for this report. Write “add {names}” and I look there too.",
        "de": "{names}: für diese Meldung nicht angesehen. Schreiben Sie „auch {names} prüfen“, und ich sehe dort nach.",
    },
    "answer_ours": {
        "en": "Only our people decide about changes to machines and make them. They can read your message in their thread.",
        "de": "Nur unsere Leute ändern etwas an einer Maschine, und nur sie entscheiden es. Was Sie schrieben, steht in deren Thread.",
    },
    "answer_again": {
        "en": "Our people should know that it came back: they can read your message in their thread, next to the findings.",
        "de": "Dass es wiederkommt, sollen unsere Leute wissen: Was Sie schrieben, steht in deren Thread, neben dem, was gefunden wurde.",
    },
    "again_seen": {
        "en": "Of your own reports I keep {count} like this one, the latest first:",
        "de": "Von Ihren eigenen Meldungen habe ich {count} wie diese, die jüngste zuerst:",
    },
    "again_unknown": {"en": "no cause was found", "de": "es wurde keine Ursache gefunden"},
    "answer_pressed": {
        "en": "Our people read that in their thread. Current status:",
        "de": "Unsere Leute lesen das in ihrem Thread. So weit ist es:",
    },
    "answer_report": {
        "en": "Here is a file with what is known so far: what we found, your machines, what to change.",
        "de": "Was bis jetzt für Sie bekannt ist, kommt hier als Datei: was wir fanden, Ihre Maschinen, was zu ändern ist.",
    },
    "report_failed": {
        "en": "The file could not be made just now. Ask once more, or ask for a person.",
        "de": "Die Datei ließ sich gerade nicht erstellen. Fragen Sie noch einmal, oder nach einem Menschen.",
    },
    "answer_inside": {
        "en": "Only our people see machine output and other events. My message above says what concerns your job.",
        "de": "Was Maschinen ausgeben und was anderswo geschah, bleibt bei unseren Leuten. Was Ihren Job angeht, steht in meiner Nachricht oben.",
    },
    "answer_thanks": {"en": "You are welcome.", "de": "Gern geschehen."},
    "answer_beyond": {
        "en": (
            "That I cannot answer; our people read it in their thread. I can say how far it is (where are we?), what I believe (why?) and what "
            "is known of a machine of yours (what about MACHINE?)."
        ),
        "de": (
            "Das kann ich nicht beantworten; unsere Leute lesen es in ihrem Thread. Ich kann sagen, wie weit es ist (Status?), was ich glaube "
            "(warum?) und was von einer Ihrer Maschinen bekannt ist (was ist mit MASCHINE?)."
        ),
    },
    "how_long": {
        "en": "I cannot say how long it takes. This thread updates automatically when the status changes.",
        "de": "Wie lange es dauert, kann ich nicht sagen. Dieser Thread meldet sich von selbst, sobald sich etwas ändert.",
    },
    "answer_help": {
        "en": (
            "Say what is wrong and where, attach a log whenever you have one, or write: where are we? · why? · what about MACHINE? · "
            "add MACHINE · still broken · it works again · ask a person."
        ),
        "de": (
            "Sagen Sie, was wo nicht geht, hängen Sie ein Log an, wann immer Sie eins haben, oder schreiben Sie: Status? · warum? · "
            "was ist mit MASCHINE? · auch MASCHINE prüfen · geht noch immer nicht · geht wieder · einen Menschen fragen."
        ),
    },
    "direct": {
        "en": "I answer where your colleagues can read it too. Mention me in your channel:",
        "de": "Ich antworte dort, wo es auch Ihre Kolleginnen und Kollegen lesen. Erwähnen Sie mich in Ihrem Kanal:",
    },
    "report_glance": {"en": "At a glance", "de": "Auf einen Blick"},
    "report_causes": {"en": "What it is", "de": "Was es ist"},
    "report_machines": {"en": "Your machines", "de": "Ihre Maschinen"},
    "report_questions": {"en": "What we asked you", "de": "Was wir Sie gefragt haben"},
    "report_stands": {"en": "Where it stands", "de": "Stand"},
    "report_reported": {"en": "Reported", "de": "Gemeldet"},
    "report_yours": {"en": "Machines", "de": "Maschinen"},
    "report_note": {"en": "Note", "de": "Hinweis"},
    "report_made": {"en": "Made by RackMedic on {when} UTC.", "de": "Erstellt von RackMedic am {when} UTC."},
    "not_old_button": {
        "en": "This button belongs to an earlier message. Write “where are we?” here for the current status.",
        "de": "Dieser Knopf gehört zu einer früheren Nachricht. Schreiben Sie hier „Status?“, dann steht da, wie es jetzt ist.",
    },
    "not_mentions": {
        "en": "In this channel I answer only when mentioned: mention me, and say what is wrong and on which machines or in which job.",
        "de": "In diesem Kanal antworte ich nur auf Erwähnungen: Erwähnen Sie mich und schreiben Sie, was nicht geht und auf welchen Maschinen.",
    },
    "not_served": {
        "en": "I do not answer in this channel at the moment. Please write to the people who run the machines for you.",
        "de": "In diesem Kanal antworte ich zurzeit nicht. Bitte schreiben Sie den Leuten, die die Maschinen für Sie betreiben.",
    },
    "not_done": {
        "en": "I could not do that. Write here what you wanted, and our people read it.",
        "de": "Das konnte ich nicht tun. Schreiben Sie hier, was Sie wollten; unsere Leute lesen es.",
    },
    "not_stored_again": {
        "en": "I cannot store messages right now; yours reaches me again automatically.",
        "de": "Ich kann gerade nichts aufbewahren; Ihre Nachricht kommt von selbst noch einmal zu mir.",
    },
    "not_stored": {
        "en": "I cannot store anything right now, so that did not count. Please try again in a minute.",
        "de": "Ich kann gerade nichts aufbewahren, das hat also nicht gezählt. Bitte versuchen Sie es in einer Minute noch einmal.",
    },
    "internal_error": {
        "en": "Internal error on my side; your machines were not changed. Write your message again, or give our people this reference: {reference}",
        "de": (
            "Bei mir ist etwas zerbrochen; an Ihren Maschinen wurde nichts geändert. Schreiben Sie es noch einmal, oder fragen Sie unsere Leute; "
            "damit finden sie es: {reference}"
        ),
    },
    "not_read_again": {
        "en": "I do not read edits. Write what is new as a new message.",
        "de": "Diese Nachricht habe ich gelesen, als Sie sie sandten; geändert lese ich sie nicht noch einmal. Neues schreiben Sie bitte als eigene Nachricht.",
    },
    "say_more": {
        "en": "Say what is wrong and on which machines or in which job, for example: job 4711 hangs on gpu-[017-020].",
        "de": "Sagen Sie, was nicht geht, und auf welchen Maschinen oder in welchem Job, zum Beispiel: job 4711 hängt auf gpu-[017-020].",
    },
}


def get_phrase(id_: str, language: str = ENGLISH, **slots: str) -> str:
    """Return the phrase with its slots filled. Raise KeyError for an unknown id."""
    row = PHRASES[id_]
    return row.get(language, row[ENGLISH]).format(**slots)
