"""Puts the docstrings of fields into the models, for documents and schemas. Reading them takes a quarter of the time in which
the service starts, and the service needs none of them: so pydantic's own `use_attribute_docstrings` stays off.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from textwrap import dedent

from pydantic import BaseModel

from slackwater.app.settings.section import Section


@cache
def describe_sections() -> None:
    """Gives each field of each section its docstring as description, once in a process."""
    for model in _below(Section):
        for owner in reversed(model.__mro__):
            if issubclass(owner, Section):
                for name, text in _docstrings(owner).items():
                    model.model_fields[name].description = text
        model.model_rebuild(force=True)


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """All models derived from it, in the order of their definition as far as one is part of another."""
    found = dict.fromkeys(model.__subclasses__())
    for each in list(found):
        found |= dict.fromkeys(_below(each))
    return iter(found)


@cache
def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    (body,) = ast.parse(dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    pairs = zip(body.body, body.body[1:], strict=False)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
