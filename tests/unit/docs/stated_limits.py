"""Texts of pages whose numbers are constants and defaults of the code. What stands for `{}` is compared; test_numbers_in_pages
wants each text on its pages."""

import inspect
from typing import Final

from slackwater.adapters.cloud.aws.provider import CONSISTENT_AFTER_SECONDS
from slackwater.adapters.cloud.karpenter import provider as karpenter_provider
from slackwater.adapters.http import (
    agents,
    application,
    authenticator,
    bounded_http,
    callers,
    extender,
    http_server,
    questions,
    uvicorn_listener,
)
from slackwater.adapters.http.dashboard import routes, update_frames
from slackwater.adapters.http.request_queue import RequestQueue
from slackwater.adapters.kube import eviction_facts
from slackwater.adapters.kube.reflector import ReflectorConfig
from slackwater.app import leader_election, node_use, policies, price_table
from slackwater.app import process as app_process
from slackwater.app.counterfactual.durations import FACTOR
from slackwater.app.offline import scaleup as offline_scaleup
from slackwater.app.offline import workload_explained
from slackwater.app.policies import answer_seconds_of, dispatcher_config_of
from slackwater.app.report.decisions import MOST_LISTED
from slackwater.app.report.report import MONTH_HOURS
from slackwater.app.rounds import engine
from slackwater.app.rounds.virtual_drains import DEFAULT_PACE
from slackwater.app.settings import Settings
from slackwater.app.settings.autoscaling import NodeGroup
from slackwater.app.worth import use
from slackwater.cli.commands import output, worth
from slackwater.cli.commands import report as report_command
from slackwater.cluster import planned_nodes
from slackwater.cluster.nodegroups.status import BackoffPolicy, NodeGroupPolicy
from slackwater.controllers.audit import loop as audit
from slackwater.controllers.consolidation import agreement, choice
from slackwater.controllers.disagreement import state as disagreement
from slackwater.controllers.history import policy as history
from slackwater.controllers.migration import migration_choice
from slackwater.controllers.permits import service as permits
from slackwater.controllers.placement.tried_nodes import MAX_NOMINATIONS
from slackwater.controllers.preemption import activations, preemptors
from slackwater.controllers.preemption import state as preemption
from slackwater.controllers.scaledown.drains.pod_evictions import FORCED_SECONDS
from slackwater.controllers.scaleup import groups as scale_up_groups
from slackwater.controllers.scaleup import growable_groups, new_nodes, plan_events, template, template_nodes
from slackwater.controllers.slack import rate_sizing
from slackwater.fit import drainability, steps
from slackwater.fit.devices import search, selectors
from slackwater.model import pod_constraints
from slackwater.model.prices import FORMULA
from slackwater.runtime import decision_log, dispatcher, intake
from slackwater.runtime.autoscaler import loop_record
from slackwater.runtime.dashboard import pending, series, view
from slackwater.runtime.flows import scheduling_gates
from slackwater.runtime.planner import children, process
from slackwater_protocol.agent import MAX_BODY_BYTES
from slackwater_protocol.durations import seconds
from slackwater_protocol.money import decimal_text
from tests.support import installed
from tests.unit.docs.page_numbers import Stated, stated

