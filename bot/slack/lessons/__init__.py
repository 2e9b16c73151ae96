"""The Slack side of lessons: the card that knowledge editors decide on, and what their clicks and the form do.
May import what both ways of Slack may; of `bot`, only run imports it.
"""
