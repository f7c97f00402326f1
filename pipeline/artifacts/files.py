"""Files that no stage reads back as a record of ours; that they are as they were is known by their hash."""

from pipeline.artifacts.artifact import Artifact


class Images(Artifact):
    """The user's images."""

    name = "data"


class GivenGenotype(Artifact):
    """The file that [retrain] genotype names."""

    name = "given_genotype"


class DeployedModel(Artifact):
    """model.onnx."""

    name, maker = "model", "export"


class Int8Model(Artifact):
    """model.int8.onnx, where it is faster."""

    name, maker, optional = "int8_model", "export", True


class PredictScript(Artifact):
    """predict.py."""

    # 1 had a decoder of its own, 2 took all cores, 3 stopped at a missing file
    name, maker, version = "predict_script", "export", 4


class GuideImages(Artifact):
    """What [autodo] guide names, where images are learned about."""

    name, optional = "guide", True


class TeacherFile(Artifact):
    """The file that the teacher of [retrain] comes from: what `pipeline teach` left, or what the setting names."""

    name, optional = "teacher", True


class TeacherBase(Artifact):
    """The file that [retrain] teacher names, which `pipeline teach` starts from."""

    name, optional = "teacher_base", True


class StartWeights(Artifact):
    """The weights that [retrain] start names."""

    name, optional = "start_weights", True


class SuspectSheet(Artifact):
    """suspects.png: the most suspicious images, with both labels."""

    name, maker, optional = "suspect_sheet", "retrain", True


class WeightPicture(Artifact):
    """weights.png: how the weights of images are spread in every class."""

    name, maker, optional = "weight_picture", "retrain", True
