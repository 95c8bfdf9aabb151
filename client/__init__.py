"""The collector's HTTP API for Python."""
