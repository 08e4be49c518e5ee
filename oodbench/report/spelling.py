"""Names that files and options go by in; the words that a reader sees out."""

from oodbench.report.cells import plain
from oodbench.report.sentences import AVERAGE
from oodbench.results.result import Result

# As authors spell them. Any other name is read as words.
SPELLED = {
    "cifar10": "CIFAR-10", "cifar10-c": "CIFAR-10-C", "cifar100": "CIFAR-100", "colored-mnist": "Colored MNIST",
    "colored-mnist-irm": "Colored MNIST (IRM)", "digits-c": "Digits-C", "fashion-mnist": "FashionMNIST",
    "imagenet100": "ImageNet-100", "imagenet100-c": "ImageNet-100-C", "inaturalist": "iNaturalist", "isun": "iSUN",
    "lsun-c": "LSUN-C", "lsun-r": "LSUN-R", "mnist": "MNIST", "mnist-c": "MNIST-C", "pacs": "PACS",
    "pacs-photos": "PACS photos", "places365": "Places365", "rotated-mnist": "Rotated MNIST", "svhn": "SVHN",
    "textures": "Textures", "tiny-imagenet": "Tiny ImageNet",
    "gaussian_noise": "Gaussian noise", "gaussian_blur": "Gaussian blur", "jpeg_compression": "JPEG compression",
}  # fmt: skip
SHARES = {"pi_c": "π_c", "pi_s": "π_s"}


def in_words(name: str) -> str:
    """Of a data set, a domain or a kind of corruption; of several domains that are held out together, all."""
    each = (SPELLED.get(part) or part.replace("_", " ").replace("-", " ") for part in name.split("+"))
    return plain(" and ".join(each))


def setting_in_words(setting: str) -> str:
    """As results name it: `svhn,covariate=gaussian_blur,pi_c=0.1` is SVHN, Gaussian blur, π_c = 0.1."""
    return setting if setting.startswith(AVERAGE) else ", ".join(map(_part_in_words, setting.split(",")))


def _part_in_words(part: str) -> str:
    key, equals, value = part.partition("=")
    if not equals or key == "covariate":
        return in_words(value if equals else key)
    return f"{SHARES[key]} = {value}" if key in SHARES else f"{in_words(key)} {value}"


def suite_in_words(result: Result) -> str:
    """The suite that a result is of, its preset and its collection: CIFAR-10-C (preset cpu-effect)."""
    remarks = [
        *([] if result.preset is None else [f"preset {result.preset}"]),
        *([] if result.collection is None else [f"{result.collection} results"]),
    ]
    name = SPELLED.get(result.suite) or plain(result.suite)
    return f"{name} ({', '.join(remarks)})" if remarks else name
