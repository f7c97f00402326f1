"""What [retrain] teacher says: a network of timm, with or without a file of weights, or a file that says all."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UserError

_TIMM = "timm:"
_PICKLES = (".pth", ".pt", ".bin", ".ckpt", ".pkl", ".pickle", ".tar")
_CONVERSION = (
    "from safetensors.torch import save_file; import torch; "
    "state = torch.load({path!r}, map_location='cpu', weights_only=True); "
    "state = state.get('state_dict', state); "
    "save_file({{k: v.contiguous() for k, v in state.items()}}, {target!r})"
)


@dataclass(frozen=True)
class TeacherSource:
    """`architecture` is timm's name for the network, empty for a file that says so itself; `file` holds its weights."""

    text: str
    architecture: str = ""
    file: Path | None = None

    @classmethod
    def parse(cls, text: str, folder: Path) -> "TeacherSource":
        """The source that a setting names; its file is relative to `folder`."""
        name, _, path = text.removeprefix(_TIMM).partition("@")
        if not text.startswith(_TIMM):
            return cls(text, "", folder / Path(text).expanduser())
        if not name or text.endswith("@"):
            raise UserError(
                f"[retrain] teacher = {text!r} names no {'file' if name else 'network'}; write timm:NAME, or "
                "timm:NAME@FILE.safetensors for weights in a file"
            )
        return cls(text, name, folder / Path(path).expanduser() if path else None)

    def require_file(self) -> Path:
        """The file, if it is there and of a kind that is read; nothing is ever unpickled."""
        path = self.file
        assert path is not None
        if path.suffix.lower() in _PICKLES:
            raise UserError(self._refuse_pickle(path))
        kinds = (".safetensors",) if self.architecture else (".safetensors", ".onnx")
        if path.suffix.lower() not in kinds:
            hint = "" if self.architecture else "; a network of timm is written timm:NAME"
            raise UserError(f"[retrain] teacher = {self.text!r} is no {' or '.join(kinds)} file{hint}")
        if not path.is_file():
            raise UserError(f"there is no {path}; set [retrain] teacher to the file of a trained network")
        return path

    def _refuse_pickle(self, path: Path) -> str:
        target = path.with_suffix(".safetensors")
        wanted = f"timm:{self.architecture or 'NAME'}@{target.name}"
        script = _CONVERSION.format(path=path.name, target=target.name)
        return (
            f"[retrain] teacher = {self.text!r} is a pickle, which may run code when it is read, so it is not; convert "
            f'it once, if you trust it: python -c "{script}", then set teacher = "{wanted}"'
        )


def absolute_source(text: str | None) -> str | None:
    """A teacher given on the command line: its file is relative to the shell, not to pipeline.toml."""
    if not text:
        return text
    source = TeacherSource.parse(text, Path.cwd())
    if source.file is None:
        return text
    return f"{_TIMM}{source.architecture}@{source.file}" if source.architecture else str(source.file)
