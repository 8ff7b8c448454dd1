"""Names with which a request may try to leave a folder: as they stand in a path, and as the name of an uploaded file.

They are combinations of ways to write a step upwards, a slash, and a target; and single ones of known attacks: encoded once,
twice and three times, overlong UTF-8, backslashes, NUL, look-alikes of Unicode, absolute paths, drives, other schemes, devices.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

_UPWARDS: Final = """.. %2e%2e %2E. .%2e %252e%252e %25252e%25252e %c0%ae%c0%ae %e0%80%ae%e0%80%ae ..%00 ..;"""
_SLASHES: Final = r"""/ %2f %2F %252f %5c %255c \ %c0%af %c1%9c %ef%bc%8f %e2%88%95 // /./"""

_DOTS: Final = """
    . .. ... .... %2e %2e%2e .%20 ..%20 %20.. ..%09 ....//....//etc/passwd ..././..././etc/passwd ./../etc/passwd
    a/../../etc/passwd a%2f..%2f..%2fetc%2fpasswd log/../../../etc/passwd ..%2e/etc/passwd ../
"""
_ABSOLUTE: Final = r"""
    /etc/passwd //etc/passwd %2fetc%2fpasswd %2Fetc%2Fpasswd %252fetc%252fpasswd ///etc///passwd /%2e/etc/passwd %2f %2f%2f
    %5c%5chost%5cshare%5cfile \\host\share\file ~/.ssh/id_rsa ~root %7e/.ssh/id_rsa ~
"""
#: Drives, schemes, devices, streams.
_COLONS: Final = r"""
    C: C:%5cwindows%5cwin.ini C:\windows\win.ini c:/windows/win.ini C%3A%2Fwindows %43:win.ini C:win.ini file:///etc/passwd
    file:%2f%2f%2fetc%2fpasswd file:etc http://127.0.0.1/ http:%2f%2f127.0.0.1%2f s3://bucket/key jar:file:a.zip!/x
    data:text/plain,x a.py::$DATA a.py:stream %5c%5c.%5cpipe%5cx %5c%5c%3f%5cC:%5cx x:1:2
"""
_CONTROLS: Final = """
    %00 a.py%00 a.py%00.txt %00/etc/passwd ..%00/ a%0ab a%0db a%0d%0aSet-Cookie:x a%1fb a%7fb a%c2%85b
"""
#: Characters that are, look like, or become a dot, a slash or a backslash; and such that cannot be seen.
_UNICODE: Final = """
    %e2%80%a4%e2%80%a4 %e2%80%a5 %e2%80%a5/etc/passwd %e2%80%a6 %ef%bc%8e%ef%bc%8e %ef%bc%8e%ef%bc%8e%ef%bc%8fetc ..%e2%81%84etc
    ..%e2%88%96etc ..%ef%bc%bcetc ..%e2%a7%b8etc ..%e2%95%b1etc a%e2%80%8bb a%e2%80%aeyp.a a%ef%bb%bfb a%c2%a0b a%e2%80%a8b
    %ef%b9%92%ef%b9%92 %e3%80%82%e3%80%82
"""
#: Not UTF-8; encodings of other programs.
_ENCODINGS: Final = """
    %ff %fe%fe %c0%80 %ed%a0%80 %u002e%u002e%u2215etc %u2024 %%32%65%%32%65 %25%32%65%25%32%65 %2525252e %252525 %25c0%25ae
    %26%23x2e; ..%3b/ a;/../b %3b a%3Bb
"""
_LONG: Final = ("a" * 256, "%61" * 256, "../" * 100, "%2e%2e%2f" * 100, "a/" * 1_500, "%c3%a9" * 128)

#: As they stand in a path.
IN_PATHS: Final = tuple(
    dict.fromkeys(
        [
            *(f"{up}{slash}{up}{slash}etc{slash}passwd" for up in _UPWARDS.split() for slash in _SLASHES.split()),
            *(name for some in (_DOTS, _ABSOLUTE, _COLONS, _CONTROLS, _UNICODE, _ENCODINGS) for name in some.split()),
            *_LONG,
        ]
    )
)
#: As names of files, which are not encoded: those above, and what these stand for.
IN_NAMES: Final = tuple(dict.fromkeys([*IN_PATHS, *(unquote(name, errors="surrogateescape") for name in IN_PATHS)]))
