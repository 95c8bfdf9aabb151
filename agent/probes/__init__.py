"""The probes: one signal a file, each parse, arithmetic, read."""
