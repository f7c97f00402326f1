"""What a person reads: figures of a network, of a run, pictures."""
