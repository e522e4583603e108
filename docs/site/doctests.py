"""An extension of griffe: examples of docstrings (lines from `>>>` to the next empty line) become blocks of code."""
import re

from griffe import Extension

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.M)


class Doctests(Extension):
    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
