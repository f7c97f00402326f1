"""Sites: the places where an operation runs, which tables, predictor, selection and counts all speak of."""

from typing import NamedTuple


class Site(NamedTuple):
    """One operation at one place: what it is, its width, stride and the (square) resolution of its input."""

    operation: str
    channels_in: int
    channels_out: int
    stride: int
    resolution: int

    @property
    def key(self) -> str:
        """A name that is unique, stable and readable; latency tables are indexed by it."""
        return f"{self.operation}/c{self.channels_in}-{self.channels_out}/s{self.stride}/r{self.resolution}"

    @property
    def resolution_out(self) -> int:
        return self.resolution // self.stride
