"""What a secret looks like: within a line, over several lines, by its own form, and under a disguise. Pure; imports nothing of kb."""
