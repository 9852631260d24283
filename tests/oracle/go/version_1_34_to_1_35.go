//go:build kubernetes_1_34 || kubernetes_1_35

package main

// What kube-scheduler declares until 1.35.

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	storage "k8s.io/kubernetes/pkg/apis/storage"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

func newCache(ctx context.Context) cache.Cache { return cache.New(ctx, 0, nil) }

// arrived says that the API server has the claim's allocation.
func arrived(claims resourceClaimTracker, uid types.UID) { claims.RemoveClaimPendingAllocation(uid) }

func claimStrategies() (creation, update) {
	ofSpec := resourceclaim.NewStrategy(nil)
	return ofSpec, resourceclaim.NewStatusStrategy(ofSpec)
}

func validateCSINode(node *storage.CSINode) field.ErrorList {
	return storagevalidation.ValidateCSINode(node, storagevalidation.CSINodeValidationOptions{AllowLongNodeID: true})
}
