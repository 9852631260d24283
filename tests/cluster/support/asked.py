"""What the service asked of the API server in other sessions of the same run, and which files of tests those sessions had.

A parallel run has a session, and a control plane, for each worker; the test of rights looks back on all of them. Where
SLACKWATER_TEST_ASKED names a folder, each session keeps what was asked there when its control plane ends. Which objects it
concerned is left out.
"""

import json
import os
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from tests.cluster.support.audit_tail import AuditTail, Request

FOLDER: Final = "SLACKWATER_TEST_ASKED"
USER: Final = "slackwater"


def by_service(log: Path) -> set[Request]:
    """The service's requests in an audit log, each kind once."""
    whole = AuditTail(log, from_beginning=True).read()
    return {replace(request, namespace="", name="") for request in whole if request.user == USER}


def keep(log: Path, *, files: Collection[str]) -> None:
    """Keeps the service's requests of this session for the sessions that follow."""
    if folder := os.environ.get(FOLDER):
        Path(folder).mkdir(parents=True, exist_ok=True)
        document = {"files": sorted(files), "asked": [asdict(request) for request in by_service(log)]}
        (Path(folder) / f"{os.getpid()}.json").write_text(json.dumps(document))


def kept() -> tuple[set[Request], set[str]]:
    """The requests and the files of the sessions before this one."""
    requests: set[Request] = set()
    files: set[str] = set()
    for path in Path(folder).glob("*.json") if (folder := os.environ.get(FOLDER)) else ():
        document = json.loads(path.read_text())
        requests |= {Request(**each) for each in document["asked"]}
        files |= set(document["files"])
    return requests, files
