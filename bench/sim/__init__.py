"""A simulated fleet for balancers: bench/balancer_sim.py runs it."""
