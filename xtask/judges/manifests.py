"""Judges the manifests of winget and Scoop in a directory of recipes.

The rules are those of the manifests' documentation, for the fields that are used here: winget's manifests of version 1.6.0
(learn.microsoft.com/windows/package-manager/package/manifest) and Scoop's App-Manifests (github.com/ScoopInstaller/Scoop/wiki).
"""

import copy
import json
import re
import sys
from pathlib import Path

import jsonschema
from ruamel.yaml import YAML

ADDRESS = {"type": "string", "pattern": "^https://[^@]+$", "maxLength": 2048}
SUM = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}
WORD = {"type": "string", "minLength": 1, "maxLength": 40}


def an_object(fields, optional=()):
    return {
        "type": "object",
        "properties": fields,
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


def text(least, most):
    return {"type": "string", "minLength": least, "maxLength": most}


def winget(kind, fields):
    common = {
        "PackageIdentifier": {"type": "string", "pattern": r"^[^.\s\\/:*?\"<>|]{1,32}(\.[^.\s\\/:*?\"<>|]{1,32}){1,7}$"},
        "PackageVersion": {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)*$"},
        "ManifestType": {"const": kind},
        "ManifestVersion": {"const": "1.6.0"},
    }
    return an_object({**common, **fields})


WINGET = {
    "version": winget("version", {"DefaultLocale": {"const": "en-US"}}),
    "installer": winget(
        "installer",
        {
            "InstallerType": {"const": "zip"},
            "NestedInstallerType": {"const": "portable"},
            "NestedInstallerFiles": {
                "type": "array",
                "minItems": 1,
                "maxItems": 1024,
                "items": an_object({"RelativeFilePath": text(1, 512), "PortableCommandAlias": WORD}),
            },
            "Commands": {"type": "array", "items": WORD, "maxItems": 16, "uniqueItems": True},
            "Installers": {
                "type": "array",
                "minItems": 1,
                "maxItems": 1024,
                "items": an_object(
                    {
                        "Architecture": {"enum": ["x86", "x64", "arm", "arm64", "neutral"]},
                        "InstallerUrl": ADDRESS,
                        "InstallerSha256": SUM,
                    }
                ),
            },
        },
    ),
    "defaultLocale": winget(
        "defaultLocale",
        {
            "PackageLocale": {"const": "en-US"},
            "Publisher": text(2, 256),
            "PackageName": text(2, 256),
            "PackageUrl": ADDRESS,
            "License": text(3, 512),
            "ShortDescription": text(3, 256),
            "Description": text(3, 10000),
            "Moniker": WORD,
            "Tags": {"type": "array", "items": WORD, "maxItems": 16, "uniqueItems": True},
        },
    ),
}

SCOOP = an_object(
    {
        "version": {"type": "string", "pattern": r"^[\w.+-]+$"},
        "description": text(1, 256),
        "homepage": ADDRESS,
        # Several licences to choose from are separated by a bar.
        "license": {"type": "string", "pattern": r"^[A-Za-z0-9.-]+(\|[A-Za-z0-9.-]+)*$"},
        "architecture": an_object({"64bit": an_object({"url": ADDRESS, "hash": SUM})}),
        "bin": {"type": "string", "pattern": r"\.exe$"},
    }
)


def faults(value, schema):
    return [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(value)]


def without_each(value):
    """Yields copies of a value that lack one of its fields, at any depth, or have a wrong one in its place."""
    if isinstance(value, dict):
        for name in value:
            one = copy.deepcopy(value)
            del one[name]
            yield one
            yield {**copy.deepcopy(value), name: 7}
            for changed in without_each(value[name]):
                yield {**copy.deepcopy(value), name: changed}
    elif isinstance(value, list):
        for at, item in enumerate(value):
            for changed in without_each(item):
                yield value[:at] + [changed] + value[at + 1 :]


def judge(name, value, schema):
    found = faults(value, schema)
    assert not found, f"{name}: {found}"
    # What is judged is complete: whatever lacks a field is refused.
    for worse in without_each(value):
        assert faults(worse, schema), f"{name}: this is accepted too: {worse}"


def plain(value):
    return json.loads(json.dumps(value))


recipes = Path(sys.argv[1])
manifests = {}
for path in sorted((recipes / "winget").iterdir()):
    manifest = plain(YAML(typ="safe").load(path.read_text(encoding="utf-8")))
    kind = manifest["ManifestType"]
    judge(path.name, manifest, WINGET[kind])
    ending = {"version": "", "installer": ".installer", "defaultLocale": ".locale.en-US"}[kind]
    assert path.name == f"{manifest['PackageIdentifier']}{ending}.yaml", path.name
    manifests[kind] = manifest
assert set(manifests) == set(WINGET), set(manifests)
for field in ["PackageIdentifier", "PackageVersion"]:
    assert len({manifest[field] for manifest in manifests.values()}) == 1, field

scoop = json.loads((recipes / "scoop/platterfs.json").read_text(encoding="utf-8"))
judge("platterfs.json", scoop, SCOOP)
installer = manifests["installer"]["Installers"][0]
download = scoop["architecture"]["64bit"]
assert (download["url"], download["hash"]) == (installer["InstallerUrl"], installer["InstallerSha256"])
assert scoop["version"] == manifests["version"]["PackageVersion"]
assert re.search(re.escape(scoop["version"]), download["url"])
