// Command scheduler-oracle says what kube-scheduler decides for clusters that exist only in memory.
//
// It is made of kube-scheduler's own packages: scheduler.New builds the real queue, cache, event
// handlers and plugins, and Scheduler.ScheduleOne makes each decision. Here are only the
// surroundings: informers that are filled by hand, a client that collects API calls, and wrappers
// that write down what passes by. No rule is written again.
//
// Standard input carries one JSON document a line, each a whole cluster; standard output carries
// one line of answer for each, in the same order. See request and response for the fields.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// longestLine bounds one cluster, in bytes.
const longestLine = 64 << 20

func main() {
	showVersion := flag.Bool("version", false, "print the version of kube-scheduler and exit")
	flag.Parse()
	if *showVersion {
		fmt.Println("Kubernetes", version.Get().GitVersion)
		return
	}
	if err := prepare(); err != nil {
		fail(err)
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "scheduler-oracle:", err)
	os.Exit(1)
}

// prepare sets what the whole process has in common.
func prepare() error {
	// What goes wrong is part of the answer; nothing of it is logged, and nothing waits for a log.
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil
	// A placement that is copied from the previous pod shows neither filters nor scores.
	gates := map[string]bool{string(features.OpportunisticBatching): false}
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(gates)
}

func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	answers := bufio.NewWriter(out)
	for lines.Scan() {
		line, err := json.Marshal(answer(lines.Bytes()))
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

// answer decides one cluster; whatever goes wrong becomes the error of its answer.
func answer(line []byte) (reply *response) {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return &response{Error: "request: " + err.Error()}
	}
	defer func() {
		if cause := recover(); cause != nil {
			text := fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())
			reply = &response{ID: asked.ID, Error: text}
		}
	}()
	reply, err := decide(&asked)
	if err != nil {
		return &response{ID: asked.ID, Error: err.Error()}
	}
	return reply
}
