"""`slackwater serve`: runs the service."""

import argparse
import os
import sys
from functools import partial

from slackwater.cli.commands.output import CommandFailed, messages, need_unix, settings_from


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "serve",
        help="run the service",
        epilog="example: slackwater serve --config slackwater.yaml --kubeconfig ~/.kube/config",
        description="Runs the service until SIGTERM or Ctrl-C. Without --config all defaults hold (`slackwater config "
        "schema` lists them); a changed file takes effect without a restart where that is safe.",
    )
    parser.add_argument("--config", metavar="F", help="configuration file, YAML or JSON")
    parser.add_argument(
        "--shadow",
        action="store_true",
        help="only watch, plan and explain, and write nothing; as `mode: shadow` in the file. Without --config its autoscaler "
        "is on, and node groups are those that labels of nodes name",
    )
    parser.add_argument("--kubeconfig", metavar="F", help="how to reach the API server; without it the Pod's account")
    parser.add_argument("--log-format", choices=("json", "console"), help="default: console on a terminal, json anywhere else")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    need_unix("serve")
    from slackwater.app.settings import SettingsError, unsupported

    if args.config == "-":
        raise CommandFailed(["--config: got -, want a file: it is watched for changes"])
    overrides = {"mode": "shadow"} if args.shadow else {}
    settings = settings_from(args.config).model_copy(update=overrides)
    if args.shadow and args.config is None:  # without the autoscaler it would have nothing to show
        settings = settings.model_copy(update={"autoscaler": settings.autoscaler.model_copy(update={"enabled": True})})
    if problems := unsupported(settings):
        raise CommandFailed([f"{args.config}: {problem}" for problem in problems])

    import anyio

    from slackwater.adapters.http.certificates import ListenError
    from slackwater.adapters.kube.errors import KubeConfigError
    from slackwater.app.clouds import missing_extra
    from slackwater.app.prices import price_book_of
    from slackwater.app.process import serve, serve_shadow
    from slackwater.app.scheduler_config.filters_and_scores import filter_profiles_of, score_profile_of
    from slackwater.cli.commands.logs import set_up_logs
    from slackwater.runtime.record_file import RecordError

    if (missing := missing_extra(settings)) is not None:
        raise CommandFailed([f"{args.config}: {missing}"])
    try:
        score_profile_of(settings)
        filter_profiles_of(settings)
        price_book_of(settings)
    except SettingsError as err:
        raise CommandFailed(err.lines()) from err
    if args.kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise CommandFailed(
            ["got no --kubeconfig, and this is no Pod with an account: want --kubeconfig F, such as ~/.kube/config"]
        )
    set_up_logs(args.log_format or ("console" if sys.stderr.isatty() else "json"))
    refused: list[str] = []
    try:
        paths = {"config_path": args.config, "kubeconfig": args.kubeconfig}
        shadow = settings.mode == "shadow"
        run_it = partial(serve_shadow, settings, overrides=overrides, **paths) if shadow else partial(serve, settings, **paths)
        anyio.run(run_it, backend_options={"use_uvloop": True})
    except* (KubeConfigError, ListenError, RecordError) as group:
        refused = messages(group)
    if refused:
        raise CommandFailed(refused)
    return 0
