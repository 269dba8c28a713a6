"""The oracle of preemption that frees devices: which nodes, which victims, by brute force."""
