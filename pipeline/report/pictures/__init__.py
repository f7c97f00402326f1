"""Every picture the project draws."""
