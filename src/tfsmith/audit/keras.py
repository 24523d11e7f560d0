"""What Keras would run when it loads a model, by its configs in JSON: code, functions by name, classes of others.

Reads texts, imports nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfsmith.audit.findings import Finding, Level

__all__ = [
    "keras_findings",
    "class_findings",
]

_LONGEST_SHOWN = 120
_OWN_MODULES = re.compile(r"(keras|tf_keras|keras_hub|keras_nlp|keras_cv|tensorflow|builtins)(\.|$)")
"""Modules that Keras' own configs name."""
_PLAIN_BUILTINS = frozenset({"int", "float", "bool", "str", "list", "tuple", "dict", "set", "bytes", "slice", "type"})
_ACTS = re.compile(
    r"(^|\.)(io|raw_ops|data|distribute|debugging|profiler|summary|autograph|load_library|load_op_library|py_function"
    r"|numpy_function|py_func|saved_model|config)(\.|$)"
)
"""Parts of TensorFlow that do more than compute; a layer that calls one by name is no usual layer."""


def keras_findings(layers: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """What Keras runs when it loads the model: Lambda layers, functions by name, objects of other modules.

    Args:
        layers: Where each stands, and its config as JSON.
    """
    for where, text in layers:
        if not text:
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            what = f"the config of a Keras layer cannot be read ({type(error).__name__})"
            yield Finding("disguised", "suspicious", what, "", where, when="in the file")
            continue
        for one in _tables(found):
            yield from _of_table(where, one)


def _of_table(where: str, one: Mapping[str, Any]) -> Iterator[Finding]:
    kind = str(one.get("class_name", "")).rpartition(">")[2]
    config = one.get("config")
    if kind == "__lambda__":
        yield _found(where, "dangerous", "a config holds compiled Python code")
    elif kind == "Lambda" and isinstance(config, dict):
        yield _lambda(where, config)
    elif kind in ("TFOpLambda", "SlicingOpLambda") and isinstance(config, dict):
        called = str(config.get("function", ""))
        if _ACTS.search(called):
            yield _found(where, "dangerous", f"a layer calls tf.{called} by its name", called)
    module = one.get("module")
    if not isinstance(module, str) or "class_name" not in one:
        return
    name = config if isinstance(config, str) else str(one.get("class_name"))
    is_plain = module != "builtins" or kind in ("__tuple__", "__lambda__") or name in _PLAIN_BUILTINS
    if not _OWN_MODULES.match(module):
        level: Level = "suspicious" if one.get("registered_name") else "dangerous"
        what = f"Keras imports {_shown(module)} and takes {_shown(name)!r} from it"
        yield _found(where, level, what, f"{module}.{name}")
    elif not is_plain:
        level = "suspicious" if kind == "function" and one.get("registered_name") else "dangerous"
        yield _found(where, level, f"Keras takes {_shown(name)!r} from builtins", f"builtins.{name}")


def _lambda(where: str, config: Mapping[str, Any]) -> Finding:
    name = str(config.get("name", where))
    code, kind = config.get("function"), str(config.get("function_type", "lambda"))
    others = ("output_shape", "mask", "arguments")
    has_code = kind == "lambda" or isinstance(code, (list, dict))
    has_code = has_code or any(config.get(f"{other}_type") == "lambda" for other in others)
    if has_code:
        return _found(where, "dangerous", f"Lambda layer {_shown(name)!r} holds compiled Python code", op="Lambda")
    what = f"Lambda layer {_shown(name)!r} calls {_shown(str(code))!r}"
    return _found(where, "suspicious", what, str(code), op="Lambda")


def _found(where: str, level: Level, what: str, constant: str = "", *, op: str = "") -> Finding:
    return Finding("keras-code", level, what, op, where, "", _shown(constant), "at load")


def _tables(found: Any) -> Iterator[Mapping[str, Any]]:
    """All tables with a class name, however deep."""
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if "class_name" in one:
                yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


_OWN = ("keras", "tf_keras", "keras_hub", "keras_nlp", "keras_cv")
"""The packages whose classes are Keras' own."""
_RUNS: Mapping[str, tuple[Level, str]] = {
    "TorchModuleWrapper": ("dangerous", "holds a pickled PyTorch module"),
    "TFSMLayer": ("suspicious", "loads another SavedModel"),
    "JaxLayer": ("suspicious", "calls functions of Python"),
    "FlaxLayer": ("suspicious", "calls functions of Python"),
}
_LAYERS = frozenset(
    {
        "AbstractRNNCell", "Activation", "ActivityRegularization", "AdaptiveAveragePooling1D",
        "AdaptiveAveragePooling2D", "AdaptiveAveragePooling3D", "AdaptiveMaxPooling1D", "AdaptiveMaxPooling2D",
        "AdaptiveMaxPooling3D", "Add", "AdditiveAttention", "AlphaDropout", "AtrousConv1D", "AtrousConv2D",
        "AtrousConvolution1D", "AtrousConvolution2D", "Attention", "AugMix", "AutoContrast", "Average",
        "AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "AvgPool1D", "AvgPool2D", "AvgPool3D",
        "BatchNormalization", "BatchNormalizationV1", "BatchNormalizationV2", "Bidirectional", "CategoryEncoding",
        "CenterCrop", "Concatenate", "ContrastLimitedAdaptiveHistogramEqualization", "Conv1D", "Conv1DTranspose",
        "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM2DCell",
        "ConvLSTM3D", "ConvRNN2D", "ConvRecurrent2D", "Convolution1D", "Convolution1DTranspose", "Convolution2D",
        "Convolution2DTranspose", "Convolution3D", "Convolution3DTranspose", "Cropping1D", "Cropping2D", "Cropping3D",
        "CuDNNGRU", "CuDNNLSTM", "CutMix", "Deconv2D", "Deconv3D", "Deconvolution2D", "Deconvolution3D", "Dense",
        "DenseFeatures", "DepthwiseConv1D", "DepthwiseConv2D", "Discretization", "Dot", "Dropout", "ELU", "EinsumDense",
        "Embedding", "Equalization", "Flatten", "FlaxLayer", "Functional", "GRU", "GRUCell", "GRUV2", "GaussianDropout",
        "GaussianNoise", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D",
        "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D",
        "GlobalMaxPool3D", "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D", "GroupNormalization",
        "GroupQueryAttention", "HashedCrossing", "Hashing", "Highway", "Identity", "Input", "InputLayer",
        "IntegerLookup", "JaxLayer", "LSTM", "LSTMCell", "LSTMV2", "Lambda", "Layer", "LayerNormalization", "LeakyReLU",
        "LocallyConnected1D", "LocallyConnected2D", "Masking", "MaxNumBoundingBoxes", "MaxPool1D", "MaxPool2D",
        "MaxPool3D", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "Maximum", "MaxoutDense", "MelSpectrogram",
        "Merge", "Minimum", "MixUp", "Model", "MultiHeadAttention", "Multiply", "Normalization", "PReLU",
        "ParametricSoftplus", "Permute", "Pipeline", "RMSNormalization", "RNN", "RandAugment", "RandomBrightness",
        "RandomColorDegeneration", "RandomColorJitter", "RandomContrast", "RandomCrop", "RandomElasticTransform",
        "RandomErasing", "RandomFlip", "RandomGaussianBlur", "RandomGrayscale", "RandomHeight", "RandomHue",
        "RandomInvert", "RandomPerspective", "RandomPosterization", "RandomRotation", "RandomSaturation",
        "RandomSharpness", "RandomShear", "RandomTranslation", "RandomWidth", "RandomZoom", "ReLU", "Recurrent",
        "RepeatVector", "Rescaling", "Reshape", "Resizing", "ReversibleEmbedding", "SReLU", "STFTSpectrogram",
        "SeparableConv1D", "SeparableConv2D", "SeparableConvolution1D", "SeparableConvolution2D", "Sequential",
        "SimpleRNN", "SimpleRNNCell", "SlicingOpLambda", "Softmax", "Solarization", "SpatialDropout1D",
        "SpatialDropout2D", "SpatialDropout3D", "SpectralNormalization", "StackedRNNCells", "StringLookup", "Subtract",
        "SyncBatchNormalization", "TFOpLambda", "TFSMLayer", "TensorFlowOpLayer", "TextVectorization",
        "ThresholdedReLU", "TimeDistributed", "TimeDistributedDense", "TorchModuleWrapper", "UnitNormalization",
        "UpSampling1D", "UpSampling2D", "UpSampling3D", "Wrapper", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D",
    }
)  # fmt: skip
"""The layers of Keras 1, 2, tf.keras and Keras 3; others are the user's own, whose code Keras needs to load them."""

_OBJECTS = ("root.", "object ")
"""How places in the metadata of SavedModels begin."""
_METRICS = frozenset(
    {
        "AUC", "Accuracy", "BinaryAccuracy", "BinaryCrossentropy", "BinaryIoU", "CategoricalAccuracy",
        "CategoricalCrossentropy", "CategoricalHinge", "ConcordanceCorrelation", "CosineSimilarity", "F1Score",
        "FBetaScore", "FalseNegatives", "FalsePositives", "Hinge", "IoU", "KLDivergence", "LogCoshError", "Mean",
        "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanIoU", "MeanMetricWrapper", "MeanRelativeError",
        "MeanSquaredError", "MeanSquaredLogarithmicError", "MeanTensor", "OneHotIoU", "OneHotMeanIoU",
        "PearsonCorrelation", "Poisson", "Precision", "PrecisionAtRecall", "R2Score", "Recall", "RecallAtPrecision",
        "RootMeanSquaredError", "SensitivityAtSpecificity", "SparseCategoricalAccuracy",
        "SparseCategoricalCrossentropy", "SparseTopKCategoricalAccuracy", "SpecificityAtSensitivity", "SquaredHinge",
        "Sum", "TopKCategoricalAccuracy", "TrueNegatives", "TruePositives",
    }
)  # fmt: skip
"""The metrics of Keras, which SavedModels keep beside the layers."""


def class_findings(layers: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Layers whose class Keras does not have, and layers that hold or load other models. Nothing is imported.

    Args:
        layers: Where each stands, and its config as JSON.
    """
    for where, text in layers:
        try:
            found = json.loads(text) if text else None
        except (ValueError, RecursionError):
            continue
        for one in _layers(found):
            yield from _of_layer(one, where)


def _layers(found: Any) -> Iterator[Mapping[str, Any]]:
    """The configs of all layers, however deep, and the model's own."""
    waiting: list[tuple[Any, bool]] = [(found, True)]
    while waiting:
        one, is_layer = waiting.pop()
        if isinstance(one, list):
            waiting += [(inner, is_layer) for inner in one]
        elif isinstance(one, dict):
            if is_layer and isinstance(one.get("class_name"), str):
                yield one
            waiting += [(value, key in ("layers", "layer", "cell")) for key, value in one.items()]


def _of_layer(one: Mapping[str, Any], where: str) -> Iterator[Finding]:
    kind, inside = str(one["class_name"]), one.get("config")
    name = inside.get("name") if isinstance(inside, dict) else None
    label = f"layer {_shown(str(name or one.get('name', '')))!r}"
    module, registered = one.get("module"), one.get("registered_name")
    plain = kind.rpartition(">")[2]
    if plain in _RUNS:
        level, what = _RUNS[plain]
        yield Finding("keras-code", level, f"{label} ({plain}) {what}", plain, where, when="at load")
        return
    root = module.partition(".")[0] if isinstance(module, str) else ""
    is_registered = ">" in kind or (isinstance(registered, str) and ">" in registered)
    if root in _OWN and not is_registered:
        return
    if plain == "Lambda" or (root and root not in _OWN):
        return  # code in a Lambda, and what Keras imports by name, are other findings
    if plain in _METRICS and where.startswith(_OBJECTS) and "trainable" not in one and not is_registered:
        return  # a metric beside the layers of a SavedModel, which all say whether they are trainable
    if plain not in _LAYERS or (is_registered and root not in _OWN):
        custom = registered if isinstance(registered, str) and ">" in registered else kind
        what = f"{label} is of the user's own class {_shown(custom)!r}"
        yield Finding("keras-class", "note", what, _shown(plain), where, when="at load")
