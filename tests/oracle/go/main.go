// Command oracle says what kube-scheduler's own plug-ins say about a cluster.
//
// Standard input: one cluster a line, a v1 List as `kubectl get ... -o json` prints it. Standard output: for each
// unbound, non-terminal pod of the cluster one line of JSON, and an empty line after each cluster. What is not there:
// sampling (every node is judged), nominations, extenders, queueing.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

// Longest line read: a cluster of 5,000 nodes and 150,000 pods is about 400 MB.
const longestLine = 1 << 30

type mode struct {
	sequential bool
	scores     bool
	replay     bool
	validate   bool
	config     string
	gates      string
}

func main() {
	var asked mode
	flag.BoolVar(&asked.sequential, "sequential", false, "put each pod on the first feasible node before judging the next")
	flag.BoolVar(&asked.scores, "scores", false, "print each score plug-in's normalized score of each feasible node")
	flag.BoolVar(&asked.replay, "replay", false, "carry out the list's `steps`, which remove nodes, and judge each pod's destination")
	flag.BoolVar(&asked.validate, "validate", false, "print what an API server would refuse, as lines with a key `invalid`, and judge no cluster with any")
	flag.StringVar(&asked.config, "config", "", "a KubeSchedulerConfiguration whose first profile judges; the default profile without")
	flag.StringVar(&asked.gates, "feature-gates", "", "feature gates of scheduler and API server, as Name=true,Name=false")
	flag.Parse()
	if err := utilfeature.DefaultMutableFeatureGate.Set(asked.gates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The plug-ins log what they think of a node; only what they return is wanted here.
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	var logging flag.FlagSet
	klog.InitFlags(&logging)
	if err := logging.Set("stderrthreshold", "FATAL"); err != nil {
		panic(err)
	}
	if err := serve(context.Background(), asked, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, asked mode, input io.Reader, output io.Writer) error {
	judges, err := newBench(ctx, asked.config)
	if err != nil {
		return err
	}
	answers := bufio.NewWriter(output)
	lines := json.NewEncoder(answers)
	for line := range readAhead(input) {
		if line.err != nil {
			return line.err
		}
		if err := answer(ctx, judges, asked, line.text, lines); err != nil {
			if err := lines.Encode(map[string]string{"failed": err.Error()}); err != nil {
				return err
			}
		}
		if _, err := answers.WriteString("\n"); err != nil {
			return err
		}
		if err := answers.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func answer(ctx context.Context, judges *bench, asked mode, text []byte, lines *json.Encoder) error {
	cluster, err := decode(text)
	if err != nil {
		return err
	}
	if asked.validate {
		refusals := cluster.refusals(ctx)
		for _, refusal := range refusals {
			if err := lines.Encode(map[string]string{"invalid": refusal}); err != nil {
				return err
			}
		}
		if len(refusals) > 0 {
			// Plug-ins may panic on what an API server would not have stored: a selector without an expression.
			return nil
		}
	}
	if err := cluster.complete(ctx); err != nil {
		return err
	}
	tell := func(line any) error { return lines.Encode(line) }
	if asked.replay {
		return judges.replay(ctx, cluster, tell)
	}
	return judges.judge(ctx, cluster, asked, tell)
}

type inputLine struct {
	text []byte
	err  error
}

// readAhead reads the next lines while a cluster is judged, so that who writes them need not wait.
func readAhead(input io.Reader) <-chan inputLine {
	read := make(chan inputLine, 4)
	go func() {
		defer close(read)
		scanner := bufio.NewScanner(input)
		scanner.Buffer(make([]byte, 1<<20), longestLine)
		for scanner.Scan() {
			read <- inputLine{text: append([]byte(nil), scanner.Bytes()...)}
		}
		if err := scanner.Err(); err != nil {
			read <- inputLine{err: fmt.Errorf("reading standard input: %w", err)}
		}
	}()
	return read
}
