"""Customers' channels: what people say and press there, carried to the inbox, and what our own people tell them. May import all that the Slack
side may; of `bot`, only run imports it."""
