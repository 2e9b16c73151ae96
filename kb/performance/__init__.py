"""How long a job or a test should take on which GPUs, as a number with an interval, and what is slow where it takes longer. Pure; imports the catalogues."""
