package main

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// request is one cluster.
type request struct {
	// ID comes back with the answer.
	ID json.RawMessage `json:"id"`
	// Objects as an API server returns them: defaulted and admitted.
	Objects []json.RawMessage `json:"objects"`
	// Config is a KubeSchedulerConfiguration; nil for the default one.
	Config json.RawMessage `json:"config"`
	// Settle goes on: terminating pods disappear, waiting pods are tried again, until nothing
	// changes.
	Settle bool `json:"settle"`
	// Follow names, by pod, the node to take in each reported attempt. It is heeded only where the
	// node is one of several that are equally good.
	Follow map[string][]string `json:"follow"`
	// Hypotheses about the first pending pod are answered where there are any, and no attempt is made.
	Hypotheses []hypothesis `json:"hypotheses"`
}

// response is what kube-scheduler makes of a cluster.
type response struct {
	ID json.RawMessage `json:"id,omitempty"`
	// Results of all attempts, in the order in which they were made; gated pods last.
	Results []*result `json:"results"`
	// Final places by pod, when settled; empty for a pod that has none.
	Final map[string]string `json:"final,omitempty"`
	// Verdicts on the hypotheses, in their order.
	Verdicts []*nodeResult `json:"verdicts,omitempty"`
	// Error says why there is no answer.
	Error string `json:"error,omitempty"`
}

// result is one attempt, in the shape of `plan --explain`, and what it leaves to choice.
type result struct {
	Pod           string   `json:"pod"`
	Decision      string   `json:"decision"`
	Node          string   `json:"node"`
	Victims       []string `json:"victims"`
	PDBViolations int64    `json:"pdbViolations"`
	Message       string   `json:"message"`
	// Rejectors are the plugins whose events can wake the pod, in name order.
	Rejectors []string `json:"rejectors"`
	// Nodes that were looked at, in name order.
	Nodes []*nodeResult `json:"nodes"`
	// Best are the nodes of the highest score: any of them may be taken.
	Best []string `json:"best"`
	// Candidates of the preemption, in name order.
	Candidates []*candidateResult `json:"candidates"`
	// BestCandidates are equally good by all criteria: any of them may be taken.
	BestCandidates []string `json:"bestCandidates"`
	// Errors of all nodes, when the filters of one have failed: any of them may be the message.
	Errors []string `json:"errors"`
	// Claims has the state of every resource claim after the attempt, by namespace and name.
	Claims map[string]*claimResult `json:"claims"`
	// Mappings say which container uses which request of the claim for extended resources.
	Mappings []corev1.ContainerExtendedResourceRequest `json:"mappings"`
}

// The decisions.
const (
	scheduled     = "Scheduled"
	preempting    = "Preempting"
	unschedulable = "Unschedulable"
	gated         = "Gated"
	failed        = "Error"
)

// nodeResult is what was found on one node.
type nodeResult struct {
	Name string `json:"name"`
	// Plugin that rejects it, empty when the pod fits or the framework itself rejects it.
	Plugin string `json:"plugin"`
	// Reasons of the rejection; none when the pod fits.
	Reasons []string `json:"reasons"`
	// Code of the status: Success, Unschedulable, UnschedulableAndUnresolvable.
	Code string `json:"code"`
	// Scores by plugin, normalised and weighted; nil when it was not scored.
	Scores map[string]int64 `json:"scores"`
	Total  int64            `json:"total"`
}

// candidateResult is a node on which evicting the victims makes room.
type candidateResult struct {
	Node          string   `json:"node"`
	Victims       []string `json:"victims"`
	PDBViolations int64    `json:"pdbViolations"`
}
