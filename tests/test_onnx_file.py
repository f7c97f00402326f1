import onnx
import onnxruntime
import torch
from torch import nn

from pipeline.onnx_file import write_deployed, write_quick


class Scaled(nn.Module):
    """Small, with a slice and a flatten: the parts that turn a batch of one into a constant."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.linear = nn.Linear(4, 5)

    def forward(self, x):
        y = torch.relu(self.conv(x))[:, :, 1:, 1:]
        return self.linear(y.mean((2, 3)))


def answer(path, images):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"input": images.numpy()})[0])


def test_deployed_file(tmp_path):
    torch.manual_seed(0)
    module, example = Scaled().eval(), torch.zeros(1, 3, 6, 6)
    metadata = {"labels": '["ж, \\"a\\""]', "a": "1"}
    for name in ("one.onnx", "two.onnx"):
        write_deployed(module, example, tmp_path / name, metadata)
    content = (tmp_path / "one.onnx").read_bytes()
    assert content == (tmp_path / "two.onnx").read_bytes()
    assert b".py" not in content and b"stack_trace" not in content and b"torch.nn" not in content
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["one.onnx", "two.onnx"]
    model = onnx.load(tmp_path / "one.onnx")
    assert {prop.key: prop.value for prop in model.metadata_props} == metadata
    assert [model.ir_version, model.opset_import[0].version] == [9, 20]
    dims = [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*model.graph.input, *model.graph.output)
    ]
    assert dims == [["batch", 3, 6, 6], ["batch", 5]]
    for count in (1, 2, 5):
        images = torch.rand(count, 3, 6, 6)
        with torch.no_grad():
            assert torch.allclose(answer(tmp_path / "one.onnx", images), module(images), atol=1e-6)


def test_quick_file_has_the_shape_of_its_inputs(tmp_path):
    module, images = Scaled(), torch.rand(4, 3, 6, 6)
    write_quick(module, [images], tmp_path / "quick.onnx")
    with torch.no_grad():
        assert torch.allclose(answer(tmp_path / "quick.onnx", images), module.eval()(images), atol=1e-6)
