"""What one would have used instead: other networks brought to the same latency, trained alike, and who wins."""
