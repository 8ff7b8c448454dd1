"""OutputTag: the name and type of a side output."""

from __future__ import annotations

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.arguments import text_of
from flinkish.common.errors import InvalidProgramError
from flinkish.common.typeinfo import TypeInformation, type_of


class OutputTag:
    """The name of a side output, with the type of its records.

    A function emits to it with `yield tag, value`; `DataStream.get_side_output(tag)` reads it. Two tags with the same id are the
    same side output.

    Example:

        >>> late = OutputTag("late", Types.STRING())
        >>> late.tag_id
        'late'

    Args:
        tag_id: any text that is not empty.
        type_info: type of the records; a list of types stands for a row, None for pickled objects.

    Raises:
        InvalidProgramError: (a ValueError) if the id is missing or empty.
        InvalidArgumentError: (a TypeError) if the id is no str, or `type_info` is not of these types.
    """

    get_java_output_tag = AbsentMember(JAVA_OBJECT)

    __slots__ = ("tag_id", "type_info")

    tag_id: str
    type_info: TypeInformation

    def __init__(self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | None = None) -> None:
        if not tag_id:
            raise InvalidProgramError(f"An OutputTag needs an id; got {tag_id!r}.", hint='give it a name: OutputTag("late").')
        self.tag_id = text_of("The id of an OutputTag", tag_id, empty=True)
        self.type_info = type_of(type_info, "OutputTag", "type_info")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type_info!r})"
