"""What an op can do besides computing: keep state, touch files or the network, run code, call functions, draw numbers.

`traits` classifies every op of the op database. A name in a table stands for all versions of the op (`SaveV2` is
`Save`), and a star for any letters. What definitions say themselves, such as functions in attributes, is derived from
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntFlag, auto
from fnmatch import fnmatchcase
from functools import cache
from types import MappingProxyType

from tfsmith.ir.node import Attr
from tfsmith.ir.opdef import OpDef, OpLookup, builtin_op
from tfsmith.ops import CALLS, CONTROL_FLOW, HANDLE_FACTS, HANDLE_READS, PASSES_ON

__all__ = ["Trait", "is_random", "leaves_no_trace", "node_types", "traits"]

_ANY_TYPES = frozenset(CALLS) | {"Assert", "IdentityN"}
"""Ops with lists of tensors that they only hand on: of which types they are does not matter."""


class Trait(IntFlag):
    """What an op is or can do."""

    INPUT = auto()
    """Is fed from outside."""
    CONSTANT = auto()
    """Holds a value in its attributes."""
    VARIABLE = auto()
    """Makes, reads, writes or asks for a variable."""
    TABLE = auto()
    """Makes, fills or reads a lookup table."""
    STATE = auto()
    """Keeps or reads other state: queues, iterators, TensorArrays, accumulators, locks."""
    CALL = auto()
    """Calls functions that an attribute names."""
    CONTROL_FLOW = auto()
    """Is part of a loop or condition of TensorFlow 1."""
    PASSES_ON = auto()
    """Gives its first input as its first output."""
    COMMUTES = auto()
    """Its first two inputs may change places."""
    RANDOM = auto()
    """Draws random numbers."""
    TRAINING = auto()
    """Only has a use in training."""
    SAVER = auto()
    """Saves or restores checkpoints."""
    DATASET = auto()
    """Is part of an input pipeline of tf.data."""
    CHECKS = auto()
    """Stops the run if a condition does not hold."""
    READS_FILES = auto()
    WRITES_FILES = auto()
    LISTS_FILES = auto()
    """Tells which files there are."""
    NETWORK = auto()
    """Talks to other processes or machines."""
    RUNS_CODE = auto()
    """Runs code that is no op: Python, compiled kernels found by name."""
    GRAPH_INSIDE = auto()
    """Carries a whole program as data, and runs it."""
    PROCESS = auto()
    """Ends, delays or configures the process."""
    HOST = auto()
    """Depends on the machine, the clock or the build."""
    DEVICE = auto()
    """Belongs to the inside of an accelerator or of distributed execution."""
    PRINTS = auto()
    """Prints or logs."""
    SUMMARY = auto()
    """Makes or writes summaries for TensorBoard."""
    DEBUG = auto()
    """Copies tensors for a debugger."""
    TEST = auto()
    """Exists for TensorFlow's own tests."""


