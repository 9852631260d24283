"""Which names a certificate is valid for, as Go's TLS sees it."""

import pytest
import trustme

from slackwater.app.scheduler_config.transport import CertificateNames, certificate_names


def test_the_names_are_the_subject_alternative_ones() -> None:
    issued = trustme.CA().issue_cert("slackwater.kube-system.svc", "*.example.com", "127.0.0.1", "::1")
    names = certificate_names(issued.cert_chain_pems[0].bytes())
    assert set(names.dns) == {"slackwater.kube-system.svc", "*.example.com"}
    assert set(names.addresses) == {"127.0.0.1", "::1"}


def test_what_is_no_certificate_is_refused() -> None:
    with pytest.raises(ValueError, match="PEM"):
        certificate_names(b"nothing")


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("a.example.com", True),
        ("A.Example.com.", True),
        ("b.a.example.com", False),
        ("example.com", False),
        ("svc", True),
        ("127.0.0.1", True),
        ("0:0:0:0:0:0:0:1", True),
        ("127.0.0.2", False),
    ],
)
def test_a_name_is_covered(name: str, want: bool) -> None:
    names = CertificateNames(dns=("*.example.com", "svc"), addresses=("127.0.0.1", "::1"))
    assert names.cover(name) is want


def test_a_certificate_without_names_covers_nothing_and_says_so() -> None:
    names = CertificateNames(dns=(), addresses=())
    assert not names.cover("a")
    assert str(names) == "no name at all"
