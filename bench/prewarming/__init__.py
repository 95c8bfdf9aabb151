"""The parts of bench/prewarm.py: load, cache, and who decides."""
