"""The constrained search: iDARTS under a latency budget."""
