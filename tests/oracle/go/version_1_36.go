//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_37

package main

import (
	"context"

	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

// newCache is the cache of kube-scheduler 1.36.
func newCache(ctx context.Context) cache.Cache { return cache.New(ctx, nil, false) }

// deviceTaintRule is the kind in the version of the API that kube-scheduler 1.36 reads.
type deviceTaintRule = resourcev1beta2.DeviceTaintRule

// trackerOptions are those of kube-scheduler 1.36 itself.
func trackerOptions(factory informers.SharedInformerFactory) resourceslicetracker.Options {
	resources := factory.Resource()
	return resourceslicetracker.Options{
		EnableDeviceTaintRules: utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		SliceInformer:          resources.V1().ResourceSlices(),
		TaintInformer:          resources.V1beta2().DeviceTaintRules(),
		ClassInformer:          resources.V1().DeviceClasses(),
	}
}
