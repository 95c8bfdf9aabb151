"""The cells: a centre, with one thing varied at a time."""

from .world import Cell

# Compared policy by policy.
MAIN = [
    Cell(scenario=scenario, balancers=balancers)
    for scenario in ("S3", "steady")
    for balancers in (8, 1, 64)
]
AROUND = [
    Cell(scenario="S1"),
    Cell(scenario="S2"),
    Cell(load=0.5),
    Cell(load=0.85),
    Cell(period_s=0.1, delay_s=0.05),
    Cell(period_s=0.5, delay_s=0.1),
    Cell(period_s=2.0, delay_s=1.5),
    Cell(period_s=5.0, delay_s=3.0),
    Cell(noise=0.6),
    Cell(nodes=8),
    Cell(scale=40.0),  # 1.5 s on average
    Cell(spread="exponential"),
    Cell(nodes=100),
]
# The router with less to go by, against the same peers.
LESS = [
    *(Cell(balancers=balancers, options=("no labels",)) for balancers in (8, 1, 64)),
    Cell(balancers=64, options=("no bus",)),
    Cell(nodes=100, options=("no labels",)),
    Cell(options=("wrong labels",)),
    Cell(options=("bus lost",)),
]
CELLS = [*MAIN, *LESS[:4], *AROUND, *LESS[4:]]
