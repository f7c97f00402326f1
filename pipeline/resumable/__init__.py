"""Work that can be killed and goes on: checkpoints, history, interruption, ranks."""
