"""From trained weights to a folder that someone deploys, with every promise checked."""
