"""The files to copy are well-formed, their commands exist, and their times fit."""

from __future__ import annotations

import configparser
import re
import shlex
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from bee_core.cli import main
from bee_core.service.exits import Exit

from .markdown import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "deploy.md"
FILES = {block.language: block.text for block in blocks(PAGE)}
MARGIN = 15


@pytest.fixture
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(FILES["ini"].replace("Environment=BEE", "SetEnvironment=BEE"))
    return parser


@pytest.fixture
def manifests() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(FILES["yaml"])}


def parsed(words: list[str]) -> click.Context:
    """The command that is meant. Fails for one that is not there, or an option it does not have."""
    group: click.Command = main
    context = click.Context(main, info_name="bee")
    while isinstance(group, click.Group):
        name, *words = words
        found = group.get_command(context, name)
        assert found is not None, f"no command {name}"
        group = found
        if not isinstance(group, click.Group):
            return group.make_context(name, words, parent=context)
    raise AssertionError


def grace_of(words: list[str]) -> float:
    return float(parsed(words).params["grace"])


def test_the_commands_of_the_unit_exist(unit: configparser.ConfigParser) -> None:
    for name in ("ExecStart", "ExecStartPre"):
        program, *words = shlex.split(unit["Service"][name])
        assert program.endswith("/bin/bee")
        parsed(words)


def test_systemd_waits_for_the_grace_and_for_what_is_given_back(
    unit: configparser.ConfigParser,
) -> None:
    service = unit["Service"]
    grace = grace_of(shlex.split(service["ExecStart"])[1:])

    assert float(service["TimeoutStopSec"]) >= grace + MARGIN
    assert "mixed" == service["KillMode"]


def test_systemd_does_not_restart_what_will_end_the_same_way(
    unit: configparser.ConfigParser,
) -> None:
    hopeless = {str(int(code)) for code in (Exit.USAGE, Exit.MISCONFIGURED)}

    assert hopeless == set(unit["Service"]["RestartPreventExitStatus"].split())


def test_every_manifest_has_what_kubernetes_asks_of_all(manifests: dict[str, Any]) -> None:
    assert {"Secret", "Deployment", "PodDisruptionBudget"} == set(manifests)
    for one in manifests.values():
        assert one["apiVersion"]
        assert "shop-jobs" == one["metadata"]["name"]


def test_the_commands_of_the_deployment_exist(manifests: dict[str, Any]) -> None:
    pod = manifests["Deployment"]["spec"]["template"]["spec"]
    (jobs,) = pod["containers"]
    probes = [jobs[name]["exec"]["command"] for name in jobs if name.endswith("Probe")]
    commands = [jobs["command"], *probes, *(one["command"] for one in pod["initContainers"])]

    for program, *words in commands:
        assert "bee" == program
        parsed(words)
    assert 3 == len(probes)


def test_kubernetes_waits_for_the_grace_and_for_what_is_given_back(
    manifests: dict[str, Any],
) -> None:
    pod = manifests["Deployment"]["spec"]["template"]["spec"]

    grace = grace_of(pod["containers"][0]["command"][1:])
    assert pod["terminationGracePeriodSeconds"] >= grace + MARGIN


def test_labels_secrets_and_volumes_meet(manifests: dict[str, Any]) -> None:
    spec = manifests["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    (jobs,) = pod["containers"]
    budget = manifests["PodDisruptionBudget"]["spec"]
    references = re.findall(r"secretKeyRef: \{name: ([\w-]+), key: ([\w-]+)\}", FILES["yaml"])
    (beat,) = [one["value"] for one in jobs["env"] if one["name"] == "BEE_HEARTBEAT_FILE"]

    assert spec["selector"] == budget["selector"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert {("shop-jobs", key) for key in manifests["Secret"]["stringData"]} == set(references)
    assert {one["name"] for one in pod["volumes"]} == {one["name"] for one in jobs["volumeMounts"]}
    assert any(beat.startswith(one["mountPath"] + "/") for one in jobs["volumeMounts"])
