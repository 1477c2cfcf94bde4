// A client of a Kubernetes API server, built of client-go: informers, the dynamic client, leader election, optimistic
// concurrency, patches, evictions and deletions. It prints a line for each check, and ends at the first failure.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The namespace of all objects that are created.
const namespace = "default"

// How long a check may take. It passes within a few seconds, unless the machine is very busy.
const timeout = time.Minute

// The clients of one API server.
type clients struct {
	config  *rest.Config
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	// What was requested so far.
	requests *requestLog
}

var checks = []struct {
	name  string
	check func(context.Context, *clients) error
}{
	{"discovery", checkDiscovery},
	{"informers", checkInformers},
	{"pages", checkPages},
	{"custom resources", checkCustomResources},
	{"optimistic concurrency", checkConcurrency},
	{"patches", checkPatches},
	{"scale", checkScale},
	{"eviction", checkEviction},
	{"propagation", checkPropagation},
	{"errors", checkErrors},
	{"events", checkEvents},
	{"leader election", checkLeaderElection},
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the API server")
	flag.Parse()
	if err := run(*kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig string) error {
	clients, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	for _, one := range checks {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		err := one.check(ctx, clients)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		fmt.Printf("ok: %s\n", one.name)
	}
	return nil
}

func connect(kubeconfig string) (*clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"
	// The checks measure answers, not the client's own rate limit.
	config.QPS, config.Burst = 1000, 1000
	requests := &requestLog{}
	config.Wrap(requests.wrap)
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &clients{config: config, typed: typed, dynamic: untyped, requests: requests}, nil
}

// Waits until a condition holds; `what` names it in the error.
func waitUntil(ctx context.Context, what string, condition func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, condition); err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}
