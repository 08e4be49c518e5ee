"""What `oodbench fit` prints of a detector."""

import torch
from detectors import part, toy_detector, toy_model, unseen

from oodbench.cli.detector_summary import summary
from oodbench.running.given.fitting import network_card
from oodbench.testing.toy_problem import toy


def test_a_detector_is_described_with_what_it_flags(tmp_path):
    detector = toy_detector(covariate=None, count=40)
    assert summary(detector, [], "the highest mean AUROC", tmp_path / "a b") == (
        "network    toy_net.py:build\n"
        f"scorer     KNN ({detector.card.scorer.code}, k 50)\n"
        "chosen by  the highest mean AUROC\n"
        f"threshold  OOD above {detector.threshold:.6g}, which flags 5.0 % of 40 held-out ID images; "
        "95 % interval 0.6 to 16.9 %\n"
        "\n"
        "set     kind           images    flagged    95 % interval\n"
        "id      held-out ID        40      5.0 %    0.6 to 16.9 %\n"
        f"unseen  semantic           60{100 * detector.flagged['unseen']:>9.1f} %    0.4 to 11.5 %\n"
        "\n"
        "note: 40 held-out ID images estimate the kept share only roughly; 100 or more are better\n"
        "\n"
        f"saved in '{tmp_path}/a b'; use it with:\n"
        f"  oodbench predict '{tmp_path}/a b' IMAGES --model toy_net.py:build"
    )


def test_what_needs_not_be_said_is_not():
    train = part(toy().data.labelled.images, toy().data.labelled.y, "train")
    stored = network_card(toy_model(), "timm:toy", {"name": "toy"}, train)
    text = summary(toy_detector("msp", network=stored, semantic={"many": part(unseen(60, 22), torch.zeros(60), "m")}))
    assert "chosen by" not in text and "note:" not in text and "saved in" not in text and "(msp@" in text


def test_a_note_that_was_said_is_not_repeated():
    detector = toy_detector(covariate=None, count=40)
    assert detector.notes and "note: " in summary(detector)
    assert "note: " not in summary(detector, detector.notes)