_KIB, _MIB = 1 << 10, 1 << 20
_SETTINGS: Final = Settings()
_AUTHENTICATION: Final = authenticator.AuthenticatorConfig()
_AGENTS: Final = agents.AgentLimits()
_AUDIT: Final = installed.AUDIT
_BACKOFF: Final = BackoffPolicy()
_DISPATCHER: Final = installed.DISPATCHER
_DRAINS: Final = installed.DRAIN
_HISTORY: Final = history.HistoryPolicy()
_MIGRATIONS: Final = migration_choice._BACKOFF
_POLICY: Final = installed.POLICY
_QUEUE: Final = {name: each.default for name, each in inspect.signature(RequestQueue).parameters.items()}
_REFLECTOR: Final = ReflectorConfig()
_REFUSALS: Final = NodeGroupPolicy().refusal_backoff
_SHARE: Final = answer_seconds_of(_SETTINGS) / seconds(_SETTINGS.extender.http_timeout)
_BIND_SHARE: Final = dispatcher_config_of(_SETTINGS).bind_seconds / seconds(_SETTINGS.extender.http_timeout)
_WAITED: Final = seconds(_SETTINGS.explain.events_after)
_HEADS: Final = (http_server._MAX_HEAD_BYTES // _KIB, http_server._MAX_HEAD_BYTES // _KIB, bounded_http.MAX_HEAD_BYTES // _KIB)
_ARRIVE: Final = (bounded_http.ARRIVE_SECONDS, _AGENTS.body_seconds, bounded_http.ARRIVE_SECONDS)
_CONNECTIONS: Final = (uvicorn_listener._MAX_CONNECTIONS, leader_election.max_connections(), bounded_http.MAX_CONNECTIONS)
_QUESTIONS: Final = (process._MOST_WAITING - 1, process._QUESTION_WAIT_SECONDS)
_UNREADY: Final = round(100 * loop_record._UNREADY_SHARE)

DISAGREEMENTS: Final[tuple[Stated, ...]] = (
    stated("command", "| {} | answered, and the answer is no", output.ANSWERED_NO),
    stated("command", "| {} | bad input", output.BAD_INPUT),
    stated("command", "| {} | there is no such object", output.NOT_FOUND),
    stated("command", "| {} | nothing answers", output.NO_ANSWER),
    stated("command", "| {} | the account may not ask", output.FORBIDDEN),
    stated("command", "| {} | interrupted", output.INTERRUPTED),
    stated("explain", "for at most {} specs", workload_explained.MOST_ASKED),
    stated("explain", "judges the pod three times, {} s apart", disagreement.LOOK_SECONDS),
    stated("explain", "the same node has to fit for {} s", disagreement.TRIED_SECONDS),
    stated("explain", "by one second for each {} waiting pods", disagreement.TRIED_PER_SECOND),
    stated("explain", "at most {} binds in {} s", disagreement.MOST_BINDS, disagreement._BINDS_SECONDS),
)

LISTENERS: Final[tuple[Stated, ...]] = (
    stated(
        "operations",
        "| connections | {:,}; more: 503 | {:,}; more: 503 | {}; more: 503 |",
        *_CONNECTIONS,
    ),
    stated("SECURITY", "| connections | {:,}, then 503 | {:,}, then 503 | {}, then 503 |", *_CONNECTIONS),
    stated("operations", "| one a connection | {:,}; 503 |", _AGENTS.max_requests),
    stated("agents", "too many requests are in flight ({:,})", _AGENTS.max_requests),
    stated("extender", "while {} binds are in flight", _DISPATCHER.max_binds),
    stated("aws", "{:g} s before the machine stops", FORCED_SECONDS),
    stated("aws", "For {:g} s what Slackwater itself has changed", CONSISTENT_AFTER_SECONDS),
    stated("autoscaler", "counts once it is {:g} s old", installed.PENDING.untried_seconds),
    stated("scaleup", "younger than {:g} s", installed.PENDING.untried_seconds),
    stated("autoscaler", "({:g} s where whole bursts are planned)", policies.BATCH_UNTRIED_SECONDS),
    stated("autoscaler", "until no pod has come for a second, {:g} s at most", policies.BATCH_SECONDS),
    stated("scaleup", "({:g} s with the expander `price`)", policies.BATCH_UNTRIED_SECONDS),
    stated("scaleup", "the first of them is {:g} s old (`settleTime`)", policies.SETTLE_SECONDS),
    stated("scaleup", "or {:g} s with the expander `price`, whose", policies.BATCH_UNTRIED_SECONDS),
    stated("scaleup", "(`maxBatchTime`, {:g} s at most)", policies.BATCH_SECONDS),
    stated("scaleup", "for {:g} s after the node has become ready", planned_nodes.KEPT_SECONDS),
    stated("consolidation", "Of up to {} nodes that may go", choice.FEW),
    stated("consolidation", "saves at least {} % of all money more", round(100 * agreement.MUCH_MORE)),
    stated("autoscaler", "for pods with a GPU {:g} s", installed.PENDING.gpu_settle_seconds),
    stated("scaleup", "with a GPU until it is {:g} s old", installed.PENDING.gpu_settle_seconds),
    stated("operations", "| of one address, once {}/4 are taken | half | half |", round(4 * application._CROWDED)),
    stated("operations", "| path and headers | {} KiB; 431 | {} KiB; 431 | {} KiB; 431 |", *_HEADS),
    stated("SECURITY", "| path and headers | {} KiB, 431 | {} KiB, 431 | {} KiB, 431 |", *_HEADS),
    stated("operations SECURITY", "{:,} bytes are read", MAX_BODY_BYTES),
    stated("agents", "a value that does not end within {:,} bytes", MAX_BODY_BYTES),
    stated("operations SECURITY", "what-if {} MiB", questions.LARGEST_BODY // _MIB),
    stated("operations", "| one body | {} MiB; 413 |", extender._MAX_BODY_BYTES // _MIB),
    stated("SECURITY", "| body | {} MiB, 413 |", extender._MAX_BODY_BYTES // _MIB),
    stated("extender runbooks", "a body above {} MiB", extender._MAX_BODY_BYTES // _MIB),
    stated("operations", "| all bodies together | {} times that; 503 |", extender._BODIES),
    stated("operations", "| a request has to arrive within | {:g} s; 408 | {:g} s; 408 | {:g} s; 408 |", *_ARRIVE),
    stated("SECURITY", "| a request must arrive within | {:g} s, 408 | {:g} s, 408 | {:g} s, 408 |", *_ARRIVE),
    stated("agents", "the body did not arrive within {:g} s", _AGENTS.body_seconds),
    stated("agents", "no decision came within {:g} s", _AGENTS.answer_seconds),
    stated(
        "operations",
        "| idle connections end after | {} min | {} min | {} s |",
        uvicorn_listener._KEEP_ALIVE_SECONDS // 60,
        uvicorn_listener._KEEP_ALIVE_SECONDS // 60,
        uvicorn_listener._APP_KEEP_ALIVE_SECONDS,
    ),
    stated("operations", "| answers unread for {:g} s", http_server.UNREAD_SECONDS),
    stated("operations", "{} wait for at most {:g} s, more: 503", callers._MOST_WAITING, callers._WAIT_SECONDS),
    stated("operations", "| {}, for {:g} min each |", routes.MOST_LISTENERS, routes.LONGEST_SECONDS / 60),
    stated(
        "operations",
        "| one; {} wait for at most {:g} s, an answer takes at most {:g} s; 503",
        *_QUESTIONS,
        process.ANSWER_SECONDS,
    ),
    stated("operations", "preempt: {} wait, for at most {:g} of `httpTimeout`; 503.", _QUEUE["most_waiting"], _SHARE),
    stated("operations", "bind: {:g} s for others' permits, {:g} of `httpTimeout`", permits.RECORD_SECONDS, _BIND_SHARE),
    stated("operations", "| `maxWait` + {:g} s; 503 |", _AGENTS.answer_seconds),
    stated("operations", "in slices of {:g} ms between which", 1000 * _QUEUE["round_seconds"]),
    stated("SECURITY", "| TLS handshake | {:g} s;", uvicorn_listener.HANDSHAKE_SECONDS),
    stated("agents", "A refusal is cached for {:g} s", _AUTHENTICATION.refuse_seconds),
    stated("agents", "At most {} tokens are reviewed at a time", _AUTHENTICATION.max_reviews),
    stated("explain", "up to {} more wait, for {:g} s at most (503)", *_QUESTIONS),
    stated("simulate", "the next ones wait {:g} s at most (503)", process._QUESTION_WAIT_SECONDS),
    stated("worth", "by default a month of {} days", worth.MONTH_DAYS),
    stated("worth", "when the new pod is ready, {:g} s later", DEFAULT_PACE.pod_start),
    stated(
        "worth", "takes {:g} s until its node is ready, and {:g} s to be", DEFAULT_PACE.node_boot, DEFAULT_PACE.node_removal
    ),
    stated("worth", "the {}th percentile of each pod over {} h", use.PERCENT, use.HOURS),
    stated("worth", "(rates over {} minutes)", use.RATE_MINUTES),
    stated("worth", "after the removals of one node in {}", engine.PART),
    stated("report", "by default {} |", report_command.DEFAULT_SINCE),
    stated("report", "for a month of {} hours", MONTH_HOURS),
    stated("report", "has up to {:,}, by time", MOST_LISTED),
    stated("report", "p50, p95 and p99, within {:.0f} %", 100 * (FACTOR - 1)),
    stated("explain simulate", "two minutes and have {} MiB", children.LARGEST_ANSWER // _MIB),
    stated("simulate", "its process may take {} MiB beside what it shares", children.MOST_MEMORY // _MIB),
    stated("scaleup", "A plan of the service has {:,} steps", steps.MOST_STEPS),
    stated("scaleup", "or {:,} rows judged by one rule", steps._ROWS),
    stated("simulate", "a body of more than {} MiB with 413", questions.LARGEST_BODY // _MIB),
    stated("dashboard", "The newest {} decisions of each kind are kept", decision_log._KEPT),
    stated("dashboard", "| open dashboards | {};", routes.MOST_LISTENERS),
    stated("dashboard", "{:,}, with the total number; {} groups of pending pods", view.MOST, pending.MOST_GROUPS),
    stated("dashboard", "{} decisions; {} pods of a drain", update_frames.MOST_DECISIONS, view.MOST_NAMES),
    stated("dashboard", "steps of {} s, a day in steps of {} min", series.HOUR_STEP_SECONDS, series.DAY_STEP_SECONDS // 60),
    stated("dashboard", "a week in steps of {} h", series.WEEK_STEP_SECONDS // 3600),
    stated("dashboard", "are {} values of each", series.STEPS),
    stated("dashboard", "asked again every {} min", round(node_use.AFTER_FAILURE_SECONDS / 60)),
    stated("dashboard", "{:g} s if the client reads nothing", routes._SEND_SECONDS),
    stated("dashboard", "after {:g} s without a message", routes.HEARTBEAT_SECONDS),
)

SERVICE: Final[tuple[Stated, ...]] = (
    stated("operations", "{} s to end, writes {:g} s", uvicorn_listener._GRACE_SECONDS, _DISPATCHER.flush_seconds),
    stated("operations", "first finishes its writes, within {:g} s", _DISPATCHER.flush_seconds),
    stated("operations", "Slackwater waits {:g} s more before it decides", intake.SETTLE_SECONDS),
    stated("operations", "after at most {:g} s", _REFLECTOR.watch_seconds[1] + _REFLECTOR.grace_seconds),
    stated("operations", "after {:g} x `extender.httpTimeout`", _BIND_SHARE),
    stated("operations", "After {:g} s the pod is read", _POLICY.confirm_seconds),
    stated("ARCHITECTURE", "or after {:g} s by reading the pod", _POLICY.confirm_seconds),
    stated("operations", "at first after {:g} s", _REFLECTOR.first_backoff_seconds),
    stated("operations", "at most every {:g} s", _REFLECTOR.longest_backoff_seconds),
    stated("operations", "looked for again every {:g} s", _REFLECTOR.absent_seconds),
    stated("vertical", "looks for its resource types every {:g} s", _REFLECTOR.absent_seconds),
    stated("install", "in pages of {} objects", _REFLECTOR.page_size),
    stated("operations", "checks the sums of {:g} nodes each second", audit._NODES / _AUDIT.sample_seconds),
    stated("operations", "a newer version for more than {:g} s", _AUDIT.settle_seconds),
    stated("install", "An audit (every {:g} m)", seconds(_SETTINGS.audit.interval) / 60),
    stated("operations", "only after {:,} new objects", app_process._GC_THRESHOLDS[0]),
    stated("operations", "at most {:g} MiB in all", sum(history.SLOTS.values()) * _HISTORY.chunk_bytes * 4 / 3 / _MIB),
    stated("operations", "and {} KiB a second on average", _HISTORY.bytes_per_second // _KIB),
    stated("ARCHITECTURE", "a tick every {:g} ms", 1000 * intake.TICK_SECONDS),
    stated("ARCHITECTURE", "are applied {} at a time", intake._SLICE),
    stated("explain operations names", "has waited for {:g} s", _WAITED),
    stated("explain", "of one plan at most {} pods", plan_events._MOST_EVENTS),
)

PLACEMENT: Final[tuple[Stated, ...]] = (
    stated("extender", "within {:g} x `extender.httpTimeout`", _BIND_SHARE),
    stated("extender", "a bind is answered after {:g} of it at the latest", _BIND_SHARE),
    stated("extender", "If the nomination does not appear within {:g} s", preemption._NOMINATED_SECONDS),
    stated("extender", "up to {} while a budget would be violated", preemptors._MOST_SEARCHED),
    stated("extender", "does not ask about the pod within {:g} s", activations._BACKOFF.first_seconds),
    stated("extender", "stays for {:g} minutes, or the node goes", installed.PREEMPTION.timeout / 60),
    stated("extender", "this victim is excluded for {:g} minutes", preemption._STUCK_SECONDS / 60),
    stated("extender", "the pod preempts nobody for {:g} s", preemption._REST_SECONDS),
    stated("extender", "Removing a gate is retried every {:g} s", scheduling_gates._AGAIN_SECONDS),
    stated("extender", "At most {} nodes are tried for one pod", MAX_NOMINATIONS),
    stated("extender", "at most {:g} a second", _DISPATCHER.max_activations / dispatcher._ACTIVATION_SECONDS),
    stated("extender", "with more than {} rules", pod_constraints.MOST_RULES),
    stated(
        "extender",
        "{:g} s after filter ({:g} min for pods with claims",
        _POLICY.in_flight_seconds,
        _POLICY.volumes_seconds / 60,
    ),
    stated(
        "vertical",
        "waits {:g} s, then longer, at most {:g} minutes",
        _MIGRATIONS.first_seconds,
        _MIGRATIONS.longest_seconds / 60,
    ),
    stated("devices", "a search of more than {:,} steps on one node", search._MOST_STEPS),
    stated("devices", "nests deeper than {} levels", selectors._DEEPEST),
    stated("devices", "some {} devices for one pod", search._MOST_DEEP // 2),
    stated("devices", "while it is younger than {:g} minutes", growable_groups._PUBLISHED_WITHIN / 60),
)

AUTOSCALER: Final[tuple[Stated, ...]] = (
    stated(
        "autoscaler",
        "the group backs off, {:g} minutes at first, {:g} at most",
        _BACKOFF.initial / 60,
        _BACKOFF.max / 60,
    ),
    stated("runbooks", "retried after {:g} to {:g} minutes", _BACKOFF.initial / 60, _BACKOFF.max / 60),
    stated("autoscaler", "one loop writes at most {} of each", plan_events._MOST_EVENTS),
    stated("autoscaler", "(more than three and {} %)", _UNREADY),
    stated("runbooks", "More than {} % of the nodes, and more than three, are unready", _UNREADY),
    stated("scaledown", "still there {:g} minutes after it had agreed", _DRAINS.removal_seconds / 60),
    stated("scaledown", "no removal for {:g} minutes, twice as long after each further refusal", _REFUSALS.initial / 60),
    stated("scaledown", "at most {:g} hours, and its drains", _REFUSALS.max / 3600),
    stated("runbooks", "a pause that grows to {:g} hours", _REFUSALS.max / 3600),
    stated(
        "evacuation",
        "is {:g} s past its deletion time plus its grace period ({} s if it has none)",
        drainability._OVERDUE_SECONDS,
        eviction_facts.DEFAULT_GRACE_SECONDS,
    ),
    stated("scaleup", "Up to {} nodes are opened one by one", new_nodes._ONE_BY_ONE),
    stated("scaleup", "CPU and memory within {} %", scale_up_groups._PERCENT),
    stated("scaleup", "all its nodes are {:g} minutes older", template.LATER_SECONDS / 60),
    stated("simulate", "each with up to {:,} nodes", NodeGroup.model_fields["max_size"].default),
    stated("simulate", "A template without a number of pods takes {}, the kubelet's default", rate_sizing._PODS),
    stated("karpenter", "All NodePools together may have {:,} variants", karpenter_provider.MOST_VARIANTS),
    stated("prices", "at most {} MiB and {:,} rows", price_table.LARGEST_FILE // _MIB, price_table.MOST_ROWS),
    stated(
        "prices",
        "costs {} for each CPU, {} for each GiB of memory and {} for each GPU",
        *map(decimal_text, (FORMULA.cpu, FORMULA.memory, FORMULA.gpu)),
    ),
    stated("simulate", "at most {:,} reasons", offline_scaleup._MOST_REASONS),
    stated("simulate", "at most {:,} different reasons", template_nodes._MOST_REFUSALS),
)

STATED: Final = (*DISAGREEMENTS, *LISTENERS, *SERVICE, *PLACEMENT, *AUTOSCALER)
