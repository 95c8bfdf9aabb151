"""The HTTP API on port 7767."""
