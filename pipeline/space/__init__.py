"""Search spaces as data, and the networks that interpret them."""
