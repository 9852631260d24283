//go:build kubernetes_1_34

package main

// What kube-scheduler 1.34 alone declares otherwise than its neighbours: types that have moved since, and fewer options.

import (
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/kubernetes/pkg/features"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

type (
	preFilterResult      = framework.PreFilterResult
	sharedDRAManager     = framework.SharedDRAManager
	resourceClaimTracker = framework.ResourceClaimTracker
)

func optionsOfVersion(informers.SharedInformerFactory, schedulercache.Cache) []frameworkruntime.Option {
	return nil
}

// classHandler answers nothing: the plug-in itself lists the classes that back extended resources.
func classHandler(*dynamicresources.DefaultDRAManager) (cache.ResourceEventHandler, bool) {
	return nil, false
}

// deviceTaintRule is the kind in the version of the API that kube-scheduler 1.34 reads.
type deviceTaintRule = resourcev1alpha3.DeviceTaintRule

// trackerOptions are those of kube-scheduler 1.34 itself.
func trackerOptions(factory informers.SharedInformerFactory) resourceslicetracker.Options {
	resources := factory.Resource()
	return resourceslicetracker.Options{
		EnableDeviceTaints: utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaints),
		SliceInformer:      resources.V1().ResourceSlices(),
		TaintInformer:      resources.V1alpha3().DeviceTaintRules(),
		ClassInformer:      resources.V1().DeviceClasses(),
	}
}
