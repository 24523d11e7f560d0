// The Go consumer loads the trained model, from a frozen graph (a file) or a SavedModel (a folder), and calculates with
// it. For a model with ops of its own, further arguments are the libraries that have them.
package main

import (
	"fmt"
	"os"

	"linear_regression/go_consumer/tensorflow"
)

func main() {
	path := "frozen_graphs/frozen_graph.pb"
	var libraries []string
	if len(os.Args) > 1 {
		path, libraries = os.Args[1], os.Args[2:]
	}
	if err := consume(path, libraries); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func consume(path string, libraries []string) error {
	for _, library := range libraries {
		if err := tensorflow.LoadLibrary(library); err != nil {
			return err
		}
	}
	model, err := load(path)
	if err != nil {
		return err
	}
	defer model.Close()
	x := tensorflow.Tensor{Shape: []int64{4, 1}, Values: []float64{0, 1, -1, 2}}
	y, err := model.Run(map[string]tensorflow.Tensor{"inputs/x_sample:0": x}, "linear_regression/add:0")
	if err != nil {
		return err
	}
	fmt.Println("The calculation results :", y.Values)
	return nil
}

func load(path string) (*tensorflow.Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return tensorflow.LoadSavedModel(path, "serve")
	}
	return tensorflow.LoadFrozenGraph(path)
}
