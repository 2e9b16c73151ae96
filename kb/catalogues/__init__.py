"""Error numbers and versions as their vendors list them: Xid, SXid, NVLink 5, NCCL. Pure look-ups over tables; imports nothing of kb."""
