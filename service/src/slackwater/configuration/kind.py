"""What the type of a value in the configuration file is: how it is read, written and described."""

from abc import ABC, abstractmethod
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

#: The type of the errors raised here; `app.settings.reading` reads `wanted` from their context.
REFUSED: Final = "refused"


def refused(wanted: str) -> PydanticCustomError:
    return PydanticCustomError(REFUSED, "want {wanted}", {"wanted": wanted})


class Kind(ABC):
    """A pydantic annotation for one type of value.

    `read` converts a value of the file to its Python value, or raises the error of `refused`; `write` is the reverse.
    """

    @property
    @abstractmethod
    def wanted(self) -> str: ...

    @abstractmethod
    def read(self, value: object) -> object: ...

    def write(self, value: Any) -> object:
        return value

    @abstractmethod
    def schema(self) -> JsonSchemaValue: ...

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(self.write, when_used="json")
        )

    def __get_pydantic_json_schema__(self, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        return self.schema()
