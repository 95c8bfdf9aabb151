"""Routing decisions: pure, without I/O, clock or global chance."""
