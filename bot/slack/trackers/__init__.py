"""The Slack side of tickets in trackers: the form that shows what would leave, and the message that follows the ticket.
May import what both ways of Slack may; of `bot`, only run imports it.
"""
