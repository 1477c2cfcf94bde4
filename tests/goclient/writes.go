package main

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/retry"
)

// Writers that retry on conflicts must not lose each other's updates.
func checkConcurrency(ctx context.Context, c *clients) error {
	const writers, updates = 4, 5
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	counter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "counter"}, Data: map[string]string{"count": "0"}}
	stale, err := maps.Create(ctx, counter, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	increment := func() error {
		current, err := maps.Get(ctx, "counter", metav1.GetOptions{})
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(current.Data["count"])
		if err != nil {
			return err
		}
		current.Data["count"] = strconv.Itoa(count + 1)
		_, err = maps.Update(ctx, current, metav1.UpdateOptions{})
		return err
	}
	backoff := retry.DefaultBackoff
	backoff.Steps = 100
	results := make(chan error, writers)
	for range writers {
		go func() {
			for range updates {
				if err := retry.RetryOnConflict(backoff, increment); err != nil {
					results <- err
					return
				}
			}
			results <- nil
		}()
	}
	for range writers {
		if err := <-results; err != nil {
			return err
		}
	}
	current, err := maps.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if current.Data["count"] != strconv.Itoa(writers*updates) {
		return fmt.Errorf("%d updates counted to %s", writers*updates, current.Data["count"])
	}
	if _, err := maps.Update(ctx, stale, metav1.UpdateOptions{}); !errors.IsConflict(err) {
		return fmt.Errorf("a stale update: %w", expected("a conflict", err))
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}
	if err := maps.Delete(ctx, "counter", options); !errors.IsConflict(err) {
		return fmt.Errorf("a deletion with another uid: %w", expected("a conflict", err))
	}
	return maps.Delete(ctx, "counter", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(current.UID))})
}

