"""The base class of the sections of the configuration file: frozen, camelCase keys in the file, unknown keys refused."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Section(BaseModel):
    """A section of the configuration file. Python code uses field names; a file must use the camelCase keys.

    A field's docstring becomes its description in docs and schema (`app.settings.schema`).
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )
