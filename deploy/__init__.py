"""Running RackMedic: container, manifest, Redis configuration, and the sandbox world."""
