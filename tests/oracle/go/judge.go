package main

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// verdict is one node's rejection.
type verdict struct {
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
	Code    string   `json:"code"`
}

// placement is the line of a pod. Failed is set where a plug-in returned an error, which ends the pod's cycle.
type placement struct {
	Pod      string             `json:"pod"`
	Feasible []string           `json:"feasible"`
	Rejected map[string]verdict `json:"rejected"`
	Failed   string             `json:"failed,omitempty"`
}

// landing is the line of a pod in sequential mode.
type landing struct {
	Pod     string   `json:"pod"`
	Node    *string  `json:"node"`
	Devices []device `json:"devices,omitempty"`
	Failed  string   `json:"failed,omitempty"`
}

// scoring is the line of a pod in scores mode: plug-ins that skipped the pod are absent.
type scoring struct {
	Pod    string                      `json:"pod"`
	Scores map[string]map[string]int64 `json:"scores"`
	Failed string                      `json:"failed,omitempty"`
}

// judge prints the line of each pod that waits for a node, in the file's order.
func (b *bench) judge(ctx context.Context, c *cluster, asked mode, tell func(any) error) error {
	court, adjourn, err := b.seat(ctx, c)
	if err != nil {
		return err
	}
	defer adjourn()
	for _, pod := range c.pods {
		if pod.Spec.NodeName != "" || finished(pod) {
			continue
		}
		if asked.sequential && untried(pod) {
			if err := tell(landing{Pod: nameOf(pod)}); err != nil {
				return err
			}
			continue
		}
		state := framework.NewCycleState()
		found := court.place(ctx, state, pod)
		line := any(found)
		switch {
		case asked.sequential:
			line, err = court.land(ctx, state, pod, found)
		case asked.scores:
			line = court.score(ctx, state, pod, found)
		}
		if err != nil {
			return err
		}
		if err := tell(line); err != nil {
			return err
		}
	}
	return nil
}

func nameOf(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// untried says whether the scheduler passes over the pod (skipPodSchedule, and the plug-in SchedulingGates).
func untried(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0
}

// place is findNodesThatFitPod of the scheduler without its sampling: PreFilter once, Filter on every node.
func (c *court) place(ctx context.Context, state fwk.CycleState, pod *v1.Pod) placement {
	line := placement{Pod: nameOf(pod), Feasible: []string{}, Rejected: map[string]verdict{}}
	allowed, status, narrowing := c.framework.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			line.Failed = status.Message()
			return line
		}
		for _, node := range c.nodes {
			line.Rejected[node.Name] = verdictOf(status, narrowing)
		}
		return line
	}
	for _, node := range c.nodes {
		status := c.filter(ctx, state, pod, allowed, narrowing, node)
		switch {
		case status.IsSuccess():
			line.Feasible = append(line.Feasible, node.Name)
		case status.IsRejected():
			line.Rejected[node.Name] = verdictOf(status, narrowing)
		default:
			return placement{Pod: line.Pod, Feasible: []string{}, Rejected: map[string]verdict{}, Failed: status.Message()}
		}
	}
	return line
}

func (c *court) filter(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, allowed *preFilterResult, narrowing sets.Set[string], node *v1.Node,
) *fwk.Status {
	if !allowed.AllNodes() && !allowed.NodeNames.Has(node.Name) {
		// The words of findNodesThatFitPod for the nodes that PreFilter left out.
		reason := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowing))
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	info, err := c.snapshot.Get(node.Name)
	if err != nil {
		return fwk.AsStatus(err)
	}
	return c.framework.RunFilterPlugins(ctx, state, pod, info)
}

// verdictOf names the plug-in; where the framework itself speaks (a node that PreFilter left out), those that did.
func verdictOf(status *fwk.Status, narrowing sets.Set[string]) verdict {
	plugin := status.Plugin()
	if plugin == "" {
		plugin = strings.Join(sets.List(narrowing), ",")
	}
	return verdict{Plugin: plugin, Reasons: status.Reasons(), Code: status.Code().String()}
}

// land puts the pod on its first feasible node as the scheduler does: the Reserve plug-ins, then the cache.
func (c *court) land(ctx context.Context, state fwk.CycleState, pod *v1.Pod, found placement) (landing, error) {
	if len(found.Feasible) == 0 {
		return landing{Pod: found.Pod, Failed: found.Failed}, nil
	}
	node := found.Feasible[0]
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	if status := c.framework.RunReservePluginsReserve(ctx, state, assumed, node); !status.IsSuccess() {
		return landing{Pod: found.Pod, Failed: "reserve: " + status.Message()}, nil
	}
	logger := klog.FromContext(ctx)
	if err := c.cache.AssumePod(logger, assumed); err != nil {
		return landing{}, err
	}
	got, err := c.devices.publish(assumed)
	if err != nil {
		return landing{}, err
	}
	return landing{Pod: found.Pod, Node: &node, Devices: got}, c.cache.UpdateSnapshot(logger, c.snapshot)
}

// score runs PreScore, Score and NormalizeScore over the feasible nodes; the profile's weights are taken out again.
func (c *court) score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, found placement) scoring {
	line := scoring{Pod: found.Pod, Scores: map[string]map[string]int64{}, Failed: found.Failed}
	var infos []fwk.NodeInfo
	for _, name := range found.Feasible {
		info, err := c.snapshot.Get(name)
		if err != nil {
			line.Failed = err.Error()
			return line
		}
		infos = append(infos, info)
	}
	if len(infos) == 0 {
		return line
	}
	if status := c.framework.RunPreScorePlugins(ctx, state, pod, infos); !status.IsSuccess() {
		line.Failed = status.Message()
		return line
	}
	scored, status := c.framework.RunScorePlugins(ctx, state, pod, infos)
	if !status.IsSuccess() {
		line.Failed = status.Message()
		return line
	}
	for _, node := range scored {
		for _, plugin := range node.Scores {
			if line.Scores[plugin.Name] == nil {
				line.Scores[plugin.Name] = map[string]int64{}
			}
			line.Scores[plugin.Name][node.Name] = plugin.Score / c.weights[plugin.Name]
		}
	}
	return line
}
