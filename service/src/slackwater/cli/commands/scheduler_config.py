"""`slackwater scheduler-config`: writes kube-scheduler's configuration file, or checks one."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.cli.commands.output import (
    ANSWERED_NO,
    CommandFailed,
    add_output,
    name_of,
    print_count,
    settings_from,
    show,
    text_of,
)

if TYPE_CHECKING:
    from slackwater.app.scheduler_config.config_tree import Finding
    from slackwater.app.scheduler_config.transport import CertificateNames
    from slackwater.app.settings import Settings


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "scheduler-config",
        help="write kube-scheduler's configuration file, or check one",
        description="Prints a KubeSchedulerConfiguration (YAML) for a kube-scheduler beside this service. With --check "
        "it checks one for the known traps instead; exit code 0: clean, 1: findings, 2: it cannot be read. Advice "
        "alone leaves a file clean.",
    )
    parser.add_argument("--config", metavar="F", help="Slackwater's configuration file; - for stdin")
    parser.add_argument("--kubeconfig", metavar="F", help="path that kube-scheduler reads; without it its Pod's account")
    parser.add_argument("--extender-url", metavar="URL", help="default: the extender listener's address, on loopback")
    parser.add_argument("--write", metavar="F", help="write it into this file instead of printing it")
    parser.add_argument("--check", metavar="F", help="the file to check; - for stdin")
    add_output(parser, "table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.check is not None:
        if args.write is not None:
            raise CommandFailed(["--check and --write: got both, want one of them"])
        return _check(args)
    from slackwater.app.scheduler_config.generate import generate
    from slackwater.app.settings import SettingsError

    try:
        text = generate(settings_from(args.config), kubeconfig=args.kubeconfig, extender_url=args.extender_url)
    except SettingsError as err:
        raise CommandFailed([f"{name_of(args.config)}: {problem}" for problem in err.problems]) from err
    if args.write is None:
        sys.stdout.write(text)
    else:
        _write(args.write, text)
    return 0


def _write(path: str, text: str) -> None:
    """Writes the text to the file. Needed in containers without a shell, where standard output cannot be redirected."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as err:
        raise CommandFailed([f"{path}: {err.strerror or err}, want a file that can be written"]) from err


def _check(args: argparse.Namespace) -> int:
    from slackwater.app.scheduler_config.check import check
    from slackwater.app.settings import UnreadableSettings

    if args.check == args.config == "-":
        raise CommandFailed(["--config and --check: got - twice, want at most one of them from stdin"])
    settings = settings_from(args.config) if args.config is not None else None
    source = name_of(args.check)
    try:
        findings = check(text_of(args.check), settings, certificate=_certificate(settings))
    except UnreadableSettings as err:
        raise CommandFailed([f"{source}: {problem}" for problem in err.problems]) from err
    counted = [finding for finding in findings if finding.counts]
    document = {"file": source, "clean": not counted, "findings": [asdict(finding) for finding in findings]}
    show(args, document, lambda: _table(source, findings))
    print_count(source, "finding", [f"{finding.path or 'the file'} ({finding.trap})" for finding in counted])
    return ANSWERED_NO if counted else 0


def _certificate(settings: "Settings | None") -> "CertificateNames | None":
    """The names in the certificate of the extender listener; None without TLS. If the file cannot be read on this machine,
    prints a note and returns None."""
    from slackwater.app.scheduler_config.transport import certificate_names
    from slackwater.app.settings import UnreadableSettings
    from slackwater.app.settings.reading import read_bytes

    tls = settings.listeners.extender.tls if settings else None
    if tls is None:
        return None
    try:
        return certificate_names(read_bytes(tls.cert_file))
    except (UnreadableSettings, ValueError):
        note = f"note: {tls.cert_file}: no certificate to read here, so its names are not checked"
        print(f"slackwater: {note}", file=sys.stderr)
        return None


def _table(source: str, findings: "list[Finding]") -> list[str]:
    lines = []
    for finding in findings:
        lines.append(f"{finding.severity:8} {finding.path or 'the file'}: {finding.trap}")
        lines.append(f"         why: {finding.why}")
        lines.append(f"         fix: {finding.fix}")
    if not any(finding.counts for finding in findings):
        lines.append(f"{source}: clean")
    return lines
