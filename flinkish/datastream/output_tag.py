"""OutputTag: the name and type of a side output."""

from flinkish.udf.output_tag import OutputTag as OutputTag
