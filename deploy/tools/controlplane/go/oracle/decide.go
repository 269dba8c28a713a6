package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	// everyNode is the percentage at which no node is left out.
	everyNode = 100
	// tick is the time between two additions to the queue, which orders equal pods by it.
	tick = time.Millisecond
	// pastBackoff is longer than any back-off.
	pastBackoff = time.Hour
	// mostRounds cuts off a cluster that never settles: a pod whose binding is refused each time.
	mostRounds = 100
	// longestWait is for what runs concurrently with an attempt; it takes microseconds.
	longestWait = 20 * time.Second
)

// run is one cluster while it is decided.
type run struct {
	scheduler *scheduler.Scheduler
	executors []*preemption.Executor
	store     *store
	clock     *clocktesting.FakeClock
	// follow is what is left of the nodes to take, by pod.
	follow map[string][]string
	// pending are the pods to decide for, in the order of the objects.
	pending []*corev1.Pod
	// seen is the attempt under way.
	seen *observation
	// ended receives one value per attempt: when the pod is bound, or when its failure has been handled.
	ended chan struct{}
	// last is the last reported result by pod.
	last map[string]*result
}

// decide answers for one cluster.
func decide(asked *request) (*response, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := start(ctx, asked)
	if err != nil {
		return nil, err
	}
	defer r.scheduler.SchedulingQueue.Close()
	if err := r.fill(asked.Objects); err != nil {
		return nil, err
	}
	reply := &response{ID: asked.ID, Results: []*result{}}
	if len(asked.Hypotheses) > 0 {
		reply.Verdicts, err = r.verdicts(ctx, asked.Hypotheses)
		return reply, err
	}
	results, err := r.attempts(ctx)
	if err != nil {
		return nil, err
	}
	reply.Results = append(reply.Results, results...)
	reply.Results = append(reply.Results, r.gated()...)
	if !asked.Settle {
		return reply, nil
	}
	results, err = r.settle(ctx)
	if err != nil {
		return nil, err
	}
	reply.Results = append(reply.Results, results...)
	reply.Final = r.final()
	return reply, nil
}

// start builds a scheduler for an empty cluster.
func start(ctx context.Context, asked *request) (*run, error) {
	settings, err := configuration(asked.Config)
	if err != nil {
		return nil, err
	}
	client, calls := newClient()
	factory, informers := newInformers(client)
	clock := clocktesting.NewFakeClock(epoch)
	recorders := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	percentage := int32(everyNode)
	made, err := scheduler.New(
		ctx, client, factory, nil, recorders,
		scheduler.WithComponentConfigVersion(settings.TypeMeta.APIVersion),
		scheduler.WithProfiles(settings.Profiles...),
		scheduler.WithPercentageOfNodesToScore(&percentage),
		scheduler.WithPodInitialBackoffSeconds(settings.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(settings.PodMaxBackoffSeconds),
		// One after the other, in one order.
		scheduler.WithParallelism(1),
		scheduler.WithClock(clock),
	)
	if err != nil {
		return nil, err
	}
	r := &run{
		scheduler: made,
		store:     &store{informers: informers, calls: calls},
		clock:     clock,
		follow:    asked.Follow,
		ended:     make(chan struct{}, 1),
		last:      map[string]*result{},
	}
	calls.claims = claims{r.store}
	r.observe(calls)
	return r, nil
}

// configuration reads a KubeSchedulerConfiguration as kube-scheduler does.
func configuration(raw json.RawMessage) (*config.KubeSchedulerConfiguration, error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration"}`)
	}
	decoded, kind, err := scheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	settings, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("config: not a KubeSchedulerConfiguration: %s", kind)
	}
	settings.TypeMeta.APIVersion = kind.GroupVersion().String()
	for index := range settings.Profiles {
		settings.Profiles[index].PercentageOfNodesToScore = nil
	}
	return settings, nil
}

