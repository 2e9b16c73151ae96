"""Cases as files: which machines, what breaks when, what people say, what makes it harder. May import faults, machines and the plan."""
