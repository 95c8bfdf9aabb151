"""Ingest, fleet table, health, store and HTTP."""
