"""Hardware-aware architecture search that keeps to a measured latency budget."""
