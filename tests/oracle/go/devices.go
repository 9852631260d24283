package main

import (
	"context"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	resource "k8s.io/kubernetes/pkg/apis/resource"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"k8s.io/apimachinery/pkg/types"
)

// device is a device that a pod got, as sequential mode prints it.
type device struct {
	Claim   string `json:"claim"`
	Request string `json:"request"`
	Device  string `json:"device"`
}

// devices is the scheduler's own manager of claims; it also notes which claims Reserve has allocated.
type devices struct {
	sharedDRAManager
	cache   *assumecache.AssumeCache
	tracker *noting
}

// noting passes everything on, and keeps the claims that were allocated since the last look.
type noting struct {
	resourceClaimTracker
	allocated []*resourcev1.ResourceClaim
}

func (n *noting) SignalClaimPendingAllocation(claimUID types.UID, claim *resourcev1.ResourceClaim) error {
	n.allocated = append(n.allocated, claim)
	return n.resourceClaimTracker.SignalClaimPendingAllocation(claimUID, claim)
}

func (d *devices) ResourceClaims() resourceClaimTracker { return d.tracker }

func newDevices(ctx context.Context, factory informers.SharedInformerFactory) (*devices, error) {
	resources := factory.Resource().V1()
	tracker, err := resourceslicetracker.StartTracker(ctx, trackerOptions(factory))
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), resources.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, claims, tracker, factory)
	if handler, ok := classHandler(manager); ok {
		if _, err := resources.DeviceClasses().Informer().AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	return &devices{sharedDRAManager: manager, cache: claims, tracker: &noting{resourceClaimTracker: manager.ResourceClaims()}}, nil
}

// numbered gives claims a resource version, without which the scheduler's cache takes no newer one.
func numbered(objects []runtime.Object) []runtime.Object {
	for _, object := range objects {
		if claim, isClaim := object.(*resourcev1.ResourceClaim); isClaim {
			if _, err := strconv.ParseInt(claim.ResourceVersion, 10, 64); err != nil {
				claim.ResourceVersion = "1"
			}
			if claim.UID == "" {
				claim.UID = types.UID("ResourceClaim/" + claim.Namespace + "/" + claim.Name)
			}
		}
	}
	return objects
}

// publish does what PreBind does once Reserve has allocated claims: other pods may use them from then on. The claim for
// extended resources stays in flight, which is enough: no other pod can use it. It answers the devices of the pod.
func (d *devices) publish(pod *v1.Pod) ([]device, error) {
	allocated := d.tracker.allocated
	d.tracker.allocated = nil
	var extended []device
	for _, claim := range allocated {
		if _, err := d.cache.Get(claim.Namespace + "/" + claim.Name); err != nil {
			extended = append(extended, devicesOf(claim)...)
			continue
		}
		published := claim.DeepCopy()
		published.Status.ReservedFor = append(published.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
		if err := d.cache.Assume(published); err != nil {
			return nil, err
		}
		arrived(d.tracker, claim.UID)
	}
	var all []device
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue
		}
		claim, err := d.tracker.Get(pod.Namespace, *name)
		if err != nil {
			return nil, err
		}
		all = append(all, devicesOf(claim)...)
	}
	return append(all, extended...), nil
}

func devicesOf(claim *resourcev1.ResourceClaim) []device {
	var found []device
	if claim.Status.Allocation == nil {
		return nil
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		found = append(found, device{
			Claim: claim.Name, Request: result.Request, Device: result.Driver + "/" + result.Pool + "/" + result.Device,
		})
	}
	return found
}

func refusalsOfDevices(object runtime.Object) field.ErrorList {
	switch object.(type) {
	case *resourcev1.ResourceSlice:
		return refusedAs(object, &resource.ResourceSlice{}, func(slice *resource.ResourceSlice) field.ErrorList {
			return resourcevalidation.ValidateResourceSlice(slice)
		})
	case *deviceTaintRule:
		return refusedAs(object, &resource.DeviceTaintRule{}, func(rule *resource.DeviceTaintRule) field.ErrorList {
			return resourcevalidation.ValidateDeviceTaintRule(rule)
		})
	case *resourcev1.DeviceClass:
		return refusedAs(object, &resource.DeviceClass{}, func(class *resource.DeviceClass) field.ErrorList {
			return resourcevalidation.ValidateDeviceClass(class)
		})
	case *resourcev1.ResourceClaimTemplate:
		return refusedAs(object, &resource.ResourceClaimTemplate{}, func(template *resource.ResourceClaimTemplate) field.ErrorList {
			return resourcevalidation.ValidateResourceClaimTemplate(template)
		})
	case *resourcev1.ResourceClaim:
		return refusedAs(object, &resource.ResourceClaim{}, func(claim *resource.ResourceClaim) field.ErrorList {
			before := claim.DeepCopy()
			before.Status = resource.ResourceClaimStatus{}
			claim.ResourceVersion, before.ResourceVersion = "1", "1"
			return append(resourcevalidation.ValidateResourceClaim(claim), resourcevalidation.ValidateResourceClaimStatusUpdate(claim, before)...)
		})
	}
	return nil
}
