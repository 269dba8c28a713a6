// Command cel-oracle says what a device selector gives, with Kubernetes' own package of the expression language.
//
// Standard input carries one JSON document a line, each an expression and a device; standard output
// carries one line of answer for each, in the same order. See request and response for the fields.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// version is the version of the package; set at link time.
var version = "v0.0.0"

// longestLine bounds one request, in bytes.
const longestLine = 1 << 20

// request is one evaluation.
type request struct {
	Expression               string                                                    `json:"expression"`
	Driver                   string                                                    `json:"driver"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
}

// response is the value, or why there is none.
type response struct {
	Value   bool   `json:"value"`
	Cost    uint64 `json:"cost"`
	Invalid string `json:"invalid,omitempty"`
	Error   string `json:"error,omitempty"`
}

func main() {
	showVersion := flag.Bool("version", false, "print the version of the package and exit")
	flag.Parse()
	if *showVersion {
		fmt.Println("dynamic-resource-allocation", version)
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "cel-oracle:", err)
		os.Exit(1)
	}
}

func serve() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), longestLine)
	answers := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		line, err := json.Marshal(answer(asked))
		if err != nil {
			return err
		}
		if _, err := answers.Write(append(line, '\n')); err != nil {
			return err
		}
		if err := answers.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}

// answer evaluates one expression for one device, with the scheduler's options and default feature gates.
func answer(asked request) (answered response) {
	defer func() {
		if reason := recover(); reason != nil {
			answered = response{Error: fmt.Sprintf("panic: %v", reason)}
		}
	}()
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	compiled := compiler.CompileCELExpression(asked.Expression, cel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return response{Invalid: compiled.Error.Error()}
	}
	value, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
		Driver:                   asked.Driver,
		Attributes:               asked.Attributes,
		Capacity:                 asked.Capacity,
		AllowMultipleAllocations: asked.AllowMultipleAllocations,
	})
	if details != nil && details.ActualCost() != nil {
		answered.Cost = *details.ActualCost()
	}
	if err != nil {
		answered.Error = err.Error()
		return answered
	}
	answered.Value = value
	return answered
}
