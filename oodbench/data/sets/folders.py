"""Data sets that come as folders of images.

M. Cimpoi et al., Describing Textures in the Wild, 2014; B. Zhou et al., Places: A 10 Million Image Database for Scene
Recognition, 2017; F. Yu et al., LSUN, 2015, and P. Xu et al., TurkerGaze (iSUN), 2015, both as prepared for ODIN by
S. Liang et al., 2018; Y. Le and X. Yang, Tiny ImageNet Visual Recognition Challenge, 2015; J. Deng et al., ImageNet,
2009; G. Van Horn et al., The iNaturalist Species Classification and Detection Dataset, 2018, as sampled by R. Huang and
Y. Li, MOS, 2021; D. Li et al., Deeper, Broader and Artier Domain Generalization (PACS), 2017.
"""

from collections import Counter
from pathlib import Path

import numpy as np

from oodbench.data.download import Url
from oodbench.data.folder import Folder as Folder  # defined here, it would be in the catalogue
from oodbench.data.listing import Listing, below, holder, in_parts, labelled
from oodbench.data.pictures import Index, PictureSet
from oodbench.data.sources import Torchvision
from oodbench.errors import UserError


class Textures(PictureSet):
    """5,640 photographs of textures (DTD), 47 classes."""

    name = "textures"
    sources = (Torchvision("DTD", ({},)),)
    rows, num_classes = (5640, 0), 47
    style, size = "centre", 32


class Places365(PictureSet):
    """36,500 photographs of places, the validation part of Places365."""

    name = "places365"
    sources = (Torchvision("Places365", ({"split": "val", "small": True},)),)
    rows, num_classes = (36500, 0), 365
    style, size = "centre", 32


# Of LSUN and Tiny ImageNet several libraries, independent of each other, compare one and the same md5; of iSUN and
# iNaturalist none was found that two agree on.


class LSUNC(PictureSet):
    """10,000 cuttings of photographs of scenes (LSUN), cropped at random."""

    name = "lsun-c"
    sources = (Url("https://www.dropbox.com/s/fhtsw1m3qxlwj6h/LSUN.tar.gz?dl=1", "458a0a0ab8e5f1cb4516d7400568e460"),)
    rows, num_classes, pixels = (10000, 0), 1, "36x36"
    style, size = "padded_crop", 32


class LSUNR(PictureSet):
    """10,000 photographs of scenes (LSUN) resized to 32x32."""

    name = "lsun-r"
    sources = (
        Url("https://www.dropbox.com/s/moqh2wh8696c3yl/LSUN_resize.tar.gz?dl=1", "278b7b31c8cb7e804a1465a8ce03a2dc"),
    )
    rows, num_classes, pixels = (10000, 0), 1, "32x32"
    style, size = "squeezed", 32


class ISUN(PictureSet):
    """8,925 photographs of scenes (iSUN) resized to 32x32."""

    name = "isun"
    sources = (Url("https://www.dropbox.com/s/ssz7qxfqae0cca5/iSUN.tar.gz?dl=1"),)
    rows, num_classes, pixels = (8925, 0), 1, "32x32"
    style, size = "squeezed", 32


class TinyImageNet(PictureSet):
    """110,000 photographs at 64x64, 200 classes of ImageNet; the validation part serves as test part."""

    name = "tiny-imagenet"
    sources = (Url("https://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de"),)
    has_test_part = True
    rows, num_classes, pixels = (100000, 10000), 200, "64x64"
    style, size = "squeezed", 64

    def arrange(self, root: Path, names: list[str]) -> Listing:
        root, names = _with_parts(self.name, root, names)
        annotations = root / "val" / "val_annotations.txt"
        if not annotations.is_file():  # sorted into class folders, as many do
            return in_parts(root, names, "val")
        kinds = _annotated(annotations)
        rows = []
        for name in names:
            steps = name.split("/")
            if steps[0] == "train":
                rows.append((name, steps[1], False))
            elif steps[0] == "val":
                if steps[-1] not in kinds:
                    raise UserError(f"'{annotations}' says nothing of '{steps[-1]}'; get the set again")
                rows.append((name, kinds[steps[-1]], True))
        strange = {kind for _, kind, test in rows if test} - {kind for _, kind, test in rows if not test}
        if strange:
            raise UserError(f"'{annotations}' names the class '{min(strange)}', which 'train' lacks; get the set again")
        return labelled(root, rows)


def _annotated(path: Path) -> dict[str, str]:
    """Class by file name: the first two columns."""
    try:
        lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return {line[0]: line[1] for line in lines}
    except (OSError, UnicodeDecodeError, IndexError):
        raise UserError(f"'{path}' is damaged; get the set again") from None


