package main

import (
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// result puts together what was seen in the attempt that has just ended.
func (r *run) result() *result {
	seen := r.seen
	found := &result{
		Pod:     key(seen.pod),
		Victims: []string{},
		Nodes:   r.nodes(),
		Best:    seen.best(),
		Errors:  seen.errors,
		Claims:  r.store.calls.claims.all(),
	}
	if pod := r.store.pod(seen.pod.Namespace, seen.pod.Name); pod != nil && pod.Status.ExtendedResourceClaimStatus != nil {
		found.Mappings = pod.Status.ExtendedResourceClaimStatus.RequestMappings
	}
	for node, victims := range seen.candidates {
		found.Candidates = append(found.Candidates, &candidateResult{
			Node: node, Victims: names(victims.Pods), PDBViolations: victims.NumPDBViolations,
		})
	}
	sort.Slice(found.Candidates, func(i, j int) bool {
		return found.Candidates[i].Node < found.Candidates[j].Node
	})
	found.BestCandidates = seen.bestCandidates
	if len(found.Candidates) == 1 {
		found.BestCandidates = []string{found.Candidates[0].Node}
	}
	switch victims := seen.candidates[seen.nominated]; {
	case seen.failure == nil:
		found.Decision, found.Node = scheduled, seen.node
	case victims != nil:
		found.Decision, found.Node = preempting, seen.nominated
		found.Victims, found.PDBViolations = names(victims.Pods), victims.NumPDBViolations
	case seen.failure.IsRejected():
		found.Decision = unschedulable
	default:
		found.Decision = failed
	}
	if seen.failure != nil {
		found.Message = seen.failure.Message()
	}
	found.Rejectors = seen.rejectors
	return found
}

// nodes returns what was found on each node, in name order.
func (r *run) nodes() []*nodeResult {
	seen := r.seen
	statuses := seen.statuses
	if seen.fit != nil {
		// Nodes that no filter looked at have the status of all that are left out.
		statuses = map[string]*fwk.Status{}
		for _, node := range r.store.nodes().ListKeys() {
			statuses[node] = seen.fit.Diagnosis.NodeToStatus.Get(node)
		}
	}
	found := make([]*nodeResult, 0, len(statuses))
	byName := make(map[string]*nodeResult, len(statuses))
	for node, status := range statuses {
		each := verdict(node, status)
		found = append(found, each)
		byName[node] = each
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Name < found[j].Name })
	for _, scored := range seen.scores {
		each := byName[scored.Name]
		each.Total = scored.TotalScore
		each.Scores = make(map[string]int64, len(scored.Scores))
		for _, score := range scored.Scores {
			each.Scores[score.Name] = score.Score
		}
	}
	return found
}

// verdict returns the status of a node, which is nil where the pod fits.
func verdict(node string, status *fwk.Status) *nodeResult {
	found := &nodeResult{Name: node, Reasons: []string{}, Code: status.Code().String()}
	if !status.IsSuccess() {
		found.Plugin, found.Reasons = status.Plugin(), status.Reasons()
	}
	return found
}

func names(pods []*corev1.Pod) []string {
	found := make([]string, 0, len(pods))
	for _, pod := range pods {
		found = append(found, key(pod))
	}
	return found
}

// sameDecision tells whether an attempt ended as the one that was reported before it. Which of
// several errors ends an attempt is left to the order of the nodes.
func sameDecision(found, before *result) bool {
	return before != nil &&
		found.Decision == before.Decision &&
		found.Node == before.Node &&
		(found.Message == before.Message || found.Decision == failed) &&
		found.PDBViolations == before.PDBViolations &&
		slices.Equal(found.Victims, before.Victims)
}
