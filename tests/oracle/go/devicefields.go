package main

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	resource "k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
)

type creation interface {
	PrepareForCreate(ctx context.Context, object runtime.Object)
}

type update interface {
	PrepareForUpdate(ctx context.Context, object, old runtime.Object)
}

// storeDevices takes the fields out of an object that the API server would not store, because a feature gate is off.
func storeDevices(ctx context.Context, object runtime.Object) error {
	switch object.(type) {
	case *resourcev1.ResourceSlice:
		return changed(object, &resource.ResourceSlice{}, func(internal *resource.ResourceSlice) {
			resourceslice.Strategy.PrepareForCreate(ctx, internal)
		})
	case *resourcev1.DeviceClass:
		return changed(object, &resource.DeviceClass{}, func(internal *resource.DeviceClass) {
			deviceclass.Strategy.PrepareForCreate(ctx, internal)
		})
	case *resourcev1.ResourceClaim:
		return changed(object, &resource.ResourceClaim{}, func(internal *resource.ResourceClaim) {
			ofSpec, ofStatus := claimStrategies()
			status := internal.Status
			ofSpec.PrepareForCreate(ctx, internal)
			old := internal.DeepCopy()
			internal.Status = status
			ofStatus.PrepareForUpdate(ctx, internal, old)
		})
	}
	return nil
}

// changed applies a change to the internal form of an object. Its metadata stays as it was.
func changed[T runtime.Object](object runtime.Object, internal T, change func(T)) error {
	if err := legacyscheme.Scheme.Convert(object, internal, nil); err != nil {
		return err
	}
	change(internal)
	switch before := object.(type) {
	case *resourcev1.ResourceSlice:
		meta := before.ObjectMeta
		defer func() { before.ObjectMeta = meta }()
	case *resourcev1.DeviceClass:
		meta := before.ObjectMeta
		defer func() { before.ObjectMeta = meta }()
	case *resourcev1.ResourceClaim:
		meta := before.ObjectMeta
		defer func() { before.ObjectMeta = meta }()
	}
	return legacyscheme.Scheme.Convert(internal, object, nil)
}