// Each type of patch changes what it names, and nothing else.
func checkPatches(ctx context.Context, c *clients) error {
	deployments := c.typed.AppsV1().Deployments(namespace)
	if _, err := deployments.Create(ctx, deployment("patched", 0), metav1.CreateOptions{}); err != nil {
		return err
	}
	patches := []struct {
		patchType types.PatchType
		body      string
	}{
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations","value":{"json":"1"}}]`},
		{types.MergePatchType, `{"metadata":{"annotations":{"merge":"2"}}}`},
		{types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"more","image":"busybox:2"}]}}}}`},
	}
	for _, patch := range patches {
		if _, err := deployments.Patch(ctx, "patched", patch.patchType, []byte(patch.body), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", patch.patchType, err)
		}
	}
	patched, err := deployments.Get(ctx, "patched", metav1.GetOptions{})
	if err != nil {
		return err
	}
	containers := patched.Spec.Template.Spec.Containers
	if patched.Annotations["json"] != "1" || patched.Annotations["merge"] != "2" || len(containers) != 2 {
		return fmt.Errorf("the annotations are %v, the containers %v", patched.Annotations, containers)
	}
	failing := []byte(`[{"op":"test","path":"/spec/replicas","value":99}]`)
	_, err = deployments.Patch(ctx, "patched", types.JSONPatchType, failing, metav1.PatchOptions{})
	if !errors.IsInvalid(err) {
		return fmt.Errorf("a failing test: %w", expected("an invalid request", err))
	}
	return deployments.Delete(ctx, "patched", metav1.DeleteOptions{})
}

// A Deployment is scaled by its subresource, and its pods follow.
func checkScale(ctx context.Context, c *clients) error {
	deployments := c.typed.AppsV1().Deployments(namespace)
	if _, err := deployments.Create(ctx, deployment("scaled", 1), metav1.CreateOptions{}); err != nil {
		return err
	}
	// Its controller writes the status meanwhile.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		scale, err := deployments.GetScale(ctx, "scaled", metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = 3
		_, err = deployments.UpdateScale(ctx, "scaled", scale, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	err = waitUntil(ctx, "three ready replicas", func(ctx context.Context) (bool, error) {
		current, err := deployments.Get(ctx, "scaled", metav1.GetOptions{})
		return err == nil && current.Status.ReadyReplicas == 3, err
	})
	if err != nil {
		return err
	}
	return deployments.Delete(ctx, "scaled", metav1.DeleteOptions{})
}

// A PodDisruptionBudget that allows no disruption prevents an eviction.
func checkEviction(ctx context.Context, c *clients) error {
	pods, budgets := c.typed.CoreV1().Pods(namespace), c.typed.PolicyV1().PodDisruptionBudgets(namespace)
	labels := map[string]string{"app": "evicted"}
	if _, err := pods.Create(ctx, pod("evicted", labels), metav1.CreateOptions{}); err != nil {
		return err
	}
	err := waitUntil(ctx, "a running pod", func(ctx context.Context) (bool, error) {
		current, err := pods.Get(ctx, "evicted", metav1.GetOptions{})
		return err == nil && isRunning(current), err
	})
	if err != nil {
		return err
	}
	minimum := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "budget"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &minimum, Selector: &metav1.LabelSelector{MatchLabels: labels},
		},
	}
	if _, err := budgets.Create(ctx, budget, metav1.CreateOptions{}); err != nil {
		return err
	}
	err = waitUntil(ctx, "a computed budget", func(ctx context.Context) (bool, error) {
		current, err := budgets.Get(ctx, "budget", metav1.GetOptions{})
		return err == nil && current.Status.ObservedGeneration == current.Generation && current.Status.CurrentHealthy == 1, err
	})
	if err != nil {
		return err
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: namespace}}
	err = pods.EvictV1(ctx, eviction)
	if !errors.IsTooManyRequests(err) || !errors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		return fmt.Errorf("an eviction against the budget: %w", expected("a DisruptionBudget cause", err))
	}
	if err := budgets.Delete(ctx, "budget", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := pods.EvictV1(ctx, eviction); err != nil {
		return err
	}
	return waitUntilGone(ctx, "the evicted pod", func(ctx context.Context) error {
		_, err := pods.Get(ctx, "evicted", metav1.GetOptions{})
		return err
	})
}

// Each propagation policy deletes the dependents, or leaves them without their owner.
func checkPropagation(ctx context.Context, c *clients) error {
	for _, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
	} {
		if err := checkPolicy(ctx, c, policy); err != nil {
			return fmt.Errorf("%s: %w", policy, err)
		}
	}
	return nil
}

func checkPolicy(ctx context.Context, c *clients, policy metav1.DeletionPropagation) error {
	deployments, sets := c.typed.AppsV1().Deployments(namespace), c.typed.AppsV1().ReplicaSets(namespace)
	if _, err := deployments.Create(ctx, deployment("owner", 1), metav1.CreateOptions{}); err != nil {
		return err
	}
	ofOwner := metav1.ListOptions{LabelSelector: "app=owner"}
	var set appsv1.ReplicaSet
	err := waitUntil(ctx, "a ReplicaSet", func(ctx context.Context) (bool, error) {
		list, err := sets.List(ctx, ofOwner)
		if err == nil && len(list.Items) == 1 {
			set = list.Items[0]
		}
		return set.Name != "", err
	})
	if err != nil {
		return err
	}
	if err := deployments.Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		return err
	}
	err = waitUntilGone(ctx, "the owner", func(ctx context.Context) error {
		_, err := deployments.Get(ctx, "owner", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	switch policy {
	case metav1.DeletePropagationOrphan:
		left, err := sets.Get(ctx, set.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(left.OwnerReferences) != 0 {
			return fmt.Errorf("an orphan has the owners %v", left.OwnerReferences)
		}
		if err := sets.Delete(ctx, set.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	case metav1.DeletePropagationForeground:
		// The owner goes last.
		if _, err := sets.Get(ctx, set.Name, metav1.GetOptions{}); !errors.IsNotFound(err) {
			return expected("no dependent", err)
		}
	}
	return waitUntil(ctx, "no pods", func(ctx context.Context) (bool, error) {
		pods, err := c.typed.CoreV1().Pods(namespace).List(ctx, ofOwner)
		return err == nil && len(pods.Items) == 0, err
	})
}

// Errors have the reasons by which clients tell them apart.
func checkErrors(ctx context.Context, c *clients) error {
	pods := c.typed.CoreV1().Pods(namespace)
	if _, err := pods.Get(ctx, "nothere", metav1.GetOptions{}); !errors.IsNotFound(err) {
		return expected("not found", err)
	}
	if _, err := pods.Create(ctx, pod("Bad_Name", nil), metav1.CreateOptions{}); !errors.IsInvalid(err) {
		return expected("an invalid name", err)
	}
	if _, err := pods.Create(ctx, pod("twice", nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := pods.Create(ctx, pod("twice", nil), metav1.CreateOptions{}); !errors.IsAlreadyExists(err) {
		return expected("a second object of one name", err)
	}
	_, err := c.typed.CoreV1().Pods("nothere").Create(ctx, pod("p", nil), metav1.CreateOptions{})
	if !errors.IsNotFound(err) {
		return expected("a missing namespace", err)
	}
	_, err = pods.List(ctx, metav1.ListOptions{ResourceVersion: "999999999"})
	if !errors.IsTimeout(err) || !errors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return expected("a version from the future", err)
	}
	if _, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.color=red"}); !errors.IsBadRequest(err) {
		return expected("an unknown field", err)
	}
	return pods.Delete(ctx, "twice", metav1.DeleteOptions{})
}

// A component records an Event about an object.
func checkEvents(ctx context.Context, c *clients) error {
	nodes, err := c.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	about, err := reference.GetReference(scheme.Scheme, &nodes.Items[0])
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.typed.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "goclient"})
	for range 2 {
		recorder.Event(about, corev1.EventTypeNormal, "Checked", "all is well")
	}
	selection := metav1.ListOptions{FieldSelector: "reason=Checked,involvedObject.name=" + about.Name}
	return waitUntil(ctx, "an Event that happened twice", func(ctx context.Context) (bool, error) {
		events, err := c.typed.CoreV1().Events("").List(ctx, selection)
		return err == nil && len(events.Items) == 1 && events.Items[0].Count == 2, err
	})
}

func waitUntilGone(ctx context.Context, what string, get func(context.Context) error) error {
	return waitUntil(ctx, "the end of "+what, func(ctx context.Context) (bool, error) {
		err := get(ctx)
		if errors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// The error of a request that did not fail as it should.
func expected(what string, err error) error {
	if err == nil {
		return fmt.Errorf("expected %s, and the request succeeded", what)
	}
	return fmt.Errorf("expected %s: %w", what, err)
}
