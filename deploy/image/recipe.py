"""What the image is made of, as values: Debian's packages, what is left out of them, and how the container runs.

Changed here, it changes in `make image` and in deploy/Dockerfile, which runs the same code. Standard library only: the
Dockerfile's first stage has nothing else.
"""

from typing import Final

SUITE: Final = "trixie"
PYTHON: Final = "3.13"
ARCHITECTURES: Final = {"amd64": "x86_64", "arm64": "aarch64"}  #: Debian's names, and those of wheels and of libraries' folders
#: The latest C library that wheels may need: not later than that of the suite, 2.41, and one that uv knows.
GLIBC: Final = "2_40"

#: What is asked for; what they depend on comes with them.
PACKAGES: Final = (
    "base-files",  # /etc/os-release, by which scanners know the distribution
    f"python{PYTHON}-minimal",
    f"libpython{PYTHON}-stdlib",
    "libstdc++6",  # numpy
)
#: Dependencies that stay out, with the reason. Each must be among what Debian's resolver brings.
LEFT_OUT: Final = {
    "debconf": "only maintainer scripts use it, and none is run",
    "libdb5.3t64": "the module dbm is not used",
    "libncursesw6": "the modules curses and readline are not used",
    "libreadline8t64": "the modules curses and readline are not used",
    "libsqlite3-0": "the module sqlite3 is not used",
    "libtinfo6": "the modules curses and readline are not used",
    "mawk": "no script of the image needs awk",
    "media-types": "the module mimetypes has a list of its own",
    "openssl-provider-legacy": "algorithms that no connection here may use",
    "readline-common": "the modules curses and readline are not used",
    "tzdata": "the wheel tzdata has the same",
}
_LIBRARY: Final = f"usr/lib/python{PYTHON}"
#: Paths of the packages that are left out, as patterns of fnmatch: `*` matches `/` too. Each must match something.
DROPPED: Final = (
    "usr/share/man/*",
    "usr/share/doc/*/[!c]*",  # all but `copyright`
    "usr/share/doc/*/changelog*",
    "usr/share/lintian/*",
    "usr/share/gcc/*",
    "usr/share/gdb/*",
    "usr/share/base-files/*",
    "usr/share/binfmts/*",
    "usr/lib/*/gconv/*",  # character sets of the C library; Python has its own
    f"{_LIBRARY}/pydoc_data/*",
    f"{_LIBRARY}/sqlite3/*",
    f"{_LIBRARY}/curses/*",
    f"{_LIBRARY}/lib-dynload/_curses*",
    f"{_LIBRARY}/lib-dynload/_dbm*",
    f"{_LIBRARY}/lib-dynload/_sqlite3*",
    f"{_LIBRARY}/lib-dynload/readline*",
    "etc/update-motd.d/*",
    f"etc/python{PYTHON}/*",  # only for a crash reporter
    f"{_LIBRARY}/sitecustomize.py",  # leads to it
)

DISTRIBUTIONS: Final = ("slackwater_protocol", "slackwater")
EXTRAS: Final = "aws,externalgrpc,solver"
#: Models of AWS' services that stay, of the four hundred of botocore: what the provider aws calls, and what gives credentials.
AWS_SERVICES: Final = frozenset({"autoscaling", "ec2", "eks", "sqs", "sso", "sso-oidc", "sts"})
#: Where Debian's Python looks for what was not installed by Debian's packages.
SITE: Final = f"usr/local/lib/python{PYTHON}/dist-packages"
SCRIPTS: Final = "usr/local/bin"
INTERPRETER: Final = f"/usr/bin/python{PYTHON}"

#: Every file of the image has this time, so that layers whose content did not change keep their digest: 1980-01-01.
TIME: Final = 315532800

USER: Final = "65532:65532"  #: a number, so that runAsNonRoot is checked without reading /etc/passwd
ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",  # the root file system is read-only; all bytecode is there already
    "PYTHONUNBUFFERED": "1",
    "SSL_CERT_FILE": f"/{SITE}/certifi/cacert.pem",  # the public authorities, for kubeconfigs that name none
}
ENTRYPOINT: Final = (f"/{SCRIPTS}/slackwater",)
COMMAND: Final = ("serve",)
_NO_LOGIN: Final = "/usr/sbin/nologin"
#: Files that no package has.
FILES: Final = {
    "etc/passwd": f"root:x:0:0:root:/root:{_NO_LOGIN}\nslackwater:x:65532:65532:slackwater:/nonexistent:{_NO_LOGIN}\n",
    "etc/group": "root:x:0:\nslackwater:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
