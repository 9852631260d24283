package main

import (
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// kinds are those the plug-ins look up; a cluster may hold others, which nobody reads.
var kinds = []runtime.Object{
	&v1.Node{}, &v1.Pod{}, &v1.Namespace{}, &v1.PersistentVolume{}, &v1.PersistentVolumeClaim{},
	&v1.Service{}, &v1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
	&storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{}, &storagev1.CSIStorageCapacity{},
	&storagev1.VolumeAttachment{}, &policyv1.PodDisruptionBudget{},
	&resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{}, &resourcev1.DeviceClass{}, &deviceTaintRule{},
}

// bench is what all clusters share.
type bench struct {
	profile  config.KubeSchedulerProfile
	registry frameworkruntime.Registry
	client   kubernetes.Interface
	recorder *metrics.MetricAsyncRecorder
}

// newBench reads the first profile of the file, or takes the default one where there is no file.
func newBench(ctx context.Context, file string) (*bench, error) {
	metrics.Register()
	configuration, err := readConfiguration(file)
	if err != nil {
		return nil, err
	}
	// Nothing that runs here calls an API server; the plug-ins only want a client to hold.
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "127.0.0.1:1"})
	if err != nil {
		return nil, err
	}
	return &bench{
		profile:  configuration.Profiles[0],
		registry: plugins.NewInTreeRegistry(),
		client:   client,
		recorder: metrics.NewMetricsAsyncRecorder(1000, 1<<40, ctx.Done()),
	}, nil
}

func readConfiguration(file string) (*config.KubeSchedulerConfiguration, error) {
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		read, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
		if err != nil {
			return nil, err
		}
		configuration, ok := read.(*config.KubeSchedulerConfiguration)
		if !ok || len(configuration.Profiles) == 0 {
			return nil, fmt.Errorf("%s: want a KubeSchedulerConfiguration with a profile", file)
		}
		return configuration, nil
	}
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var defaults config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &defaults, nil); err != nil {
		return nil, err
	}
	return &defaults, nil
}

// court is the real framework over one cluster.
type court struct {
	framework framework.Framework
	cache     cache.Cache
	snapshot  *cache.Snapshot
	nodes     []*v1.Node
	weights   map[string]int64
	devices   *devices
}

// seat builds a court; the second result stops what it started.
func (b *bench) seat(parent context.Context, c *cluster) (*court, func(), error) {
	ctx, adjourn := context.WithCancel(parent)
	built, err := b.build(ctx, c)
	if err != nil {
		adjourn()
		return nil, nil, err
	}
	return built, adjourn, nil
}

func (b *bench) build(ctx context.Context, c *cluster) (*court, error) {
	factory, err := stillFactory(b.client, kinds, numbered(seen(c.objects)))
	if err != nil {
		return nil, err
	}
	claims, err := newDevices(ctx, factory)
	if err != nil {
		return nil, err
	}
	built := &court{snapshot: cache.NewEmptySnapshot(), nodes: c.nodes, cache: newCache(ctx), devices: claims}
	if err := built.fill(klog.FromContext(ctx), c); err != nil {
		return nil, err
	}
	options := append(optionsOfVersion(factory, built.cache),
		frameworkruntime.WithClientSet(b.client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(built.snapshot),
		frameworkruntime.WithSharedDRAManager(claims),
		frameworkruntime.WithMetricsRecorder(b.recorder),
		frameworkruntime.WithParallelism(1),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
	)
	built.framework, err = frameworkruntime.NewFramework(ctx, b.registry, &b.profile, options...)
	if err != nil {
		return nil, fmt.Errorf("the profile: %w", err)
	}
	built.weights = map[string]int64{}
	for _, plugin := range built.framework.ListPlugins().Score.Enabled {
		built.weights[plugin.Name] = int64(plugin.Weight)
	}
	return built, nil
}

// fill puts the nodes and the bound pods that still run into the scheduler's own cache.
func (c *court) fill(logger klog.Logger, from *cluster) error {
	for _, node := range from.nodes {
		c.cache.AddNode(logger, node)
	}
	for _, pod := range from.pods {
		if pod.Spec.NodeName == "" || finished(pod) {
			continue
		}
		if err := c.cache.AddPod(logger, pod); err != nil {
			return err
		}
	}
	return c.cache.UpdateSnapshot(logger, c.snapshot)
}

// seen leaves out what the scheduler's informers do not see: pods that have finished, and kinds that no plug-in reads.
func seen(objects []runtime.Object) []runtime.Object {
	read := map[string]bool{}
	for _, kind := range kinds {
		read[kindOf(kind)] = true
	}
	var left []runtime.Object
	for _, object := range objects {
		pod, isPod := object.(*v1.Pod)
		if read[kindOf(object)] && !(isPod && finished(pod)) {
			left = append(left, object)
		}
	}
	return left
}
