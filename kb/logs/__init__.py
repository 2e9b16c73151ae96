"""Reading logs: typed events first, then templates for the rest. Text is data: nothing a process printed can pose as the kernel.

May import kb.pci_address, kb.redact and kb.scan.
"""
