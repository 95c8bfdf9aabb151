"""GPUs through NVML: a child process asks, the agent's process judges.

In the child: `child`, `reader`, `gpm`, `partitions`. In the agent: `presence`
(is there anything to ask), `process` and `probe` (the child's life), `judge` (from
readings to what a frame says). Pure, and each one idea: `memory`, `effective`,
`clock`, `health`, `rising`, `stranding`, `mig`.
"""
