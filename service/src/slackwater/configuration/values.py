"""The types of values in a configuration file, with their limits (`kind`, `numbers`, `amounts`, `addresses`).

Each type is one pydantic annotation with its limits, its text for "wanted" and its JSON Schema, so that the validation, the
message and the schema agree. Durations become integer nanoseconds, CPU integer milliCPU, memory integer bytes, prices
integer micros, other quantities integer nanos; only shares, factors and weights are floats. `Section` is the base class of the
file's sections.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Strict
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue

from slackwater.configuration.addresses import DNS_LABEL, Address, HostPort
from slackwater.configuration.amounts import Amount, DecimalPrice
from slackwater.configuration.kind import Kind, refused
from slackwater.configuration.numbers import CountOrPercent, Limits, Number, TimeSpan, Whole
from slackwater.configuration.text_tree import Ambiguous
from slackwater_protocol.durations import HOUR, SECOND, Duration
from slackwater_protocol.units import Bytes, MilliCpu, Nanos

_LABEL_VALUE: Final = r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Kind):
    """Text that matches a pattern. `words` describes the pattern in messages."""

    pattern: str
    longest: int
    words: str

    @property
    def wanted(self) -> str:
        return self.words

    def read(self, value: object) -> str:
        if isinstance(value, Ambiguous):
            raise refused(f'"{value.text}" with quotes where text is meant')
        if not isinstance(value, str) or re.fullmatch(self.pattern, value) is None:
            raise refused(self.wanted)
        if len(value) > self.longest:
            raise refused(f"at most {self.longest} characters")
        return value

    def schema(self) -> JsonSchemaValue:
        return {"type": "string", "pattern": f"^{self.pattern}$", "maxLength": self.longest}


Share = Annotated[float, Number(limits=Limits(above=0, at_most=1))]
Fraction = Annotated[float, Number(limits=Limits(at_least=0, at_most=1))]
Weight = Annotated[float, Number(limits=Limits(at_least=0))]
Percent = Annotated[float, Number(limits=Limits(above=0, below=100))]
Count = Annotated[int, Whole(limits=Limits(at_least=0, at_most=1_000_000))]
Few = Annotated[int, Whole(limits=Limits(at_least=0, at_most=100))]
Width = Annotated[int, Whole(limits=Limits(at_least=1, at_most=1_000_000))]
Priority = Annotated[int, Whole(limits=Limits(at_least=-(2**31), at_most=2**31 - 1))]
Multiplier = Annotated[int, Whole(limits=Limits(at_least=1, at_most=100))]
Timeout = Annotated[Duration, TimeSpan(limits=Limits(above=0), example="5s")]
CallTimeout = Annotated[Duration, TimeSpan(limits=Limits(at_least=SECOND, at_most=30 * SECOND), example="5s")]
Delay = Annotated[Duration, TimeSpan(limits=Limits(at_least=0), example="10m")]
Cpu = Annotated[MilliCpu, Amount(of="cpu", above_zero=False, example="250m")]
Memory = Annotated[Bytes, Amount(of="memory", above_zero=False, example="1Gi")]
SomeCpu = Annotated[MilliCpu, Amount(of="cpu", above_zero=True, example="250m")]
SomeMemory = Annotated[Bytes, Amount(of="memory", above_zero=True, example="1Gi")]
Quantity = Annotated[Nanos, Amount(of="any", above_zero=False, example="110")]
Money = Annotated[int, DecimalPrice()]
ListenAddress = Annotated[Address, HostPort()]
Switch = Annotated[bool, Strict()]
SchedulerName = Annotated[
    str,
    Name(
        pattern=rf"{DNS_LABEL}(\.{DNS_LABEL})*",
        longest=63,
        words="lower-case letters, digits, '-' and '.', letters or digits at both ends",
    ),
]
ObjectName = Annotated[
    str,
    Name(pattern=rf"{DNS_LABEL}(\.{DNS_LABEL})*", longest=253, words="a name of lower-case letters, digits, '-' and '.'"),
]
ZoneName = Annotated[str, Name(pattern=r"[A-Za-z0-9_+/-]+", longest=64, words="a time zone such as Europe/Berlin")]
CronSchedule = Annotated[
    str, Name(pattern=r"[@-Za-z0-9*/,# -]+", longest=256, words='a schedule of cron such as "0 9 * * mon-fri"')
]
#: cron counts in minutes.
WindowTime = Annotated[Duration, TimeSpan(limits=Limits(at_least=60 * SECOND, at_most=8784 * HOUR), example="8h")]
NodeShare = Annotated[int | str, CountOrPercent()]
Currency = Annotated[str, Name(pattern=r"[A-Z]{3}", longest=3, words="a currency's code of three capital letters such as USD")]
Namespace = Annotated[str, Name(pattern=DNS_LABEL, longest=63, words="a namespace: lower-case letters, digits and '-'")]
ProviderGroup = Annotated[str, Name(pattern=r"[^\x00-\x20]+", longest=512, words="a provider's name of a group")]
GroupName = Annotated[str, Name(pattern=_LABEL_VALUE, longest=63, words="a label value: letters, digits, '-', '_' and '.'")]
#: Marks the settings that name a file: whoever may suppose a configuration over HTTP may not choose what the service reads.
FILE_PATH: Final = Name(pattern=r"[^\x00-\x1f]+", longest=4096, words="the path of a file")
FilePath = Annotated[str, FILE_PATH]
ServerName = Annotated[str, Name(pattern=r"[A-Za-z0-9.:-]+", longest=253, words="a DNS name or IP address")]
NamePrefix = Annotated[str, Name(pattern=r"[^\x00-\x1f]*", longest=253, words="the beginning of a name")]
AwsRegion = Annotated[str, Name(pattern=r"[a-z]{2,}(-[a-z0-9]+)+", longest=63, words="a region of AWS such as eu-west-1")]
WebAddress = Annotated[str, Name(pattern=r"https?://[^\x00-\x20]+", longest=1024, words="a URL that begins with https://")]
TagKey = Annotated[str, Name(pattern=r"[^\x00-\x1f]+", longest=128, words="the key of a tag of AWS")]
TagValue = Annotated[str, Name(pattern=r"[^\x00-\x1f]*", longest=256, words="the value of a tag of AWS")]
Audience = Annotated[str, Name(pattern=r"[^\x00-\x20]+", longest=253, words="an audience without blanks")]
ServiceAccount = Annotated[
    str,
    Name(
        pattern=rf"{DNS_LABEL}/{DNS_LABEL}(\.{DNS_LABEL})*",
        longest=317,
        words="namespace/name of a ServiceAccount",
    ),
]
LabelText = Annotated[
    str, Name(pattern=rf"({_LABEL_VALUE})?", longest=63, words="a label value (text: quote numbers and true/false)")
]
#: The key of a label or a taint.
QUALIFIED_NAME: Final = Name(
    pattern=rf"({DNS_LABEL}(\.{DNS_LABEL})*/)?{_LABEL_VALUE}",
    longest=317,
    words="a qualified name such as dedicated or example.com/dedicated",
)
QualifiedName = Annotated[str, QUALIFIED_NAME]
TaintPattern = Annotated[
    str,
    Name(
        pattern=r"[A-Za-z0-9*]([A-Za-z0-9*._/-]*[A-Za-z0-9*])?",
        longest=317,
        words="a taint's key such as example.com/booting, in which * stands for any text",
    ),
]


class Section(BaseModel):
    """A section of the configuration file. Python code uses field names; a file must use the camelCase keys.

    A field's docstring becomes its description in docs and schema (`app.settings.reading.schema`).
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )
