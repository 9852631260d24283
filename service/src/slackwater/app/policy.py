"""Settings -> what the world and the dispatcher are told: the only translation between the file's words and the core's."""

from slackwater.app.settings import Settings
from slackwater.decide.migration.policy import MigrationPolicy
from slackwater.decide.placement.scores import ScoreCurve
from slackwater.ledger.ledger import NodePolicy
from slackwater.model.resources import Amounts
from slackwater.run.dispatcher import DispatcherConfig
from slackwater.world.policy import Policy, PreemptionPolicy, VerticalPolicy
from slackwater_protocol.durations import seconds

_PPM = 1_000_000


def policy_of(settings: Settings) -> Policy:
    """What the world does."""
    nodes, extender, vertical, migration = settings.nodes, settings.extender, settings.vertical, settings.migration
    preemption = settings.preemption
    return Policy(
        nodes=NodePolicy(
            watermark_cpu_ppm=round(nodes.watermark.cpu * _PPM),
            watermark_memory_ppm=round(nodes.watermark.memory * _PPM),
            system=Amounts(nodes.system.cpu, nodes.system.memory),
        ),
        curve=ScoreCurve(min_usage=nodes.score.min_usage, max_usage=nodes.score.max_usage, peak=nodes.score.peak),
        randomize_scores=nodes.score.randomize,
        missing_requests=settings.vertical.missing_requests,
        scheduler_name=settings.scheduler_name,
        vertical=VerticalPolicy(
            unit=Amounts(vertical.compute_unit.vcpus, vertical.compute_unit.mem), max_step_units=vertical.max_step_units
        ),
        migration=MigrationPolicy(
            enabled=migration.enabled,
            max_concurrent=migration.max_concurrent,
            max_per_source=migration.max_per_source,
            max_per_target=migration.max_per_target,
            weight_ppm=round(migration.capacity_pressure_weight * _PPM),
            sustained_seconds=seconds(migration.capacity_pressure_time),
        ),
        preemption=PreemptionPolicy(
            enabled=preemption.enabled,
            asynchronous=settings.feature_gates.async_preemption,
            timeout_seconds=seconds(preemption.timeout),
            patience_seconds=seconds(preemption.patience),
            max_running=preemption.max_concurrent,
        ),
        hold_seconds=seconds(extender.hold_timeout),
        denial_seconds=seconds(extender.denial_timeout),
    )


def dispatcher_config_of(settings: Settings) -> DispatcherConfig:
    """How wide and how long API writes may be. A bind is answered before kube-scheduler gives its call up."""
    return DispatcherConfig(
        max_binds=settings.kube.max_concurrent_binds,
        max_writes=settings.kube.max_concurrent_writes,
        max_preemptions=settings.kube.max_concurrent_preemption_writes,
        bind_seconds=answer_seconds_of(settings),
        write_seconds=seconds(settings.kube.write_deadline),
    )


def answer_seconds_of(settings: Settings) -> float:
    """How long an answer that waits for the API server may take."""
    return 0.8 * seconds(settings.extender.http_timeout)
