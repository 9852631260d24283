//go:build kubernetes_1_34

package main

// What kube-scheduler 1.34 alone declares otherwise than its neighbours: types that have moved since, and fewer options.

import (
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
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
