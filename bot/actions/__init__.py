"""What people may decide about actions, and what carries it on until their incidents have heard how it ended. May import desk, store and
policy, and never a card or Slack."""
