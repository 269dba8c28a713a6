package main

import (
	"fmt"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// calls collects what the scheduler asks of the API server. Everything succeeds, and nothing
// happens until the calls are taken and applied; only calls about resource claims are answered at
// once.
type calls struct {
	lock    sync.Mutex
	made    []clienttesting.Action
	version int
	// written, if set, is called for every updated object.
	written func(runtime.Object)
	// claims answers calls about resource claims.
	claims claims
}

// newClient returns a client whose calls are collected.
func newClient() (*fake.Clientset, *calls) {
	client, collected := &fake.Clientset{}, &calls{}
	client.AddReactor("*", "*", collected.react)
	return client, collected
}

func (c *calls) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetResource().Resource == claimResource {
		answer, err := c.claims.answer(action)
		return true, answer, err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	switch action.GetVerb() {
	case "create", "delete", "patch":
	case "update":
		// The caller goes on with the answer, and tells older from newer by the version.
		object := action.(clienttesting.UpdateAction).GetObject().DeepCopyObject()
		accessor, err := meta.Accessor(object)
		if err != nil {
			return true, nil, err
		}
		accessor.SetResourceVersion(c.nextVersion())
		c.made = append(c.made, clienttesting.NewUpdateAction(action.GetResource(), action.GetNamespace(), object))
		if c.written != nil {
			c.written(object)
		}
		return true, object, nil
	default:
		return true, nil, fmt.Errorf("unexpected %s of %s", action.GetVerb(), action.GetResource().Resource)
	}
	c.made = append(c.made, action)
	return true, nil, nil
}

// take returns the calls since the last time.
func (c *calls) take() []clienttesting.Action {
	c.lock.Lock()
	defer c.lock.Unlock()
	made := c.made
	c.made = nil
	return made
}

// nextVersion returns a resource version that no object has had; the caller holds the lock.
func (c *calls) nextVersion() string {
	c.version++
	return strconv.Itoa(c.version)
}
