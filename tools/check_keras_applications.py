"""Holds ten of Keras' applications against their SavedModels: as `.h5`, as `.keras`, and the frozen graph of each.

    python -m tools.check_keras_applications            # all, some minutes
    python -m tools.check_keras_applications MobileNet

Each model has random weights, no two alike. Keras saves it and exports it; tfsmith compares the files, weight by
weight. Exits with 1 if anything is not the same. Needs TensorFlow with Keras 3.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfsmith.weights.compare import Comparison

APPLICATIONS = (
    "MobileNet",
    "MobileNetV2",
    "MobileNetV3Small",
    "EfficientNetB0",
    "EfficientNetV2B0",
    "ResNet50",
    "DenseNet121",
    "InceptionV3",
    "Xception",
    "NASNetMobile",
)


def compare_application(name: str, folder: Path, **settings: Any) -> tuple[int, int, dict[str, str]]:
    """How the files of a model compare with its SavedModel and with the frozen graph of that.

    Args:
        name: The class in `keras.applications`.
        folder: Where to write the files.
        settings: What to pass to the class, such as a smaller size.

    Returns:
        How many weights it has, how many numbers they are, and a verdict for each file.
    """
    import keras
    import numpy

    import tfsmith
    from tfsmith.verbs.weights import weights

    model = getattr(keras.applications, name)(weights=None, **settings)
    random = numpy.random.default_rng(5)
    model.set_weights([random.normal(size=one.shape).astype("float32") for one in model.get_weights()])
    model.export(str(folder / "exported"), verbose=False)
    tfsmith.freeze(folder / "exported").save(folder / "frozen.pb")
    wanted = len(model.get_weights())
    verdicts: dict[str, str] = {}
    for file in ("model.h5", "model.keras"):
        model.save(folder / file)
        for other in ("exported", "frozen.pb"):
            report = weights(folder / file, compare=folder / other, training=False)
            verdicts[f"{file}, {other}"] = _verdict(report.comparisons or (), wanted, is_frozen=other == "frozen.pb")
    return wanted, model.count_params(), verdicts


def _verdict(found: Sequence[Comparison], wanted: int, *, is_frozen: bool) -> str:
    """ "same" if every weight of the file has a partner of the same bytes.

    A frozen graph need not have all: it lacks what no answer depends on, such as the counter of a Normalization layer.
    """
    same = len({id(one.first) for one in found if one.verdict == "same"})
    unread = [one.name for one in found if one.verdict == "only in first"] if is_frozen else []
    if same + len(unread) != wanted or len(found) - len(unread) < same:
        return f"{same} of {wanted} are the same"
    if any(one.verdict not in ("same", "only in first") for one in found):
        return "something differs"
    return f"same, but for {', '.join(unread)}, which the graph does not read" if unread else "same"


def main() -> int:
    is_good, is_first = True, True
    for name in sys.argv[1:] or APPLICATIONS:
        with tempfile.TemporaryDirectory() as place:
            count, parameters, verdicts = compare_application(name, Path(place))
        if is_first:
            print("application", "weights", "parameters", *verdicts, sep=" | ")
        print(name, f"{count:,}", f"{parameters:,}", *verdicts.values(), sep=" | ", flush=True)
        is_good, is_first = is_good and all(one.startswith("same") for one in verdicts.values()), False
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