// observe puts the wrappers around profiles, preemption, volume binding and the two steps of an
// attempt that decide how it ends.
func (r *run) observe(calls *calls) {
	for name, profile := range r.scheduler.Profiles {
		for _, plugin := range profile.PreEnqueuePlugins() {
			if plugin, ok := plugin.(*defaultpreemption.DefaultPreemption); ok {
				r.executors = append(r.executors, plugin.Executor)
				plugin.Evaluator.Interface = &observedPreemption{
					Interface: plugin.Evaluator.Interface, run: r, evaluator: plugin.Evaluator,
				}
			}
		}
		for _, plugin := range profile.EnqueueExtensions() {
			if plugin, ok := plugin.(*volumebinding.VolumeBinding); ok {
				plugin.Binder = &promptBinder{SchedulerVolumeBinder: plugin.Binder, calls: calls}
			}
		}
		r.scheduler.Profiles[name] = &observedFramework{Framework: profile, run: r}
	}
	schedule, fail := r.scheduler.SchedulePod, r.scheduler.FailureHandler
	r.scheduler.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		r.begin(info.Pod)
		found, err := schedule(ctx, profile, state, info)
		r.seen.fit, _ = err.(*framework.FitError)
		for _, node := range r.seen.best() {
			if node == r.seen.follow {
				found.SuggestedHost = node
			}
		}
		r.seen.node = found.SuggestedHost
		return found, err
	}
	r.scheduler.FailureHandler = func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, began time.Time) {
		if r.seen == nil {
			r.begin(info.Pod)
		}
		r.seen.failure = status
		if r.seen.fit != nil {
			// The queue adds the plugins that gate the pod to the same set.
			r.seen.rejectors = sets.List(r.seen.fit.Diagnosis.UnschedulablePlugins)
		}
		if nominating != nil {
			r.seen.nominated = nominating.NominatedNodeName
		}
		fail(ctx, profile, info, status, nominating, began)
		r.ended <- struct{}{}
	}
}

func (r *run) begin(pod *corev1.Pod) {
	r.seen = &observation{
		pod:        pod,
		statuses:   map[string]*fwk.Status{},
		candidates: map[string]*extenderv1.Victims{},
	}
	if left := r.follow[key(pod)]; len(left) > 0 {
		r.seen.follow = left[0]
	}
}

// fill brings in the objects: what pods refer to, nodes, pods on nodes, pods that wait. Equal
// pods wait in the order of their creation.
func (r *run) fill(raws []json.RawMessage) error {
	var nodes []*corev1.Node
	var placed []*corev1.Pod
	for _, raw := range raws {
		object, err := decode(raw)
		if err != nil {
			return err
		}
		switch object := object.(type) {
		case *corev1.Node:
			nodes = append(nodes, object)
		case *corev1.Pod:
			switch {
			case object.Status.Phase == corev1.PodSucceeded || object.Status.Phase == corev1.PodFailed:
				// The pod informer does not select them.
			case object.Spec.NodeName != "":
				placed = append(placed, object)
			case object.DeletionTimestamp == nil:
				r.adopt(object)
				r.pending = append(r.pending, object)
			}
		default:
			if err := r.store.put(object); err != nil {
				return err
			}
		}
	}
	// Only an update lets a node know of images that came to others after it.
	for range 2 {
		for _, node := range nodes {
			if err := r.store.put(node.DeepCopy()); err != nil {
				return err
			}
		}
	}
	for _, pod := range placed {
		if err := r.store.put(pod); err != nil {
			return err
		}
	}
	waiting := append([]*corev1.Pod(nil), r.pending...)
	sort.SliceStable(waiting, func(i, j int) bool {
		return waiting[i].CreationTimestamp.Before(&waiting[j].CreationTimestamp)
	})
	for _, pod := range waiting {
		r.clock.Step(tick)
		if err := r.store.put(pod); err != nil {
			return err
		}
	}
	return nil
}

