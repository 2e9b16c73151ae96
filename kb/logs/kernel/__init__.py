"""A kernel's log into typed events, and which of them caused which. May import the room of logs, kb.pci_address and kb.scan."""
