from pipeline.deploy.measured import measure_files
from pipeline.latency.devices import open_device
from pipeline.latency.measure import Effort


def test_one_result_per_file_in_the_order_given(model_file, tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(model_file.read_bytes())
    results = measure_files(open_device("cpu"), [model_file, copy], Effort(rounds=2, calls=2, extra_rounds=0))
    assert len(results) == 2
    for measured in results:
        assert 0 < measured.p50_ms <= measured.p95_ms <= measured.p99_ms
        assert [measured.at(percentile) for percentile in (50, 95, 99)] == list(measured.record().values())
