"""Effects of the node kit's tools and Slurm's commands: an answer, and deeds that the simulation applies. Pure; may
import machines, render and simulation.
"""
