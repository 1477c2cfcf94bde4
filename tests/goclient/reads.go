package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sort"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

func checkDiscovery(_ context.Context, c *clients) error {
	version, err := c.typed.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	if version.Major != "1" {
		return fmt.Errorf("the server's version is %s", version)
	}
	lists, err := c.typed.Discovery().ServerPreferredResources()
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			found[list.GroupVersion+"/"+resource.Name] = true
		}
	}
	for _, name := range []string{"v1/pods", "v1/nodes", "apps/v1/deployments", "coordination.k8s.io/v1/leases"} {
		if !found[name] {
			return fmt.Errorf("%s is missing in %v", name, found)
		}
	}
	return nil
}

// The caches of informers must come to hold what the server has, and handlers must see each step.
func checkInformers(ctx context.Context, c *clients) error {
	// Handlers and reflectors end with it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := c.typed.CoreV1().Pods(namespace).Create(ctx, pod("early", nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(c.typed, 0)
	defer factory.Shutdown()
	defer cancel()
	pods, nodes := factory.Core().V1().Pods(), factory.Core().V1().Nodes()
	var added, running, deleted atomic.Int64
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { added.Add(1) },
		UpdateFunc: func(old, new any) {
			if !isRunning(old.(*corev1.Pod)) && isRunning(new.(*corev1.Pod)) {
				running.Add(1)
			}
		},
		DeleteFunc: func(any) { deleted.Add(1) },
	})
	if err != nil {
		return err
	}
	nodes.Informer()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the cache of %v was not filled", kind)
		}
	}
	if err := checkTransport(c); err != nil {
		return err
	}
	listed, err := c.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	cached, err := nodes.Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	if len(listed.Items) == 0 || !reflect.DeepEqual(nodeNames(listed.Items), cachedNames(cached)) {
		return fmt.Errorf("%d nodes are cached, %d listed", len(cached), len(listed.Items))
	}
	for index := range 5 {
		name := fmt.Sprintf("late-%d", index)
		if _, err := c.typed.CoreV1().Pods(namespace).Create(ctx, pod(name, nil), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	err = waitUntil(ctx, "cached pods that run", func(context.Context) (bool, error) {
		cached, err := pods.Lister().Pods(namespace).List(labels.Everything())
		for _, one := range cached {
			if !isRunning(one) {
				return false, err
			}
		}
		return len(cached) == 6 && added.Load() == 6 && running.Load() >= 5, err
	})
	if err != nil {
		return fmt.Errorf("%w: %d added, %d running", err, added.Load(), running.Load())
	}
	if err := c.typed.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	return waitUntil(ctx, "an empty cache", func(context.Context) (bool, error) {
		return len(pods.Informer().GetStore().List()) == 0 && deleted.Load() == 6, nil
	})
}

// Informers must have begun as the environment asks for: with a list, or with a watch that begins with all objects.
func checkTransport(c *clients) error {
	streams := c.requests.count("/api/v1/pods", "sendInitialEvents", "true")
	lists := c.requests.count("/api/v1/pods", "watch", "")
	isStreaming := os.Getenv("KUBE_FEATURE_WatchListClient") != "false"
	if (streams > 0) != isStreaming || (lists > 0) == isStreaming {
		return fmt.Errorf("pods were listed %d times and streamed %d times", lists, streams)
	}
	return nil
}

func nodeNames(nodes []corev1.Node) []string {
	names := []string{}
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	sort.Strings(names)
	return names
}

func cachedNames(nodes []*corev1.Node) []string {
	names := []string{}
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	sort.Strings(names)
	return names
}

// All pages together must be the whole list.
func checkPages(ctx context.Context, c *clients) error {
	whole, err := c.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return c.typed.CoreV1().Nodes().List(ctx, options)
	})
	pages.PageSize = 2
	var nodes []corev1.Node
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		nodes = append(nodes, *item.(*corev1.Node))
		return nil
	})
	if err != nil {
		return err
	}
	if names := nodeNames(nodes); !reflect.DeepEqual(names, nodeNames(whole.Items)) {
		return fmt.Errorf("the pages have %v", names)
	}
	return nil
}
