"""A class is known by its name: no public class name of the product stands in two modules."""

from tests.project.rooms import repeated_classes, sources

LEFT = frozenset({"Heard", "Limits", "Step"})
"""What still stands twice. Take out what was renamed; nothing may be added."""


def test_no_public_class_name_stands_twice() -> None:
    repeated = repeated_classes(sources())
    assert {name: modules for name, modules in repeated.items() if name not in LEFT} == {}
