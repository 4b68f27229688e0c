"""Measures the module: instructions, time, latency, memory. Run by scripts/bench."""
