//go:build kubernetes_1_35

package main

import (
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// optionsOfGroups answers nothing: kube-scheduler 1.35 needs none for groups of pods.
func optionsOfGroups(cache.Cache) []frameworkruntime.Option { return nil }

// deviceTaintRule is the kind in the version of the API that kube-scheduler 1.35 reads.
type deviceTaintRule = resourcev1alpha3.DeviceTaintRule

// trackerOptions are those of kube-scheduler 1.35 itself.
func trackerOptions(factory informers.SharedInformerFactory) resourceslicetracker.Options {
	resources := factory.Resource()
	return resourceslicetracker.Options{
		EnableDeviceTaintRules: utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		SliceInformer:          resources.V1().ResourceSlices(),
		TaintInformer:          resources.V1alpha3().DeviceTaintRules(),
		ClassInformer:          resources.V1().DeviceClasses(),
	}
}
