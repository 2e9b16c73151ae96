"""Reading logs of kernels and jobs: typed events first, then templates for the rest. A job's log is the tenant's, so of low trust.

Text is data: nothing a process printed can pose as the kernel.

May import kb.pci_address, kb.redact and kb.needle_search.
"""
