"""The base of every section of the configuration file: frozen, camelCase in the file, unknown keys refused."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Section(BaseModel):
    """Built by field name in Python; read by camelCase key from a file (`reading.py` switches names off there).

    A field's docstring describes it in documents and schemas; see `schema.py`.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )
