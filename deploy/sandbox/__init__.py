"""The outside world in a box: a GPU cluster behind real SSH and a local Slack. The product never imports it."""
