package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const leaseName = "election"

// Of two candidates one leads. When it releases the Lease the other takes over, long before the Lease would expire.
func checkLeaderElection(ctx context.Context, c *clients) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leaders := make(chan string, 2)
	firstCtx, release := context.WithCancel(ctx)
	defer release()
	first := make(chan error, 1)
	go func() { first <- stand(firstCtx, c, "first", leaders) }()
	if err := waitForLeader(ctx, leaders, "first"); err != nil {
		return err
	}
	second := make(chan error, 1)
	go func() { second <- stand(ctx, c, "second", leaders) }()
	if err := waitForRenewal(ctx, c, "first"); err != nil {
		return err
	}
	if len(leaders) > 0 {
		return fmt.Errorf("%s leads too", <-leaders)
	}
	release()
	if err := <-first; err != nil {
		return err
	}
	if err := waitForLeader(ctx, leaders, "second"); err != nil {
		return err
	}
	lease, err := c.typed.CoordinationV1().Leases(namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions < 1 {
		return fmt.Errorf("the Lease has not changed hands: %v", lease.Spec)
	}
	cancel()
	return <-second
}

// Stands for election until the context ends, and releases the Lease then.
func stand(ctx context.Context, c *clients, name string, leaders chan<- string) error {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, leaseName,
		c.typed.CoreV1(), c.typed.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   timeout,
		RenewDeadline:   timeout / 2,
		RetryPeriod:     200 * time.Millisecond,
		ReleaseOnCancel: true,
		Name:            name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leaders <- name },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}

func waitForLeader(ctx context.Context, leaders <-chan string, expected string) error {
	select {
	case leader := <-leaders:
		if leader != expected {
			return fmt.Errorf("%s leads instead of %s", leader, expected)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not lead: %w", expected, ctx.Err())
	}
}

// Waits until the holder of the Lease has renewed it several times.
func waitForRenewal(ctx context.Context, c *clients, holder string) error {
	renewals, last := 0, metav1.MicroTime{}
	return waitUntil(ctx, "renewals by "+holder, func(ctx context.Context) (bool, error) {
		lease, err := c.typed.CoordinationV1().Leases(namespace).Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if *lease.Spec.HolderIdentity != holder {
			return false, fmt.Errorf("the Lease is held by %s", *lease.Spec.HolderIdentity)
		}
		if !lease.Spec.RenewTime.Equal(&last) {
			renewals, last = renewals+1, *lease.Spec.RenewTime
		}
		return renewals > 3, nil
	})
}
