//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

// What kube-scheduler declares since 1.36.

import (
	"k8s.io/apimachinery/pkg/types"
	clientcache "k8s.io/client-go/tools/cache"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

func optionsOfGroups(pods cache.Cache) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithPodGroupManager(pods),
	}
}

// arrived says that the API server has the claim's allocation.
func arrived(claims resourceClaimTracker, uid types.UID) {
	claims.MaybeRemoveClaimPendingAllocation(uid, true)
}

func claimStrategies() (creation, update) {
	ofSpec := resourceclaim.NewStrategy(nil, nil)
	return ofSpec, resourceclaim.NewStatusStrategy(ofSpec)
}

var validateCSINode = storagevalidation.ValidateCSINode

func (synced) HasSyncedChecker() clientcache.DoneChecker { return done{} }

type done struct{}

func (done) Name() string { return "still" }
func (done) Done() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}
