"""What a table says where networks have learned from more labels than what starts from them."""

from made_results import a_result

from oodbench.report import tables
from oodbench.results.result import DataRead, PartRead


def with_parts(method, **rows):
    parts = {name: PartRead(count, "digest", "cifar10") for name, count in rows.items()}
    return a_result(method=method, metrics={"id_acc": 0.9}, data=DataRead(parts=parts))


def notes(*results):
    (table,) = tables.build(list(results), images=False)
    return [note for note in table.notes if "48,000" in note]


def test_a_larger_base_is_said_once_under_a_table_with_both_numbers():
    both = [with_parts(method, base=48000, labelled=25000) for method in ("erm", "scone")]
    (note,) = notes(*both)
    assert "25,000" in note


def test_nothing_is_said_where_all_learn_from_the_labeled_images():
    assert notes(with_parts("erm", labelled=48000)) == []
