"""`python -m tests.helm`: renders the chart's defaults into the plain manifests of deploy/."""

from tests.helm.manifests import DEPLOY, manifests
from tests.helm.program import build

for path, text in manifests(build()).items():
    (DEPLOY / path).write_text(text, encoding="utf-8")
    print(DEPLOY.name + "/" + path)
