// Package tensorflow runs TensorFlow models through TensorFlow's C API. It has what the consumer needs and no more: it
// loads libraries of ops, a frozen graph or a SavedModel, feeds tensors of float64, and fetches one.
package tensorflow

/*
#cgo LDFLAGS: -ltensorflow -ltensorflow_framework
#include <stdlib.h>
#include <tensorflow/c/c_api.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

// Tensor is an array of float64, row by row.
type Tensor struct {
	Shape  []int64
	Values []float64
}

// Model is a loaded graph with a session that runs it. Close it after use.
type Model struct {
	graph   *C.TF_Graph
	session *C.TF_Session
}

// Version is the version of the TensorFlow library.
func Version() string {
	return C.GoString(C.TF_Version())
}

// LoadLibrary loads a library with ops, which models that are loaded after it may have. It stays loaded.
func LoadLibrary(path string) error {
	status := C.TF_NewStatus()
	defer C.TF_DeleteStatus(status)
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	library := C.TF_LoadLibrary(name, status)
	if err := check(status); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	C.TF_DeleteLibraryHandle(library)
	return nil
}

// LoadFrozenGraph loads a GraphDef whose variables are constants.
func LoadFrozenGraph(path string) (*Model, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	status := C.TF_NewStatus()
	defer C.TF_DeleteStatus(status)
	data := C.CBytes(content)
	defer C.free(data)
	buffer := C.TF_NewBuffer()
	defer C.TF_DeleteBuffer(buffer)
	buffer.data = data
	buffer.length = C.size_t(len(content))

	options := C.TF_NewImportGraphDefOptions()
	defer C.TF_DeleteImportGraphDefOptions(options)
	graph := C.TF_NewGraph()
	C.TF_GraphImportGraphDef(graph, buffer, options, status)
	if err := check(status); err != nil {
		C.TF_DeleteGraph(graph)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	settings := C.TF_NewSessionOptions()
	defer C.TF_DeleteSessionOptions(settings)
	session := C.TF_NewSession(graph, settings, status)
	if err := check(status); err != nil {
		C.TF_DeleteGraph(graph)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Model{graph, session}, nil
}

// LoadSavedModel loads the graph of a SavedModel that has exactly this tag, and restores its variables.
func LoadSavedModel(folder, tag string) (*Model, error) {
	status := C.TF_NewStatus()
	defer C.TF_DeleteStatus(status)
	settings := C.TF_NewSessionOptions()
	defer C.TF_DeleteSessionOptions(settings)
	name, label := C.CString(folder), C.CString(tag)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(label))

	graph := C.TF_NewGraph()
	session := C.TF_LoadSessionFromSavedModel(settings, nil, name, &label, 1, graph, nil, status)
	if err := check(status); err != nil {
		C.TF_DeleteGraph(graph)
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return &Model{graph, session}, nil
}

// Close lets go of the session and the graph.
func (m *Model) Close() error {
	status := C.TF_NewStatus()
	defer C.TF_DeleteStatus(status)
	C.TF_CloseSession(m.session, status)
	err := check(status)
	C.TF_DeleteSession(m.session, status)
	C.TF_DeleteGraph(m.graph)
	m.session, m.graph = nil, nil
	return err
}

// Run feeds tensors by their names ("inputs/x_sample:0") and gives the tensor of another name.
func (m *Model) Run(feeds map[string]Tensor, fetch string) (Tensor, error) {
	var ports []C.TF_Output
	var values []*C.TF_Tensor
	defer func() {
		for _, value := range values {
			C.TF_DeleteTensor(value)
		}
	}()
	for name, tensor := range feeds {
		port, err := m.find(name)
		if err != nil {
			return Tensor{}, err
		}
		value, err := toC(tensor)
		if err != nil {
			return Tensor{}, fmt.Errorf("%s: %w", name, err)
		}
		ports, values = append(ports, port), append(values, value)
	}
	wanted, err := m.find(fetch)
	if err != nil {
		return Tensor{}, err
	}
	status := C.TF_NewStatus()
	defer C.TF_DeleteStatus(status)
	var result *C.TF_Tensor
	C.TF_SessionRun(m.session, nil, unsafe.SliceData(ports), unsafe.SliceData(values), C.int(len(ports)),
		&wanted, &result, 1, nil, 0, nil, status)
	if err := check(status); err != nil {
		return Tensor{}, err
	}
	defer C.TF_DeleteTensor(result)
	return fromC(result)
}

// find looks up a tensor by its name, "node:0" or "node".
func (m *Model) find(tensor string) (C.TF_Output, error) {
	node, port, found := strings.Cut(tensor, ":")
	index := 0
	if found {
		number, err := strconv.Atoi(port)
		if err != nil {
			return C.TF_Output{}, fmt.Errorf("%q is not the name of a tensor", tensor)
		}
		index = number
	}
	name := C.CString(node)
	defer C.free(unsafe.Pointer(name))
	operation := C.TF_GraphOperationByName(m.graph, name)
	if operation == nil {
		return C.TF_Output{}, fmt.Errorf("there is no node %q in the graph", node)
	}
	if index < 0 || index >= int(C.TF_OperationNumOutputs(operation)) {
		return C.TF_Output{}, fmt.Errorf("node %q has no output %d", node, index)
	}
	return C.TF_Output{oper: operation, index: C.int(index)}, nil
}

// toC copies a tensor into TensorFlow's memory.
func toC(tensor Tensor) (*C.TF_Tensor, error) {
	count := int64(1)
	for _, size := range tensor.Shape {
		count *= size
	}
	if count != int64(len(tensor.Values)) {
		return nil, fmt.Errorf("%d values do not have the shape %v", len(tensor.Values), tensor.Shape)
	}
	shape := (*C.int64_t)(unsafe.SliceData(tensor.Shape))
	made := C.TF_AllocateTensor(C.TF_DOUBLE, shape, C.int(len(tensor.Shape)), C.size_t(count*8))
	runtime.KeepAlive(tensor.Shape)
	if made == nil {
		return nil, errors.New("TensorFlow has no memory for the tensor")
	}
	copy(unsafe.Slice((*float64)(C.TF_TensorData(made)), count), tensor.Values)
	return made, nil
}

// fromC copies a tensor out of TensorFlow's memory.
func fromC(tensor *C.TF_Tensor) (Tensor, error) {
	if C.TF_TensorType(tensor) != C.TF_DOUBLE {
		return Tensor{}, fmt.Errorf("the answer is of type %d, not of float64", C.TF_TensorType(tensor))
	}
	shape := make([]int64, int(C.TF_NumDims(tensor)))
	for axis := range shape {
		shape[axis] = int64(C.TF_Dim(tensor, C.int(axis)))
	}
	values := make([]float64, int(C.TF_TensorElementCount(tensor)))
	copy(values, unsafe.Slice((*float64)(C.TF_TensorData(tensor)), len(values)))
	return Tensor{shape, values}, nil
}

// check turns a status of TensorFlow into an error, nil if all is well.
func check(status *C.TF_Status) error {
	if C.TF_GetCode(status) == C.TF_OK {
		return nil
	}
	return errors.New(C.GoString(C.TF_Message(status)))
}
