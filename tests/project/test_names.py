"""A class is known by its name: no public class name of the product stands in two modules."""

from tests.project.rooms import repeated_classes, sources


def test_no_public_class_name_stands_twice() -> None:
    assert repeated_classes(sources()) == {}