// adopt lets a pod be decided whatever scheduler it names, when there is only one profile.
func (r *run) adopt(pod *corev1.Pod) {
	if len(r.scheduler.Profiles) != 1 {
		return
	}
	for name := range r.scheduler.Profiles {
		pod.Spec.SchedulerName = name
	}
}

// attempts decides for every pod in the active queue until it is empty.
func (r *run) attempts(ctx context.Context) ([]*result, error) {
	var results []*result
	for len(r.scheduler.SchedulingQueue.PodsInActiveQ()) > 0 {
		if err := r.attempt(ctx); err != nil {
			return nil, err
		}
		if r.seen == nil {
			continue
		}
		found := r.result()
		if !sameDecision(found, r.last[found.Pod]) {
			results = append(results, found)
			r.last[found.Pod] = found
			if left := r.follow[key(r.seen.pod)]; len(left) > 0 {
				r.follow[key(r.seen.pod)] = left[1:]
			}
		}
	}
	return results, nil
}

// attempt decides for one pod, waits for all that runs concurrently, and applies the API calls.
func (r *run) attempt(ctx context.Context) error {
	r.seen = nil
	r.clock.Step(tick)
	r.scheduler.ScheduleOne(ctx)
	if r.seen == nil {
		return nil
	}
	select {
	case <-r.ended:
	case <-time.After(longestWait):
		return fmt.Errorf("the attempt for %s does not end", key(r.seen.pod))
	}
	if err := r.awaitPreemption(); err != nil {
		return err
	}
	return r.store.apply(r.store.calls.take(), key(r.seen.pod))
}

// awaitPreemption waits until the victims have been asked to leave.
func (r *run) awaitPreemption() error {
	deadline := time.Now().Add(longestWait)
	for _, executor := range r.executors {
		for executor.IsPodRunningPreemption(r.seen.pod.UID) {
			if time.Now().After(deadline) {
				return fmt.Errorf("the preemption for %s does not end", key(r.seen.pod))
			}
			runtime.Gosched()
		}
	}
	return nil
}

// settle goes on until nothing changes: terminating pods disappear, waiting pods are tried again.
func (r *run) settle(ctx context.Context) ([]*result, error) {
	var results []*result
	for range mostRounds {
		leaving := r.store.terminating()
		for _, pod := range leaving {
			if err := r.store.pods().remove(pod); err != nil {
				return nil, err
			}
			if err := r.store.calls.claims.podGone(pod.UID); err != nil {
				return nil, err
			}
		}
		r.clock.Step(pastBackoff)
		waiting, _ := r.scheduler.SchedulingQueue.PendingPods()
		byName := make(map[string]*corev1.Pod, len(waiting))
		for _, pod := range waiting {
			byName[key(pod)] = pod
		}
		r.scheduler.SchedulingQueue.Activate(klog.FromContext(ctx), byName)
		found, err := r.attempts(ctx)
		if err != nil {
			return nil, err
		}
		results = append(results, found...)
		if len(leaving) == 0 && len(found) == 0 {
			return results, nil
		}
	}
	return results, nil
}

// gated returns the pods that a plugin keeps out of the queue, in the order of the objects.
func (r *run) gated() []*result {
	var results []*result
	for _, pod := range r.pending {
		info, waiting := queued(r.scheduler, pod)
		// A pod whose preemption is in progress is not reported as gated; it is tried again after the
		// preemption has ended.
		if waiting && info.GatingPlugin != "" && info.GatingPlugin != pluginnames.DefaultPreemption {
			results = append(results, &result{Pod: key(pod), Decision: gated})
		}
	}
	return results
}

// final returns where each pod that was pending is now.
func (r *run) final() map[string]string {
	places := make(map[string]string, len(r.pending))
	for _, pod := range r.pending {
		place := ""
		if now := r.store.pod(pod.Namespace, pod.Name); now != nil {
			place = now.Spec.NodeName
		}
		places[key(pod)] = place
	}
	return places
}
