"""Lines that hold a secret, as machines and people write them. The secrets are made up when they are read, so that none stands here."""
