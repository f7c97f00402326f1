"""Training: data, the recipe, the loop, and what it leaves."""
