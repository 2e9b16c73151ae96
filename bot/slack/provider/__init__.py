"""The Slack side of the line to the provider: what is offered and sent at a customer's site, and the thread of a ticket that arrived.
May import what both ways of Slack may; of `bot`, only run imports it.
"""
