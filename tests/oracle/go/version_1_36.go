//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_37

package main

import (
	"context"

	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

// newCache is the cache of kube-scheduler 1.36.
func newCache(ctx context.Context) cache.Cache { return cache.New(ctx, nil, false) }
