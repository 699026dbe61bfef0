"""What all mappings of a scenario file share: frozen, no unknown key, written without defaults."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Mapping(BaseModel):
    """A mapping of the file: frozen, no key that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quiet: ClassVar[frozenset[str]] = frozenset()
    """Keys that are written down only where they are not at their default."""

    def is_written(self, key: str) -> bool:
        """Tell whether a key is written down."""
        return key not in self.quiet or getattr(self, key) != type(self).model_fields[key].default

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if self.is_written(key)}
