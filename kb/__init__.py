"""What is known: labels, catalogues, past incidents, logs, redaction. Knows checks and remedies as strings only; imports no other floor."""
