"""What a network may cost: limits, the integer programme under them, feasibility, expected cost."""
