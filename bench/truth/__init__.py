"""The parts of bench/health_truth.py."""
