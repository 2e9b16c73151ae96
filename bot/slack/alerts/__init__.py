"""The threads of incidents that alerts opened: their first message with the counts, and what their turns are told.
May import what both ways of Slack may; of `bot`, only run imports it.
"""