_READERS = "TextLineReader TFRecordReader FixedLengthRecordReader WholeFileReader LMDBReader ReaderRead ReaderReadUpTo"
_WRITERS = (
    "WriteSummary WriteScalarSummary WriteHistogramSummary WriteImageSummary WriteAudioSummary WriteGraphSummary "
    "WriteRawProtoSummary ImportEvent CreateSummaryFileWriter CreateSummaryDbWriter FlushSummaryWriter"
)
_DEBUG = "DebugIdentity DebugNanCount DebugNumericSummary"
_TABLE: Mapping[Trait, str] = MappingProxyType(
    {
        Trait.INPUT: "Placeholder PlaceholderWithDefault _Arg _DeviceArg FakeParam",
        Trait.CONSTANT: "Const HostConst _EagerConst ImmutableConst",
        Trait.VARIABLE: (
            "Variable VarHandleOp _VarHandlesOp _XlaAotOnlyVarHandleOp AutoReloadVariable TemporaryVariable "
            "DestroyTemporaryVariable ReadVariableOp _ReadVariablesOp ReadVariableXlaSplitND AssignVariableXlaConcatND "
            "ResourceGather ResourceGatherNd VariableShape VarIsInitializedOp IsVariableInitialized Assign AssignAdd "
            "AssignSub AssignVariableOp AssignAddVariableOp AssignSubVariableOp DisableCopyOnRead CountUpTo "
            "ResourceCountUpTo ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterSub ScatterUpdate "
            "ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdUpdate ResourceScatter* StridedSliceAssign "
            "ResourceStridedSliceAssign TPUReshardVariables TPUExecuteAndUpdateVariables"
        ),
        Trait.TABLE: "HashTable MutableHashTable* MutableDenseHashTable AnonymousHashTable AnonymousMutable* "
        "InitializeTable* LookupTable*",
        Trait.STATE: (
            "Queue* *Queue Stack StackPush StackPop StackClose Stage StageClear StagePeek StageSize Unstage MapStage "
            "MapUnstage MapUnstageNoKey MapPeek MapSize MapIncompleteSize MapClear OrderedMap* Barrier* TensorArray* "
            "Iterator* AnonymousIterator OneShotIterator MakeIterator DeleteIterator SerializeIterator "
            "DeserializeIterator MultiDeviceIterator* AnonymousMultiDeviceIterator DeleteMultiDeviceIterator "
            "MutexLock Mutex ConsumeMutexLock *Accumulator Accumulator* ResourceAccumulator* SparseAccumulator* "
            "Reader* TextLineReader TFRecordReader FixedLengthRecordReader WholeFileReader LMDBReader IdentityReader "
            "RecordInput AnonymousMemoryCache DeleteMemoryCache DummyMemoryCache AnonymousSeedGenerator "
            "AnonymousRandomSeedGenerator DeleteSeedGenerator DeleteRandomSeedGenerator DummySeedGenerator "
            "DummyIterationCounter GetSessionHandle GetSessionTensor DeleteSessionTensor AddSparseToTensorsMap "
            "AddManySparseToTensorsMap TakeManySparseFromTensorsMap BoostedTrees* IsBoostedTrees* "
            "DestroyResourceOp MakeWeakResourceHandle IsResourceHandleRefCounting DeepCopy InplaceAdd InplaceSub "
            "InplaceUpdate _ParallelConcatStart _ParallelConcatUpdate SummaryWriter CloseSummaryWriter "
            "StatsAggregator* ExperimentalStatsAggregator* ThreadPoolHandle ExperimentalThreadPoolHandle _Retval "
            "ExperimentalIteratorGetDevice Batch Unbatch UnbatchGrad RngReadAndSkip RngSkip LegacyParallel* RefSelect"
        ),
        Trait.CALL: "RemoteCall _If _While XlaHostCompute",
        Trait.CONTROL_FLOW: " ".join(sorted(CONTROL_FLOW)),
        Trait.PASSES_ON: " ".join(sorted(PASSES_ON)) + " RefIdentity CheckNumerics EnsureShape",
        Trait.RANDOM: (
            "Random* Stateless* StatefulRandomBinomial StatefulStandardNormal StatefulTruncatedNormal StatefulUniform "
            "StatefulUniformFullInt StatefulUniformInt TruncatedNormal ParameterizedTruncatedNormal Multinomial "
            "NonDeterministicInts SampleDistortedBoundingBox *CandidateSampler ShuffleDataset ShuffleAndRepeatDataset "
            "GlobalShuffleDataset ExperimentalRandomDataset SamplingDataset RngReadAndSkip RngSkip SobolSample "
            "KmeansPlusPlusInitialization KMC2ChainInitialization FractionalAvgPool FractionalMaxPool CudnnRNN "
            "CudnnRNNBackprop XlaRngBitGenerator RiscRandomUniform StochasticCastToInt ExtractGlimpse Skipgram"
        ),
        Trait.TRAINING: (
            "Apply* SparseApply* ResourceApply* ResourceSparseApply* Sdca* NegTrain Skipgram *Accumulator "
            "Accumulator* ResourceAccumulator* SparseAccumulator* BoostedTrees* *Grad *Gradient *Backprop "
            "*BackpropInput *BackpropFilter *GradGrad *CandidateSampler ComputeAccidentalHits InTopK CTCLoss "
            "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits BroadcastGradientArgs IgammaGradA"
        ),
        Trait.SAVER: "Save SaveSlices Restore RestoreSlice MergeV2Checkpoints ShardedFilename ShardedFilespec "
        "DTensorRestore DistributedSave",
        Trait.DATASET: "*Dataset Dataset* DataServiceDataset Experimental* Optional* *Iterator Iterator* "
        "InitializeTableFromDataset StatsAggregator* GetElementAtIndex CompressElement UncompressElement GetOptions "
        "WrapDatasetVariant UnwrapDatasetVariant SnapshotDatasetReader SnapshotNestedDatasetReader",
        Trait.CHECKS: "Assert CheckNumerics EnsureShape CheckPinned AssertNextDataset AssertPrevDataset "
        "ExperimentalAssertNextDataset AssertCardinalityDataset TPUCompileSucceededAssert",
        Trait.READS_FILES: (
            f"{_READERS} ReadFile RecordInput TextLineDataset TFRecordDataset FixedLengthRecordDataset CSVDataset "
            "ExperimentalCSVDataset LMDBDataset ExperimentalLMDBDataset SqlDataset ExperimentalSqlDataset LoadDataset "
            "SnapshotDataset SnapshotDatasetReader SnapshotNestedDatasetReader SnapshotChunkDataset "
            "InitializeTableFromTextFile Restore RestoreSlice DTensorRestore MergeV2Checkpoints LoadAndRemapMatrix "
            "GenerateVocabRemapping ImmutableConst FixedUnigramCandidateSampler CacheDataset Skipgram"
        ),
        Trait.WRITES_FILES: (
            f"{_WRITERS} {_DEBUG} WriteFile SaveDataset DatasetToTFRecord ExperimentalDatasetToTFRecord Save "
            "SaveSlices MergeV2Checkpoints DistributedSave SnapshotDataset CacheDataset DumpTensor "
            "CalibrationStatisticsSaver Copy CopyHost"
        ),
        Trait.LISTS_FILES: "MatchingFiles MatchingFilesDataset ExperimentalMatchingFilesDataset "
        "ListSnapshotChunksDataset RecordInput",
        Trait.NETWORK: (
            f"{_DEBUG} Rpc* DeleteRpcFutureResource RemoteCall DataServiceDataset RegisterDataset DistributedSave "
            "Collective* Send Recv _Send _Recv _HostSend _HostRecv WorkerHeartbeat Copy CopyHost "
            "ConfigureDistributedTPU _ConfigureDistributedTPU ConnectTPUEmbeddingHosts "
            "_InitializeHostForDistributedTPU _WaitForDistributedTPU"
        ),
        Trait.RUNS_CODE: "PyFunc EagerPyFunc PyFuncStateless XlaCustomCall XlaHostCompute _XlaHostComputeMlir",
        Trait.GRAPH_INSIDE: "DatasetFromGraph XlaCallModule MlirPassthroughOp _TPUCompileMlir _XlaHostComputeMlir "
        "RewriteDataset",
        Trait.PROCESS: "Abort SleepOp SleepIdentityOp SleepDataset ExperimentalSleepDataset WorkerHeartbeat "
        "FileSystemSetConfiguration ShutdownDistributedTPU _ShutdownDistributedTPU ShutdownTPUSystem",
        Trait.HOST: "Timestamp GraphDefVersion DeviceIndex IsTensorFloat32Enabled GetDeadline Empty "
        "StatelessRandomGetAlg StatelessRandomGetKeyCounterAlg",
        Trait.DEVICE: (
            "TPU* _TPU* *TPU *TPUArray Xla* _Xla* Nccl* _Nccl* Collective* *TPUEmbedding* _HostSend _HostRecv Send "
            "Recv _Send _Recv Infeed* Outfeed* Prelinearize* _ScopedAllocator* DTensor* Relayout* "
            "CopyToMesh* CrossReplicaSum AllToAll CudnnRNN CudnnRNNBackprop _DeviceArg _DeviceRetval GlobalIterId "
            "ShutdownTPUSystem UpdateTaskIdAndGlobalCoreArray GetTpuTaskId TpuHandleToProtoKey SyncDevice "
            "ConvertToCooTensor ConvertToListOfSparseCoreCooTensors ConvertToSparseCoreCsrWrappedCooTensor "
            "ComputeDedupData* GetMinibatch* StoreMinibatchStatisticsInFdo DynamicEnqueue* Enqueue* "
            "_DisconnectHostFromDistributedTPUSystem _WaitForDistributedTPU SplitDedupData MergeDedupData "
            "GetStatsFromListOfSparseCoreCooTensors SortListOfSparseCoreCooTensors CollateTPUEmbeddingMemory "
            "ConfigureAndInitializeGlobalTPU RemoteCall"
        ),
        Trait.PRINTS: "Print",
        Trait.SUMMARY: f"{_WRITERS} ScalarSummary HistogramSummary ImageSummary AudioSummary TensorSummary "
        "MergeSummary SummaryWriter CloseSummaryWriter StatsAggregatorSummary ExperimentalStatsAggregatorSummary "
        "StatsAggregatorSetSummaryWriter",
        Trait.DEBUG: f"{_DEBUG} DebugGradientIdentity DebugGradientRefIdentity Copy CopyHost DumpTensor",
        Trait.TEST: (
            "A B Attr Attr* Binary Unary ComplexStruct MixedStruct SimpleStruct ConstructionFails CopyOp "
            "DefaultAttrs DevicePlacementOp DtypeWithDefaultOp FiveFloatOutputs Float* Foo1 Foo2 Foo3 FuncAttr "
            "FuncListAttr GraphDefVersion InPolymorphicTwice Int64Output IntAttr IntInput* IntOutput* KernelLabel "
            "KernelLabelRequired ListInput ListOutput NInPolymorphicTwice NInTwice NInTwoTypeVariables NIntsIn "
            "NIntsOut NIntsOutDefault NPolymorphic* Namespace>TestStringOutput None Old OpWithDefaultAttr "
            "OpWithFutureDefaultAttr OutT OutTypeList OutTypeListRestrict Polymorphic* RefIn RefInput* RefOut "
            "RefOutput* RequiresOlderGraphVersion ReservedAttr ReservedInput ResourceCreateOp ResourceInitializedOp "
            "ResourceUsingOp Restrict Simple StringListAttr StubResourceHandleOp TestAttr TestStringOutput TwoFloat* "
            "TwoInt* TwoRefsIn TypeList TypeListRestrict TypeListTwice Fact"
        ),
    }
)
_NOT: Mapping[str, Trait] = MappingProxyType(
    {
        "RandomGammaGrad": Trait.RANDOM,
        "RandomShuffleQueue": Trait.RANDOM,
        "StatelessCase": Trait.RANDOM,
        "StatelessIf": Trait.RANDOM,
        "StatelessWhile": Trait.RANDOM,
        "StatelessRandomGetAlg": Trait.RANDOM,
        "StatelessRandomGetKeyCounter": Trait.RANDOM,
        "StatelessRandomGetKeyCounterAlg": Trait.RANDOM,
        "PreventGradient": Trait.TRAINING,
        "StopGradient": Trait.TRAINING,
    }
)
"""Where the name of an op begins or ends like a family to which it does not belong."""
_VERSION = re.compile(r"(?<=\w)V\d$")


