package main

import (
	"context"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// observation is what passed by during one attempt.
type observation struct {
	pod *corev1.Pod
	// follow is the node to take where several are equally good; may be empty.
	follow string
	// statuses of the nodes that were filtered, the last one of each.
	statuses map[string]*fwk.Status
	scores   []fwk.NodePluginScores
	// fit is the verdict on all nodes when none is feasible.
	fit *framework.FitError
	// rejectors are the plugins that rejected the pod when no node is feasible, in name order.
	rejectors []string
	// errors of all nodes, when the filters of one have failed.
	errors []string
	// node that was chosen.
	node string
	// failure is set when the attempt did not end with a binding.
	failure *fwk.Status
	// nominated is the node that preemption makes room on.
	nominated string
	// candidates of the preemption by node.
	candidates map[string]*extenderv1.Victims
	// bestCandidates of the preemption, when there are several candidates.
	bestCandidates []string
}

// best returns the names of the nodes with the highest score, sorted.
func (o *observation) best() []string {
	var names []string
	for _, each := range o.scores {
		if len(names) > 0 && each.TotalScore < o.total(names[0]) {
			continue
		}
		if len(names) > 0 && each.TotalScore > o.total(names[0]) {
			names = nil
		}
		names = append(names, each.Name)
	}
	sort.Strings(names)
	return names
}

func (o *observation) total(node string) int64 {
	for _, each := range o.scores {
		if each.Name == node {
			return each.TotalScore
		}
	}
	return 0
}

// observedFramework writes down what the plugins of a profile say about the pod of an attempt.
// Plugins hold the framework itself, so what preemption tries out does not come by here.
type observedFramework struct {
	framework.Framework
	run *run
}

func (f *observedFramework) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	status := f.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	f.run.seen.statuses[info.Node().Name] = status
	if status.Code() == fwk.Error && f.run.seen.errors == nil {
		f.run.seen.errors = f.errors(ctx, state, pod)
	}
	return status
}

// errors returns what fails on any node. The first node that fails ends the attempt, and which one
// is looked at first is not compared.
func (f *observedFramework) errors(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) []string {
	found := []string{}
	nodes, err := f.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return append(found, err.Error())
	}
	for _, node := range nodes {
		status := f.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		if status.Code() == fwk.Error {
			found = append(found, status.Message())
		}
	}
	return found
}

func (f *observedFramework) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := f.Framework.RunScorePlugins(ctx, state, pod, nodes)
	// The list becomes a heap, in place.
	f.run.seen.scores = slices.Clone(scores)
	return scores, status
}

func (f *observedFramework) RunPostBindPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	f.Framework.RunPostBindPlugins(ctx, state, pod, node)
	f.run.ended <- struct{}{}
}

// observedPreemption writes down the candidates, has all of them looked at, and follows where
// several are equally good.
type observedPreemption struct {
	preemption.Interface
	run       *run
	evaluator *preemption.Evaluator
	// asking is set while candidates are compared two by two.
	asking bool
}

// GetOffsetAndNumCandidates has every node looked at.
func (p *observedPreemption) GetOffsetAndNumCandidates(nodes int32) (int32, int32) {
	return 0, nodes
}

// candidate writes down the victims that were found on a node.
func (p *observedPreemption) candidate(info fwk.NodeInfo, victims []*corev1.Pod, violations int, status *fwk.Status) {
	if status.IsSuccess() && len(victims) > 0 {
		p.run.seen.candidates[info.Node().Name] = &extenderv1.Victims{
			Pods: victims, NumPDBViolations: int64(violations),
		}
	}
}

func (p *observedPreemption) CandidatesToVictimsMap(candidates []preemption.Candidate) map[string]*extenderv1.Victims {
	if p.asking {
		return p.Interface.CandidatesToVictimsMap(candidates)
	}
	seen := p.run.seen
	seen.bestCandidates = p.equallyGood(candidates)
	if slices.Contains(seen.bestCandidates, seen.follow) {
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(each preemption.Candidate) bool {
			return each.Name() != seen.follow
		})
	}
	return p.Interface.CandidatesToVictimsMap(candidates)
}

// asks is how often two candidates are compared. Of two equally good ones the first in map order
// wins, and all orders occur.
const asks = 64

// equallyGood returns the names of the candidates that none is better than, sorted.
func (p *observedPreemption) equallyGood(candidates []preemption.Candidate) []string {
	p.asking = true
	defer func() { p.asking = false }()
	best := p.evaluator.SelectCandidate(context.Background(), candidates)
	names := []string{best.Name()}
	for _, each := range candidates {
		if each.Name() == best.Name() {
			continue
		}
		for range asks {
			pair := []preemption.Candidate{each, best}
			if p.evaluator.SelectCandidate(context.Background(), pair).Name() == each.Name() {
				names = append(names, each.Name())
				break
			}
		}
	}
	sort.Strings(names)
	return names
}
