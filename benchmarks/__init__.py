"""Scripts that print measured figures."""
