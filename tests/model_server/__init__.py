"""RackMedic's questions to a real server of a real, very weak model: llama.cpp in a process of its own. What it says is not ours; what we make of it is."""
