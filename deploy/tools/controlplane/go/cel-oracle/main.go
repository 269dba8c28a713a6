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
	"sort"

	"k8s.io/dynamic-resource-allocation/cel"

	resourceapi "k8s.io/api/resource/v1"
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

// declaration is one signature of a function, or a macro, whose arguments have no types.
type declaration struct {
	Name      string   `json:"name"`
	Member    bool     `json:"member"`
	Arguments []string `json:"arguments"`
	Result    string   `json:"result,omitempty"`
	Macro     bool     `json:"macro"`
}

func main() {
	showVersion := flag.Bool("version", false, "print the version of the package and exit")
	list := flag.Bool("declarations", false, "print all functions and macros, one JSON document a line, and exit")
	flag.Parse()
	run := serve
	switch {
	case *showVersion:
		fmt.Println("dynamic-resource-allocation", version)
		return
	case *list:
		run = declarations
	}
	if err := run(); err != nil {
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

// compile uses the scheduler's options and default feature gates.
func compile(expression string) cel.CompilationResult {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	return compiler.CompileCELExpression(expression, cel.Options{DisableCostEstimation: true})
}

// answer evaluates one expression for one device.
func answer(asked request) (answered response) {
	defer func() {
		if reason := recover(); reason != nil {
			answered = response{Error: fmt.Sprintf("panic: %v", reason)}
		}
	}()
	compiled := compile(asked.Expression)
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

// declarations writes what an expression can call.
func declarations() error {
	environment := compile("true").Environment
	var all []declaration
	for _, function := range environment.Functions() {
		for _, overload := range function.OverloadDecls() {
			one := declaration{
				Name:   function.Name(),
				Member: overload.IsMemberFunction(),
				Result: overload.ResultType().String(),
			}
			for _, argument := range overload.ArgTypes() {
				one.Arguments = append(one.Arguments, argument.String())
			}
			all = append(all, one)
		}
	}
	for _, macro := range environment.Macros() {
		all = append(all, declaration{
			Name:      macro.Function(),
			Member:    macro.IsReceiverStyle(),
			Arguments: make([]string, macro.ArgCount()),
			Macro:     true,
		})
	}
	lines := make([]string, 0, len(all))
	for _, one := range all {
		line, err := json.Marshal(one)
		if err != nil {
			return err
		}
		lines = append(lines, string(line))
	}
	sort.Strings(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	return nil
}
