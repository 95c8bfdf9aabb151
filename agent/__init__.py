"""The probe agent, on every host: measures, frames, and sends."""
