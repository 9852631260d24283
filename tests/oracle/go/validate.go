package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	storage "k8s.io/kubernetes/pkg/apis/storage"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
)

// refusals names every field for which an API server would not have created an object; kinds that no test makes on
// purpose are not looked at.
func (c *cluster) refusals(ctx context.Context) []string {
	var found []string
	for _, object := range c.objects {
		completed := object.DeepCopyObject()
		legacyscheme.Scheme.Default(completed)
		for _, refusal := range refusalsOf(ctx, completed) {
			named, _ := meta.Accessor(object)
			found = append(found, fmt.Sprintf("%s %s/%s: %v", kindOf(object), named.GetNamespace(), named.GetName(), refusal))
		}
	}
	return found
}

func refusalsOf(ctx context.Context, object runtime.Object) field.ErrorList {
	switch object.(type) {
	case *v1.Pod:
		return refusedAs(object, &core.Pod{}, func(pod *core.Pod) field.ErrorList {
			podregistry.Strategy.PrepareForCreate(ctx, pod)
			return podregistry.Strategy.Validate(ctx, pod)
		})
	case *v1.Node:
		return refusedAs(object, &core.Node{}, corevalidation.ValidateNode)
	case *v1.Namespace:
		return refusedAs(object, &core.Namespace{}, corevalidation.ValidateNamespace)
	case *v1.PersistentVolume:
		return refusedAs(object, &core.PersistentVolume{}, func(volume *core.PersistentVolume) field.ErrorList {
			return corevalidation.ValidatePersistentVolume(volume, corevalidation.ValidationOptionsForPersistentVolume(volume, nil))
		})
	case *v1.PersistentVolumeClaim:
		return refusedAs(object, &core.PersistentVolumeClaim{}, func(claim *core.PersistentVolumeClaim) field.ErrorList {
			options := corevalidation.ValidationOptionsForPersistentVolumeClaimCreate()
			return corevalidation.ValidatePersistentVolumeClaim(claim, options)
		})
	}
	return refusalsOfStorage(object)
}

func refusalsOfStorage(object runtime.Object) field.ErrorList {
	switch object.(type) {
	case *storagev1.StorageClass:
		return refusedAs(object, &storage.StorageClass{}, storagevalidation.ValidateStorageClass)
	case *storagev1.CSINode:
		return refusedAs(object, &storage.CSINode{}, validateCSINode)
	case *storagev1.CSIDriver:
		return refusedAs(object, &storage.CSIDriver{}, storagevalidation.ValidateCSIDriver)
	case *storagev1.CSIStorageCapacity:
		return refusedAs(object, &storage.CSIStorageCapacity{}, func(capacity *storage.CSIStorageCapacity) field.ErrorList {
			return storagevalidation.ValidateCSIStorageCapacity(capacity, storagevalidation.CSIStorageCapacityValidateOptions{})
		})
	case *storagev1.VolumeAttachment:
		return refusedAs(object, &storage.VolumeAttachment{}, storagevalidation.ValidateVolumeAttachment)
	}
	return refusalsOfDevices(object)
}

func refusedAs[T runtime.Object](object runtime.Object, internal T, judge func(T) field.ErrorList) field.ErrorList {
	if err := legacyscheme.Scheme.Convert(object, internal, nil); err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return judge(internal)
}
