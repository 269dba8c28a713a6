package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// hypothesis is a node without some of its pods, in a cluster where some claims have no devices.
type hypothesis struct {
	Node string `json:"node"`
	// Without names pods of the node, as namespace/name.
	Without []string `json:"without"`
	// Freed names claims, as namespace/name.
	Freed []string `json:"freed"`
}

// verdicts says for each hypothesis whether the first pending pod fits on the node. The filters of
// kube-scheduler decide, in the state that its PreFilter makes of the cluster with the freed claims.
func (r *run) verdicts(ctx context.Context, asked []hypothesis) ([]*nodeResult, error) {
	if len(r.pending) == 0 {
		return nil, fmt.Errorf("no pod is pending")
	}
	pod := r.pending[0]
	profile := r.scheduler.Profiles[pod.Spec.SchedulerName].(*observedFramework).Framework
	snapshot := profile.SnapshotSharedLister().(*internalcache.Snapshot)
	if err := r.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return nil, err
	}
	found := make([]*nodeResult, len(asked))
	// One state for all hypotheses with the same freed claims.
	byFreed := map[string][]int{}
	for index, each := range asked {
		freed := strings.Join(each.Freed, " ")
		byFreed[freed] = append(byFreed[freed], index)
	}
	for _, indices := range byFreed {
		restore, err := r.free(asked[indices[0]].Freed)
		if err != nil {
			return nil, err
		}
		state := framework.NewCycleState()
		result, rejected, _ := profile.RunPreFilterPlugins(ctx, state, pod)
		for _, index := range indices {
			each := asked[index]
			status := rejected
			if status.IsSuccess() && !result.AllNodes() && !result.NodeNames.Has(each.Node) {
				status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node is filtered out by the prefilter result")
			}
			if status.IsSuccess() {
				status, err = filter(ctx, profile, state.Clone(), pod, each)
				if err != nil {
					return nil, err
				}
			}
			found[index] = verdict(each.Node, status)
		}
		if err := restore(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// filter runs the filters for a node without some of its pods.
func filter(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *corev1.Pod, asked hypothesis) (*fwk.Status, error) {
	known, err := profile.SnapshotSharedLister().NodeInfos().Get(asked.Node)
	if err != nil {
		return nil, err
	}
	info := known.Snapshot()
	for _, each := range known.GetPods() {
		if !slices.Contains(asked.Without, key(each.GetPod())) {
			continue
		}
		if err := info.RemovePod(klog.FromContext(ctx), each.GetPod()); err != nil {
			return nil, err
		}
		if status := profile.RunPreFilterExtensionRemovePod(ctx, state, pod, each, info); !status.IsSuccess() {
			return nil, status.AsError()
		}
	}
	if removed := len(known.GetPods()) - len(info.GetPods()); removed != len(asked.Without) {
		return nil, fmt.Errorf("%d of %v are on node %s", removed, asked.Without, asked.Node)
	}
	return profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, info), nil
}

// free takes the devices of claims away, and returns what gives them back.
func (r *run) free(names []string) (func() error, error) {
	claims := r.store.calls.claims
	var before []*resourcev1.ResourceClaim
	for _, each := range names {
		namespace, name, _ := strings.Cut(each, "/")
		claim, err := claims.get(namespace, name)
		if err != nil {
			return nil, err
		}
		before = append(before, claim)
		freed := claim.DeepCopy()
		freed.Status = resourcev1.ResourceClaimStatus{}
		if _, err := claims.put(freed); err != nil {
			return nil, err
		}
	}
	return func() error {
		for _, claim := range before {
			if _, err := claims.put(claim.DeepCopy()); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
