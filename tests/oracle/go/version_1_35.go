//go:build kubernetes_1_35

package main

import (
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// optionsOfGroups answers nothing: kube-scheduler 1.35 needs none for groups of pods.
func optionsOfGroups(cache.Cache) []frameworkruntime.Option { return nil }
