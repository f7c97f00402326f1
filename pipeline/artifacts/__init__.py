"""The files that stages hand to each other: one typed record each, which reads, checks and writes it."""
