"""Ways to damage a file: bytes by chance, members of an archive under right checksums, the structure of a text.

Every function takes the content of a file and a random generator, and gives the damaged content. What a function does
not understand, since it was damaged before, it damages as bytes.
"""

import io
import json
import pickletools
import random
import zipfile
from collections.abc import Callable
from typing import Any

import yaml

Damage = Callable[[bytes, random.Random], bytes]
HUGE = (b"\xff" * 4, b"\xff\xff\xff\x7f", b"\xff" * 8, b"\0" * 8, b"9" * 40, b"-1", b"1e999")
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**63,
    10**400,
    1e308,
    float("nan"),
    "",
    "x",
    "\ud800",
    "9" * 5000,
    [],
    {},
    [[]],
    {"": None},
)


def in_bytes(content: bytes, chance: random.Random) -> bytes:
    """One to three wounds: bits flipped, bytes overwritten, cut off, cut out, doubled, put in or exchanged."""
    damaged = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        start = chance.randrange(len(damaged) + 1)
        if chance.random() < 0.4:  # the beginning of a file says what the rest is
            start = chance.randrange(min(len(damaged), 200) + 1)
        length = chance.choice((1, 1, 2, 4, 16, 512))
        end = start + length
        match chance.randrange(8):
            case 0:
                for i in range(start, min(start + 1, len(damaged))):
                    damaged[i] ^= 1 << chance.randrange(8)
            case 1:
                damaged[start:end] = chance.choice((b"\0", b"\xff", chance.randbytes(1))) * length
            case 2:
                del damaged[start:]
            case 3:
                del damaged[start:end]
            case 4:
                damaged[start:start] = damaged[start:end]
            case 5:
                damaged[start:start] = chance.randbytes(length)
            case 6:
                number = chance.choice(HUGE)
                damaged[start : start + len(number)] = number
            case 7:
                other = chance.randrange(len(damaged) + 1)
                one, two = damaged[start:end], damaged[other : other + length]
                damaged[start:end] = two
                damaged[other : other + length] = one
    return bytes(damaged)


def in_a_member(content: bytes, chance: random.Random) -> bytes:
    """One member of a zip archive damaged, doubled, renamed or left out; checksums and directory fit what is there."""
    try:
        packed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(packed, "w") as after:
            members = before.infolist()
            victim = chance.choice(members)
            for member in members:
                inner = before.read(member)
                if member is victim:
                    match chance.randrange(8):
                        case 0:
                            continue
                        case 1:
                            member.filename += "x"
                        case 2:
                            inner = before.read(chance.choice(members))
                        case _ if member.filename.endswith(".pkl"):
                            inner = chance.choice((in_bytes, in_opcodes))(inner, chance)
                        case _:
                            inner = in_bytes(inner, chance)
                after.writestr(member.filename, inner, member.compress_type)
        return packed.getvalue()
    except (zipfile.BadZipFile, OSError, IndexError):
        return in_bytes(content, chance)


def in_opcodes(content: bytes, chance: random.Random) -> bytes:
    """One opcode of a pickle left out, doubled, moved, or exchanged for another that takes as much."""
    try:
        places = [place for _, _, place in pickletools.genops(content) if place is not None]
    except (ValueError, IndexError, UnicodeDecodeError):
        return in_bytes(content, chance)
    i = chance.randrange(len(places))
    start, end = places[i], places[i + 1] if i + 1 < len(places) else len(content)
    opcode = content[start:end]
    match chance.randrange(5):
        case 0:
            changed = b""
        case 1:
            changed = opcode * chance.choice((2, 3, 1000))
        case 2:
            changed = b"\x8a\x08" + chance.choice((b"\xff" * 7 + b"\x7f", b"\0" * 7 + b"\x80", b"\1" + b"\0" * 7))
        case 3:
            changed = chance.choice((b"N", b"]", b"}", b")", b"\x88", b"0", b"2", b"R", b"b", b"Q", b"."))
        case _:
            other = chance.randrange(len(places) - 1)
            changed = content[places[other] : places[other + 1]]
    return content[:start] + changed + content[end:]


def in_json(content: bytes, chance: random.Random) -> bytes:
    try:
        values = json.loads(content)
    except ValueError:
        return in_bytes(content, chance)
    return json.dumps(in_values(values, chance)).encode()


def in_header(content: bytes, chance: random.Random) -> bytes:
    """One value of the JSON that a .safetensors file begins with; its length fits."""
    length = int.from_bytes(content[:8], "little")
    try:
        header = json.dumps(in_values(json.loads(content[8 : 8 + length]), chance)).encode()
    except ValueError:
        return in_bytes(content, chance)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def in_yaml(content: bytes, chance: random.Random) -> bytes:
    try:
        values = yaml.safe_load(content)
        return yaml.safe_dump(in_values(values, chance), allow_unicode=True).encode(errors="surrogatepass")
    except (yaml.YAMLError, ValueError):
        return in_bytes(content, chance)
    except RecursionError:  # too deep to be written so
        return content + b"\nx: " + b"[" * chance.choice((100, 5000))


def in_values(values: Any, chance: random.Random) -> Any:
    """One value left out, doubled, exchanged for another, of another type, or far too deep."""
    inside: list[tuple[Any, Any]] = []  # every container and one of its keys

    def walk(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            inside.append((value, key))
            walk(value[key])

    walk(values)
    if not inside or chance.random() < 0.02:
        return chance.choice(ODD)
    container, key = chance.choice(inside)
    match chance.randrange(5):
        case 0:
            del container[key]
        case 1 if isinstance(container, dict):
            container[f"{key}2"] = container[key]
        case 1:
            container.append(container[key])
        case 2:
            other, place = chance.choice(inside)
            container[key] = json.loads(json.dumps(other.get(place) if isinstance(other, dict) else other[place:]))
        case 3:
            deep: Any = container[key]
            for _ in range(chance.choice((1, 5, 500))):
                deep = chance.choice(([deep], {"a": deep}))
            container[key] = deep
        case _:
            container[key] = chance.choice(ODD)
    return values
