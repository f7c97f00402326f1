"""Latency on the target machine: measured, tabled, predicted, and the prediction put to the test."""
