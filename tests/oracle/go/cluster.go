package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"

	// Kinds that the scheme has to know, with their defaults.
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// cluster is the objects of one file, in the file's order.
type cluster struct {
	objects []runtime.Object
	nodes   []*v1.Node
	pods    []*v1.Pod
	steps   []step
}

// decode reads a v1 List whose items are of any kinds the scheme knows; fields that the types lack are ignored, as
// the API server does. Nothing is defaulted yet.
func decode(text []byte) (*cluster, error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
		Steps []step            `json:"steps"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("a cluster is a v1 List as JSON: %w", err)
	}
	found := &cluster{steps: list.Steps}
	for i, item := range list.Items {
		var meta runtime.TypeMeta
		if err := json.Unmarshal(item, &meta); err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		object, err := legacyscheme.Scheme.New(meta.GroupVersionKind())
		if err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		if err := json.Unmarshal(item, object); err != nil {
			return nil, fmt.Errorf("items[%d], a %s: %w", i, meta.Kind, err)
		}
		found.add(object)
	}
	return found, nil
}

func (c *cluster) add(object runtime.Object) {
	c.objects = append(c.objects, object)
	switch typed := object.(type) {
	case *v1.Node:
		c.nodes = append(c.nodes, typed)
	case *v1.Pod:
		c.pods = append(c.pods, typed)
	}
}

// complete does to every object what the API server does before the scheduler sees it: defaults, and for pods the
// merge of matchLabelKeys and the two default tolerations.
func (c *cluster) complete(ctx context.Context) error {
	for _, object := range c.objects {
		legacyscheme.Scheme.Default(object)
		if err := storeDevices(ctx, object); err != nil {
			return fmt.Errorf("a %s: %w", kindOf(object), err)
		}
		// kube-scheduler 1.34 assumes volumes by versions, which a file written by hand lacks.
		if named, err := meta.Accessor(object); err == nil && named.GetResourceVersion() == "" {
			named.SetResourceVersion("1")
		}
	}
	for _, pod := range c.pods {
		if pod.UID == "" {
			// A file written by hand has none; the scheduler's cache knows pods by it.
			pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
		}
		if err := admit(ctx, pod); err != nil {
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// admit runs the real creation strategy, which also resets what a created pod cannot have: that is put back.
func admit(ctx context.Context, pod *v1.Pod) error {
	var internal core.Pod
	if err := legacyscheme.Scheme.Convert(pod, &internal, nil); err != nil {
		return err
	}
	if err := tolerate(ctx, &internal); err != nil {
		return err
	}
	podregistry.Strategy.PrepareForCreate(ctx, &internal)
	status, meta := pod.Status, pod.ObjectMeta
	if err := legacyscheme.Scheme.Convert(&internal, pod, nil); err != nil {
		return err
	}
	pod.Status, pod.ObjectMeta = status, meta
	return readBack(pod)
}

// readBack writes the pod and reads it again, which brings quantities into their canonical form ("2.5Gi" becomes 2560Mi). One
// that is not canonical shares its digits between copies: kube-scheduler would add to the original.
func readBack(pod *v1.Pod) error {
	text, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	*pod = v1.Pod{}
	return json.Unmarshal(text, pod)
}

func tolerate(ctx context.Context, pod *core.Pod) error {
	plugin := defaulttolerationseconds.NewDefaultTolerationSeconds()
	plugin.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	kind, resource := core.Kind("Pod").WithVersion("v1"), core.Resource("pods").WithVersion("v1")
	request := admission.NewAttributesRecord(
		pod, nil, kind, pod.Namespace, pod.Name, resource, "", admission.Create, nil, false, nil)
	return plugin.Admit(ctx, request, nil)
}

func kindOf(object runtime.Object) string {
	return reflect.TypeOf(object).Elem().String()
}
