//go:build !kubernetes_1_34

package main

// What kube-scheduler declares since 1.35.

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

type (
	preFilterResult      = fwk.PreFilterResult
	sharedDRAManager     = fwk.SharedDRAManager
	resourceClaimTracker = fwk.ResourceClaimTracker
)

func optionsOfVersion(factory informers.SharedInformerFactory, pods schedulercache.Cache) []frameworkruntime.Option {
	nodes := nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())
	return append(optionsOfGroups(pods), frameworkruntime.WithSharedCSIManager(nodes))
}

// classHandler is what has to see the classes that back extended resources.
func classHandler(manager *dynamicresources.DefaultDRAManager) (cache.ResourceEventHandler, bool) {
	handler, ok := manager.DeviceClassResolver().(cache.ResourceEventHandler)
	// Without the gate the resolver is a nil pointer in an interface.
	return handler, ok && utilfeature.DefaultFeatureGate.Enabled(features.DRAExtendedResource)
}
