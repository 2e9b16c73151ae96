"""The closed loop: cases played to their end with people, a live cluster and a virtual clock."""