@cache
def _tables() -> tuple[dict[str, Trait], dict[str, Trait]]:
    """The traits by whole names, and by names with stars; made on first use."""
    whole: dict[str, Trait] = {}
    globs: dict[str, Trait] = {}
    for trait, text in _TABLE.items():
        for name in text.split():
            table = globs if "*" in name else whole
            table[name] = table.get(name, Trait(0)) | trait
    return whole, globs


@cache
def _declared(op: str) -> Trait:
    whole, globs = _tables()
    base = _VERSION.sub("", op)
    found = whole.get(op, Trait(0)) | whole.get(base, Trait(0))
    for glob, trait in globs.items():
        if fnmatchcase(base, glob):
            found |= trait
    return found & ~_NOT.get(base, Trait(0))


def traits(op: str, op_def: OpLookup = builtin_op) -> Trait | None:
    """What an op is and can do; None for an op that has no definition, of which nobody knows it.

    Args:
        op: The op's name.
        op_def: Finds the definitions of ops.
    """
    definition = op_def(op)
    return None if definition is None else _declared(op) | _derived(definition)


def _derived(definition: OpDef) -> Trait:
    found = Trait(0)
    if any("func" in attr.kind for attr in definition.attrs):
        found |= Trait.CALL
    if definition.is_commutative:
        found |= Trait.COMMUTES
    return found


def is_random(op: str) -> bool:
    """Whether an op draws random numbers that change its results, seeded or not."""
    return bool(_declared(op) & Trait.RANDOM)


def leaves_no_trace(op: str) -> bool:
    """Whether nobody notices if a node of this op does not run, though its definition calls it stateful."""
    return op in HANDLE_READS or op in HANDLE_FACTS or _declared(op) == Trait.RANDOM


def node_types(op: str, attrs: Mapping[str, Attr]) -> str | None:
    """The types of a node as text, such as "T=float32 Tidx=int32"; None where the op is none of TensorFlow's own."""
    definition = builtin_op(op)
    if definition is None:
        return None
    whole = definition.with_defaults(attrs)
    types: list[str] = []
    for declared in definition.attrs:
        found = whole.get(declared.name)
        if found is not None and declared.kind == "type":
            types.append(f"{declared.name}={found.dtype}")
        elif found is not None and declared.kind == "list(type)" and op not in _ANY_TYPES:
            types.append(f"{declared.name}={','.join(map(str, dict.fromkeys(found.dtypes)))}")
    return " ".join(types)