def _with_parts(name: str, root: Path, names: list[str]) -> tuple[Path, list[str]]:
    """The folder that holds `train` and `val`."""
    place, lacking = holder(names, ("train", "val"))
    if lacking:
        raise UserError(
            f"'{root}' does not hold '{name}': looked for train/<class>/ and val/<class>/, found no {lacking[0]}/"
        )
    return below(root, names, place)


class ImageNet100(PictureSet):
    """100 classes of ImageNet, those of the paper; the validation part serves as test part."""

    name = "imagenet100"
    has_test_part = True
    rows, num_classes = (None, 5000), 100
    style, size = "inner_centre", 224

    def arrange(self, root: Path, names: list[str]) -> Listing:
        root, names = _with_parts(self.name, root, names)
        if not any(name.startswith("val/") and name.count("/") > 1 for name in names):
            raise UserError(f"'{root / 'val'}' holds images without class folders; sort them into val/<wnid>/ first")
        return in_parts(root, names, "val", WNIDS.split())


class INaturalist(PictureSet):
    """10,000 photographs of plants (iNaturalist, the MOS paper's subset)."""

    name = "inaturalist"
    sources = (Url("https://pages.cs.wisc.edu/~huangrui/imagenet_ood_dataset/iNaturalist.tar.gz"),)
    rows, num_classes = (10000, 0), 1
    style, size = "inner_centre", 224


class PACS(PictureSet):
    """9,991 images of seven classes in four domains: art paintings, cartoons, photographs, sketches."""

    name = "pacs"
    rows, num_classes, pixels = (9991, 0), 7, "227x227"
    style, size = "squeezed", 224  # as DomainBed evaluates
    domains = ("art_painting", "cartoon", "photo", "sketch")
    per_domain = (2048, 2344, 1670, 3929)

    def arrange(self, root: Path, names: list[str]) -> Listing:
        place, lacking = holder(names, self.domains)
        if lacking:
            raise UserError(
                f"'{root / place}' does not hold '{self.name}': looked for {', '.join(self.domains)}, each with a "
                f"folder per class, found no {' and no '.join(lacking)}"
            )
        root, names = below(root, names, place)
        names = [name for name in names if name.split("/")[0] in self.domains]
        kinds: dict[str, set[str]] = {domain: set() for domain in self.domains}
        rows = []
        for name in names:
            domain, *inner = name.split("/")
            if len(inner) < 2:
                raise UserError(f"'{root / name}' is in no class folder; move or remove it")
            kinds[domain].add(inner[0])
            rows.append((name, inner[0], False))
        for domain in self.domains:
            for kind in sorted(set().union(*kinds.values()) - kinds[domain]):
                raise UserError(f"'{root / domain}' has no images of the class '{kind}', other domains do; add them")
        return labelled(root, rows)

    @property
    def domain_of(self) -> np.ndarray:  # type: ignore[override]
        return np.array([self.domains.index(name.partition("/")[0]) for name in self.index.names])

    def deviation_of(self, index: Index) -> str:
        counts = Counter(name.partition("/")[0] for name in index.names)
        for domain, official in zip(self.domains, self.per_domain, strict=True):
            if counts[domain] != official:
                return f"{counts[domain]:,} images of '{domain}', officially {official:,}"
        return super().deviation_of(index)


# The paper's appendix lists them.
WNIDS = """
    n01498041 n01514859 n01582220 n01608432 n01616318 n01687978 n01776313 n01806567 n01833805 n01882714
    n01910747 n01944390 n01985128 n02007558 n02071294 n02085620 n02114855 n02123045 n02128385 n02129165
    n02129604 n02165456 n02190166 n02219486 n02226429 n02279972 n02317335 n02326432 n02342885 n02363005
    n02391049 n02395406 n02403003 n02422699 n02442845 n02444819 n02480855 n02510455 n02640242 n02672831
    n02687172 n02701002 n02730930 n02769748 n02782093 n02787622 n02793495 n02799071 n02802426 n02814860
    n02840245 n02906734 n02948072 n02980441 n02999410 n03014705 n03028079 n03032252 n03125729 n03160309
    n03179701 n03220513 n03249569 n03291819 n03384352 n03388043 n03450230 n03481172 n03594734 n03594945
    n03627232 n03642806 n03649909 n03661043 n03676483 n03724870 n03733281 n03759954 n03761084 n03773504
    n03804744 n03916031 n03938244 n04004767 n04026417 n04090263 n04133789 n04153751 n04296562 n04330267
    n04371774 n04404412 n04465501 n04485082 n04507155 n04536866 n04579432 n04606251 n07714990 n07745940
"""
