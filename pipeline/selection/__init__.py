"""From scores to the network that is trained: the best cell within the limits, proven by a measurement."""
