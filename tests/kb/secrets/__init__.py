"""Lines with a secret, as machines and people write them. Secrets are generated when read, so none is stored here."""
