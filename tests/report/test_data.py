"""What `pipeline check` says of the sizes of images."""

from pipeline.data.check import Size
from pipeline.report.data import _describe_sizes


def test_sizes_are_ordered_by_the_short_side_and_then_by_the_long_one() -> None:
    sizes = [Size(160, 210), *3 * [Size(200, 160)], Size(90, 400)]
    found = {"smallest_px": "90×400", "median_px": "200×160", "largest_px": "160×210"}
    assert _describe_sizes(sizes) == found | {"sizes_by": "shorter-side"}
    assert _describe_sizes([]) == {}
