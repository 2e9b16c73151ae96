"""What customers read about causes, in each language that is kept: words, and the change where the cause is theirs. Pure over its files."""
