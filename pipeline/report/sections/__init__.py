"""The sections of the page, each made from what a run has to show, or left out."""
