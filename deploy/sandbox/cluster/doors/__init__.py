"""The interfaces of the simulated cluster: real SSH, an in-process transport, and the control API. May import every
other cluster package.
"""
