"""What a secret looks like: within a line, over several lines, by its own form, under a disguise, and in texts within texts. Pure; imports nothing of kb."""
